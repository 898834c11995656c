"""Stream tables that read each other: refreshed to their least fixed point, published once."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch, failpoints
from anabranch.errors import (
    DataError,
    NotConverged,
    NotIncremental,
    Refused,
    UserError,
)
from anabranch.refresh.execute import backend as bench
from anabranch.spark.session import Spark
from tests.e2e.graphs import overdue, ticked
from tests.e2e.world import Outside, bag, nothing_changes, refused, rows
from tests.oracle.circle import closure_of

REACH = {
    "g.reach_a": "SELECT DISTINCT e.src, rb.dst FROM g.edges e JOIN g.reach_b rb ON e.dst = rb.src",
    "g.reach_b": "SELECT DISTINCT e.src, e.dst FROM g.edges e UNION ALL "
    "SELECT ra.src, e.dst FROM g.reach_a ra JOIN g.edges e ON ra.dst = e.src",
}
CLOSURE = (
    "SELECT src, dst FROM g.edges UNION "
    "SELECT r.src, e.dst FROM g.closure r JOIN g.edges e ON e.src = r.dst"
)


@pytest.fixture
def ab(tmp_path: Path, spark: Spark) -> Iterator[Anabranch]:
    with anabranch.connect(tmp_path, spark=spark.session, allow_circular=True) as opened:
        opened.sql("CREATE TABLE g.edges (src INT, dst INT)")
        yield opened


def edges(ab: Anabranch, *pairs: tuple[int, int | None]) -> None:
    values = ", ".join(map(str, pairs)).replace("None", "NULL")
    ab.sql(f"INSERT INTO g.edges VALUES {values}")


def last(ab: Anabranch, name: str) -> dict[str, Any]:
    return ab.history(name, 1)[0]


def row_of(ab: Anabranch, name: str) -> dict[str, Any]:
    return next(row for row in ab.status() if row["name"] == name)


# -- the six scenarios of the plan -------------------------------------------------------------------


def test_a_cycle_of_monotone_queries_converges(ab: Anabranch) -> None:
    edges(ab, (1, 2), (2, 3))
    ab.create_stream_tables(REACH, schedule=None)
    assert bag(ab.table("g.reach_a")) == rows((1, 3))
    assert bag(ab.table("g.reach_b")) == rows((1, 2), (2, 3))
    first = last(ab, "g.reach_a")
    assert (first["action"], first["fixpoint_iterations"]) == ("FULL", 3)
    assert first["cut_id"] == last(ab, "g.reach_b")["cut_id"]
    edges(ab, (3, 1))  # now it goes round
    ab.refresh("g.reach_b")
    every = {(src, dst) for src in (1, 2, 3) for dst in (1, 2, 3)}
    found = set(bag(ab.table("g.reach_a"))) | set(bag(ab.table("g.reach_b")))
    assert found == every
    line = last(ab, "g.reach_a")
    assert line["action"] == "DIFFERENTIAL" and line["reason"].startswith("semi-naively")
    assert line["fixpoint_iterations"] == len(json.loads(line["rounds"])["added"])
    assert row_of(ab, "g.reach_a")["last_fixpoint_iterations"] == line["fixpoint_iterations"]
    assert ab.verify("g.reach_a")["equal"] and ab.verify("g.reach_b")["equal"]
    (status,) = ab.scc_status()
    assert status["scc_id"] == row_of(ab, "g.reach_b")["scc_id"] is not None
    assert status["members"] == ["g.reach_a", "g.reach_b"] and status["is_monotone"]
    assert status["last_iterations"] == line["fixpoint_iterations"]
    assert status["last_converged_at"] is not None
    shown = ab.explain("g.reach_a")
    assert "component: g.reach_a, g.reach_b" in shown and "a round" in shown
    assert ab.sql("SELECT member_count FROM system.scc_status").first()[0] == 2


NOT_MONOTONE = {
    "SELECT src, dst FROM g.edges UNION\nSELECT src, max(dst) FROM g.x\nGROUP BY src": (
        "below an aggregate (line 3, column 1)"
    ),
    "SELECT src, dst FROM g.edges UNION\nSELECT e.src, x.dst FROM g.edges e\n"
    " LEFT JOIN g.x ON x.src = e.dst": "nullable side of an outer join (line 3, column 2)",
    "SELECT src, dst FROM g.edges EXCEPT SELECT src, dst FROM g.x": (
        "right side of EXCEPT (line 1, column 30)"
    ),
    "SELECT src, dst FROM g.edges e WHERE src NOT IN (SELECT dst FROM g.x)": (
        "inside NOT EXISTS or NOT IN (line 1, column 42)"
    ),
    "SELECT src, dst FROM g.edges UNION\nSELECT src, rank() OVER (ORDER BY src) FROM g.x": (
        "below a window function (line 2, column 13)"
    ),
    "SELECT src, dst FROM g.edges UNION (SELECT src, dst FROM g.x ORDER BY src, dst\nLIMIT 3)": (
        "below LIMIT (line 2, column 1)"
    ),
}


def test_cycles_that_are_not_monotone_are_refused(ab: Anabranch, outside: Outside) -> None:
    for query, words in NOT_MONOTONE.items():
        with refused(ab, outside, Refused, "g.x reads g.x", words):
            ab.create_stream_table("g.x", query)
    with refused(ab, outside, Refused, "refresh mode FULL", "itself"):
        ab.create_stream_table(
            "g.x", "SELECT src FROM g.edges UNION SELECT src FROM g.x", refresh_mode="FULL"
        )
    with refused(ab, outside, NotIncremental, "g.x", "NONDETERMINISTIC_FUNCTION"):
        ab.create_stream_table("g.x", "SELECT rand() AS r FROM g.edges UNION SELECT r FROM g.x")
    with refused(ab, outside, UserError, "columns of g.x cannot be found"):
        ab.create_stream_table("g.x", "SELECT * FROM g.x")


def test_convergence_within_the_limit(ab: Anabranch) -> None:
    edges(ab, *((node, node + 1) for node in range(1, 6)))
    ab.set("max_fixpoint_iterations", 6)
    actions = ab.spark_actions
    ab.create_stream_table("g.closure", CLOSURE, schedule=None)
    assert ab.spark_actions - actions <= 6 + 1
    assert last(ab, "g.closure")["fixpoint_iterations"] == 6
    assert bag(ab.table("g.closure")) == Counter(
        closure_of([(node, node + 1) for node in range(1, 6)])
    )


@pytest.mark.extended
def test_no_convergence_is_an_error_of_all_members(ab: Anabranch, outside: Outside) -> None:
    """Values grow up to a bound that lies in a table; then it is taken away."""
    ab.sql("CREATE TABLE g.bound (top INT)")
    ab.sql("INSERT INTO g.bound VALUES (3)")
    edges(ab, (1, 1))
    hops = {
        "g.even": "SELECT src AS n FROM g.edges UNION SELECT n + 1 FROM g.odd",
        "g.odd": "SELECT e.n + 1 AS n FROM g.even e JOIN g.bound b ON e.n < b.top",
    }
    ab.create_stream_tables(hops, schedule=None)
    before = {name: bag(ab.table(name)) for name in hops}
    assert before["g.even"] == rows((1,), (3,))
    ab.set("max_fixpoint_iterations", 5)
    ab.sql("UPDATE g.bound SET top = 1000000")
    cuts, files = ab.cuts(), outside.files()
    with pytest.raises(NotConverged, match=r"g\.even and g\.odd: no fixed point after 5 rounds"):
        ab.refresh()
    assert ab.cuts() == cuts and outside.files() == files
    for name in hops:
        row = row_of(ab, name)
        assert row["status"] == "ERROR" and "still grew" in row["last_error"]
        assert bag(ab.table(name)) == before[name]
        assert last(ab, name)["status"] == "FAILED"
    ab.sql("UPDATE g.bound SET top = 5")
    ab.resume("g.even")
    ab.resume("g.odd")
    ab.refresh()
    assert bag(ab.table("g.even")) == rows((1,), (3,), (5,))
    assert {row_of(ab, name)["status"] for name in hops} == {"ACTIVE"}


@pytest.mark.extended
def test_nothing_is_created_without_a_fixed_point(ab: Anabranch, outside: Outside) -> None:
    edges(ab, (1, 1))
    query = "SELECT src AS n FROM g.edges UNION SELECT n + 1 FROM g.up"
    with nothing_changes(ab, outside), pytest.raises(NotConverged) as caught:
        ab.create_stream_table("g.up", query, max_fixpoint_iterations=3)
    assert "no fixed point after 3 rounds" in caught.value.message
    assert caught.value.message.endswith("nothing was created")
    assert "RESUME" not in (caught.value.hint or "")
    assert ab.status() == []


@pytest.mark.extended
def test_bounds_are_kept_with_the_cycle(ab: Anabranch) -> None:
    """What was said when it was created holds in a process that says something else."""
    edges(ab, *((node, node + 1) for node in range(4)))
    ab.set("max_fixpoint_rows", 15)
    ab.create_stream_table("g.closure", CLOSURE, schedule=None, max_fixpoint_time="1h")
    ab.set("max_fixpoint_rows", 1_000_000)
    (shown,) = ab.scc_status()
    assert (shown["max_fixpoint_rows"], shown["max_fixpoint_time"]) == (15, 3600)
    assert shown["max_fixpoint_iterations"] == 100 and shown["is_monotone"] is True
    edges(ab, *((node, node + 1) for node in range(4, 9)))
    with pytest.raises(NotConverged, match=r"max_fixpoint_rows is 15\): g\.closure still grew"):
        ab.refresh()
    ab.sql("ALTER STREAM TABLE g.closure SET (max_fixpoint_rows = 500)")
    assert ab.sql("SELECT max_fixpoint_rows FROM system.scc_status").first()[0] == 500
    ab.refresh()
    assert bag(ab.table("g.closure")) == Counter(closure_of([(n, n + 1) for n in range(9)]))
    ab.alter_stream_table("g.closure", max_fixpoint_iterations=3)
    ab.sql("DELETE FROM g.edges WHERE src = 0")
    with pytest.raises(NotConverged, match=r"after 3 rounds, which took away .* still lost"):
        ab.refresh()


EXPLODING = """SELECT src, dst FROM g.edges
UNION SELECT r.src + n.id, r.dst FROM {name} r CROSS JOIN {by} n WHERE r.src < 1000"""
COUNTING = """SELECT src, dst FROM g.edges
UNION SELECT dst, src FROM g.r WHERE src < 0
UNION SELECT r.src, CAST(COUNT(*) AS INT) FROM g.edges r CROSS JOIN g.big a CROSS JOIN g.big b
WHERE (a.id * 31 + b.id) % 7 <> 9 GROUP BY r.src"""


def numbers(ab: Anabranch) -> None:
    edges(ab, (1, 2))
    for name, count in (("g.few", 3), ("g.mid", 1600), ("g.big", 200_000)):
        ab.sql(
            f"CREATE TABLE {name} AS SELECT CAST(id + 1000 AS INT) AS id FROM range(0, {count}, 1, 2)"
        )


def test_a_round_with_too_many_rows_is_stopped_on_its_way(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the round that goes past the bound is stored, though no task alone goes past it."""
    numbers(ab)
    found: list[int] = []
    monkeypatch.setattr(bench.SparkBackend, "kept", _counting(found))
    for name, by in (("g.r", "g.few"), ("g.s", "g.big"), ("g.s", "g.mid")):
        found.clear()
        query = EXPLODING.format(name=name, by=by)
        if by == "g.few":
            ab.create_stream_table(name, query, schedule=None, max_fixpoint_rows=1000)
            assert sum(found) == 4
        else:
            with pytest.raises(NotConverged, match=r"after 2 rounds.*max_fixpoint_rows is 1,000"):
                ab.create_stream_table(name, query, schedule=None, max_fixpoint_rows=1000)
            assert found == [1]


def test_a_round_that_takes_too_long_is_stopped_on_its_way(ab: Anabranch) -> None:
    numbers(ab)
    with pytest.raises(NotConverged, match="max_fixpoint_time is 5s"):
        ab.create_stream_table("g.r", COUNTING, schedule=None, max_fixpoint_time="5s")
    assert ab.status() == []
    assert ab.table("g.big").count() == 200_000  # later jobs are not cancelled


def _counting(found: list[int]) -> Any:
    whole = bench.SparkBackend.kept

    def kept(self: Any, rows: Any, batches: Any, batch: Any) -> int:
        found.append(batch.rows)
        return whole(self, rows, batches, batch)

    return kept


def test_a_member_that_is_no_longer_monotone_is_told(ab: Anabranch) -> None:
    edges(ab, (1, 2))
    ab.sql("CREATE VIEW g.seen AS SELECT src, dst FROM g.edges")
    ab.create_stream_table(
        "g.r", "SELECT src, dst FROM g.seen UNION SELECT dst, src FROM g.r", schedule=None
    )
    assert [each["is_monotone"] for each in ab.scc_status()] == [True]
    ab.sql(
        "CREATE OR REPLACE VIEW g.seen AS SELECT src, dst FROM g.edges "
        "WHERE NOT EXISTS (SELECT 1 FROM g.r)"
    )
    with pytest.raises(Refused, match="inside NOT EXISTS"):
        ab.refresh()
    assert [each["is_monotone"] for each in ab.scc_status()] == [False]
    ab.sql("CREATE OR REPLACE VIEW g.seen AS SELECT src, dst FROM g.edges WHERE src > 0")
    ab.refresh()
    assert [each["is_monotone"] for each in ab.scc_status()] == [True]


ANY = "SELECT n.id FROM g.nodes n WHERE n.id > ANY (SELECT id FROM {other}) OR n.id = 77"
ASKING = {
    "exists": "SELECT n.id FROM g.nodes n WHERE EXISTS (SELECT 1 FROM {other})",
    "any": ANY,
    "cross": "SELECT DISTINCT n.id FROM g.nodes n CROSS JOIN {other} o",
}


@pytest.mark.extended
def test_a_strict_cycle_follows_every_delete_from_changes(ab: Anabranch) -> None:
    """All that leaned on the row that went is gone, and nothing was computed from empty for it."""
    ab.sql("CREATE TABLE g.seed (id INT)")
    ab.sql("CREATE TABLE g.nodes (id INT)")
    ab.sql("INSERT INTO g.seed VALUES (1)")
    ab.sql("INSERT INTO g.nodes VALUES (2), (3), (4)")
    cycles = {}
    for name, query in ASKING.items():
        other = f"g.{name}_b"
        cycles[f"g.{name}_a"] = f"SELECT id FROM g.seed UNION {query.format(other=other)}"
        cycles[other] = f"SELECT id FROM g.{name}_a"
    ab.create_stream_tables(cycles, schedule=None, refresh_mode="DIFFERENTIAL")
    ab.sql("DELETE FROM g.nodes WHERE id = 4")
    ab.sql("INSERT INTO g.nodes VALUES (77)")
    ab.refresh()
    expected = rows((1,), (2,), (3,), (77,))
    assert {name: bag(ab.table(name)) for name in cycles} == dict.fromkeys(cycles, expected)
    ab.sql("DELETE FROM g.seed")
    ab.refresh()
    found = {name: bag(ab.table(name)) for name in cycles}
    assert found == {name: rows((77,)) if "any" in name else rows() for name in cycles}
    for name in cycles:
        line = last(ab, name)
        assert line["action"] == "DIFFERENTIAL", line
        assert line["reason"].startswith("delete and rederive"), line


@pytest.mark.extended
def test_a_strict_cycle_survives_pairs_that_never_were(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each state of the query holds; a row that went with one that came would divide by zero."""
    ab.sql("CREATE TABLE g.parts (part INT)")
    ab.sql("INSERT INTO g.parts VALUES (1), (2)")
    edges(ab, (5, 1), (6, 1), (7, 1))
    query = (
        "SELECT e.src, e.dst FROM g.edges e JOIN g.parts p ON 10 / (e.src - p.part) > 1 UNION "
        "SELECT dst, src FROM g.r"
    )
    ab.create_stream_table("g.r", query, schedule=None, refresh_mode="DIFFERENTIAL")
    with ab.transaction():
        ab.sql("DELETE FROM g.edges WHERE src = 5")
        ab.sql("INSERT INTO g.parts VALUES (5)")
    restarted: list[bool] = []
    restart = bench.SparkBackend.restart
    monkeypatch.setattr(
        bench.SparkBackend, "restart", lambda own: (restarted.append(True), restart(own))[1]
    )
    ab.refresh()
    assert restarted == [True]
    assert bag(ab.table("g.r")) == rows((6, 1), (7, 1), (1, 6), (1, 7))
    assert last(ab, "g.r")["reason"].startswith("delete and rederive")
    ab.sql("INSERT INTO g.edges VALUES (2, 9)")  # 2 - 2: now it is the data
    with pytest.raises(DataError):
        ab.refresh()


def test_breaking_the_cycle_clears_scc_id(ab: Anabranch) -> None:
    edges(ab, (1, 2), (2, 3))
    ab.create_stream_tables(REACH, schedule=None)
    with pytest.raises(Refused, match=r"g\.reach_a is read by g\.reach_b") as caught:
        ab.drop_stream_table("g.reach_a")
    assert "first break the cycle" in (caught.value.hint or "")
    ab.alter_stream_table("g.reach_b", query="SELECT DISTINCT src, dst FROM g.edges")
    assert row_of(ab, "g.reach_a")["scc_id"] is None and row_of(ab, "g.reach_b")["scc_id"] is None
    assert ab.scc_status() == []
    assert bag(ab.table("g.reach_a")) == rows((1, 3))
    assert ab.verify("g.reach_a")["equal"]
    ab.sql(f"ALTER STREAM TABLE g.reach_b AS {REACH['g.reach_b']}")  # and closed again
    assert len(ab.scc_status()) == 1
    assert bag(ab.table("g.reach_b")) == rows((1, 2), (2, 3))
    ab.drop_stream_table("g.reach_a", cascade=True)
    assert ab.scc_status() == [] and ab.status() == []


@pytest.mark.extended
def test_a_tick_refreshes_a_component_as_often_as_its_most_frequent_member(ab: Anabranch) -> None:
    """One of two is due: both are refreshed.  What a tick cannot settle is tried again once mended."""
    edges(ab, (1, 2))
    ab.create_stream_table("g.reach", "SELECT src, dst FROM g.edges", schedule="1h")
    ab.create_stream_table(
        "g.more",
        "SELECT r.src, e.dst FROM g.reach r JOIN g.edges e ON e.src = r.dst WHERE e.dst < 99",
        schedule="1 week",
    )
    ab.alter_stream_table(
        "g.reach", query="SELECT src, dst FROM g.edges UNION SELECT * FROM g.more"
    )
    both = ["g.more", "g.reach"]
    assert [part["members"] for part in ab.scc_status()] == [both]
    edges(ab, (2, 3), (3, 4))
    assert [each["reason"] for each in ticked(ab, both)] == ["not due"]
    overdue(ab, "g.reach")
    (done,) = ticked(ab, both)
    assert done["outcome"] == "PUBLISHED" and done["members"] == both
    assert bag(ab.table("g.more")) == rows((1, 3), (1, 4), (2, 4))
    before = {name: bag(ab.table(name)) for name in both}

    ab.set("max_fixpoint_iterations", 5)
    edges(ab, *((node, node + 1) for node in range(4, 12)))
    overdue(ab, "g.reach")
    (done,) = ticked(ab, both)
    assert done["outcome"] == "FAILED" and "no fixed point after 5 rounds" in done["reason"]
    assert {row_of(ab, name)["status"] for name in both} == {"ERROR"}
    assert {name: bag(ab.table(name)) for name in both} == before
    ab.sql("DELETE FROM g.edges WHERE src > 3")
    for name in both:
        ab.resume(name)
    overdue(ab, "g.reach")
    ticked(ab, both)
    assert {row_of(ab, name)["status"] for name in both} == {"ACTIVE"}
    assert all(ab.verify(name)["equal"] for name in both)

    ab.alter_stream_table("g.reach", query="SELECT src, dst FROM g.edges")
    ab.drop_stream_table("g.more")  # nobody reads it any more
    assert row_of(ab, "g.reach")["scc_id"] is None and ab.verify("g.reach")["equal"]


def test_cycles_are_refused_unless_they_are_allowed(ab: Anabranch, outside: Outside) -> None:
    ab.set("allow_circular", False)
    with refused(ab, outside, Refused, "g.reach_a -> g.reach_b -> g.reach_a", "allow_circular"):
        ab.create_stream_tables(REACH)
    ab.create_stream_table("g.p", "SELECT src, dst FROM g.edges", schedule=None)
    ab.create_stream_table("g.q", "SELECT src, dst FROM g.p", schedule=None)
    with refused(ab, outside, Refused, "g.p -> g.q -> g.p", "allow_circular"):
        ab.alter_stream_table("g.p", query="SELECT src, dst FROM g.edges UNION SELECT * FROM g.q")


# -- deletes, and whoever reads meanwhile ------------------------------------------------------------


@pytest.mark.parametrize(
    ("large", "steps"),
    [
        (True, 3),
        pytest.param(True, 9, marks=pytest.mark.slow),
        pytest.param(False, 5, marks=pytest.mark.slow),
    ],
)
@pytest.mark.extended
def test_random_edges_come_and_go(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch, large: bool, steps: int
) -> None:
    if large:  # the ways of tables that are not small: rows are marked, and looked up among marks
        monkeypatch.setattr(bench, "FEW_ROWS", 0)
        ab.sql("SET anabranch.small_table_rows = 0")
    dice = random.Random(5 + large)
    there: list[tuple[int, int | None]] = [(3, None)]
    there += [(dice.randint(1, 9), dice.randint(1, 9)) for _ in range(12)]
    edges(ab, *there)
    ab.create_stream_table("g.closure", CLOSURE, schedule=None)
    reasons = set()
    for step in range(steps):
        if step % 2:
            gone = dice.choice(there[1:])
            there = [pair for pair in there if pair != gone]
            ab.sql(f"DELETE FROM g.edges WHERE src = {gone[0]} AND dst = {gone[1]}")
        if step != 1:
            there.append((dice.randint(1, 9), dice.randint(1, 9)))
            edges(ab, there[-1])
        ab.refresh()
        assert bag(ab.table("g.closure")) == Counter(closure_of(there)), step
        reasons.add(last(ab, "g.closure")["reason"].split(":")[0])
    assert {"semi-naively", "delete and rederive"} <= reasons
    assert ab.verify("g.closure")["equal"]


def test_rows_that_only_support_each_other_go(ab: Anabranch, outside: Outside) -> None:
    edges(ab, (1, 2), (2, 3), (3, 2), *((node, node + 1) for node in range(10, 20)))
    ab.create_stream_table("g.closure", CLOSURE, schedule=None)
    ab.create_stream_table("g.pairs", "SELECT count(*) AS n FROM g.closure", schedule=None)
    ab.sql("DELETE FROM g.edges WHERE src = 1")
    ab.refresh()
    found = bag(ab.table("g.closure"))
    assert not {(1, 2), (1, 3)} & set(found)
    assert {(2, 2), (3, 3)} <= set(found)
    line = last(ab, "g.closure")
    assert line["reason"].startswith("delete and rederive: 1 changed rows")
    assert (line["rows_inserted"], line["rows_deleted"]) == (0, 2)
    assert last(ab, "g.pairs")["delta_rows"] == 2  # those who read it read the net change
    assert bag(ab.table("g.pairs")) == rows((sum(found.values()),))
    assert outside.bag("g.closure") == found
    ab.sql("DELETE FROM g.edges WHERE src > 1")
    ab.refresh()
    assert bag(ab.table("g.closure")) == rows()
    assert last(ab, "g.closure")["reason"].startswith("from empty: 12 deleted rows are 100%")
    left = {path for path in outside.files() if path.endswith(".parquet")}
    ab.sql("INSERT INTO g.edges VALUES (5, 6)")
    ab.refresh()
    assert bag(ab.table("g.closure")) == rows((5, 6))
    new = {path for path in outside.files() if path.endswith(".parquet")} - left
    assert sum("/closure-" in path for path in new) == 1, "batches that are not needed are gone"


@pytest.mark.extended
def test_a_change_that_leaves_counts_alone_iterates(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE g.seed (val INT)")
    ab.sql("INSERT INTO g.seed VALUES (1), (7), (8), (9)")
    copies = {
        "g.a": "SELECT val FROM g.seed UNION SELECT val FROM g.b",
        "g.b": "SELECT val FROM g.a",
    }
    ab.create_stream_tables(copies, schedule=None)
    ab.sql("UPDATE g.seed SET val = 2 WHERE val = 1")
    ab.refresh()
    for name in copies:
        assert bag(ab.table(name)) == rows((2,), (7,), (8,), (9,))
    ab.sql("DELETE FROM g.seed")
    ab.refresh()
    assert bag(ab.table("g.a")) == bag(ab.table("g.b")) == rows()


@pytest.mark.extended
def test_a_reader_during_the_rounds_sees_the_old_cut(ab: Anabranch) -> None:
    edges(ab, (1, 2), (2, 3), (3, 4))
    ab.create_stream_tables(REACH, schedule=None)
    old = {name: bag(ab.table(name)) for name in REACH}
    seen: list[bool] = []

    def look(event: str, facts: Any) -> None:
        if event == "round":
            with ab.at() as world:
                seen.append(all(bag(world.table(name)) == old[name] for name in REACH))

    ab.on_progress = look
    edges(ab, (4, 5), (5, 6))
    ab.refresh()
    ab.on_progress = None
    assert len(seen) >= 3 and all(seen)
    assert all(bag(ab.table(name)) != old[name] for name in REACH)


@pytest.mark.extended
def test_a_failure_in_a_middle_round_leaves_nothing(
    ab: Anabranch, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges(ab, (1, 2), (2, 3))
    ab.create_stream_tables(REACH, schedule=None)
    before = {name: bag(ab.table(name)) for name in REACH}
    edges(ab, (3, 4), (4, 5))
    cuts, files = ab.cuts(), outside.files()

    def fail(step: str) -> None:
        if step == f"{failpoints.ROUND}2":
            raise OSError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "hook", fail)
        with pytest.raises(anabranch.errors.InternalError, match="the disk is gone"):
            ab.refresh()
    assert ab.cuts() == cuts and outside.files() == files
    assert {name: bag(ab.table(name)) for name in REACH} == before
    ab.refresh()
    assert (1, 4) in bag(ab.table("g.reach_a")) or (1, 4) in bag(ab.table("g.reach_b"))
    assert ab.verify("g.reach_b")["equal"]


# -- a component among other tables ------------------------------------------------------------------


@pytest.mark.extended
def test_a_diamond_above_and_below_a_component_is_one_cut(ab: Anabranch) -> None:
    """edges -> low, high -> (a <-> b) -> some, others -> met; with EXCEPT and count from outside."""
    edges(ab, (1, 2), (2, 13), (13, 14))
    ab.create_stream_tables(
        {
            "g.low": "SELECT src, dst FROM g.edges WHERE src < 10",
            "g.high": "SELECT src, dst FROM g.edges WHERE src >= 10",
            "g.a": "SELECT src, dst FROM g.low UNION "
            "SELECT b.src, l.dst FROM g.b JOIN g.low l ON l.src = b.dst",
            "g.b": "SELECT src, dst FROM g.high UNION SELECT src, dst FROM g.a UNION "
            "SELECT a.src, h.dst FROM g.a JOIN g.high h ON h.src = a.dst",
            "g.some": "SELECT src, count(*) AS n FROM g.a GROUP BY src",
            "g.others": "SELECT src, dst FROM g.b EXCEPT SELECT src, dst FROM g.a",
            "g.met": "SELECT s.src, s.n, o.dst FROM g.some s JOIN g.others o ON s.src = o.src",
        },
        schedule=None,
    )
    for change in (
        "INSERT INTO g.edges VALUES (14, 3), (3, 1)",
        "DELETE FROM g.edges WHERE src = 13",
    ):
        ab.sql(change)
        ab.refresh()
        cuts = {row["name"]: last(ab, row["name"])["cut_id"] for row in ab.status()}
        assert len(cuts) == 7 and len(set(cuts.values())) == 1, (change, cuts)
        for name in ("g.a", "g.met"):
            assert ab.verify(name)["equal"], (change, name)
    assert len({row["group_id"] for row in ab.status()}) == 1


@pytest.mark.slow
def test_recursion_in_a_query_and_a_component_say_the_same(ab: Anabranch) -> None:
    """Paths of a graph without circles, counted: UNION ALL keeps every one of them."""
    edges(ab, (1, 2), (1, 3), (2, 4), (3, 4), (4, 5))
    ab.create_stream_table(
        "g.query",
        "WITH RECURSIVE p (src, dst) AS (SELECT src, dst FROM g.edges UNION ALL "
        "SELECT p.src, e.dst FROM p JOIN g.edges e ON e.src = p.dst) SELECT src, dst FROM p",
        schedule=None,
    )
    ab.create_stream_table(
        "g.paths",
        "SELECT src, dst FROM g.edges UNION ALL "
        "SELECT p.src, e.dst FROM g.paths p JOIN g.edges e ON e.src = p.dst",
        schedule=None,
    )
    assert any(each["kind"] == "UNBOUNDED" for each in ab.events("g.paths"))
    for change in (
        None,
        "INSERT INTO g.edges VALUES (5, 6), (1, 4)",
        "DELETE FROM g.edges WHERE src = 3",
        "UPDATE g.edges SET dst = 5 WHERE src = 2",
    ):
        if change:
            ab.sql(change)
            ab.refresh()
        assert bag(ab.table("g.paths")) == bag(ab.table("g.query")), change
    assert bag(ab.table("g.paths"))[(1, 5)] == 2


def test_a_script_creates_a_cycle(ab: Anabranch, outside: Outside) -> None:
    """Types pass round the circle until they are settled; a table may name a later one."""
    edges(ab, (1, 2), (2, 3))
    ab.sql(
        """
        CREATE STREAM TABLE g.up AS SELECT DISTINCT n FROM g.down WHERE n < 5;
        CREATE STREAM TABLE g.down AS SELECT src AS n FROM g.edges UNION SELECT n + 1L FROM g.up;
        CREATE STREAM TABLE g.top AS SELECT max(n) AS n FROM g.up
        """
    )
    assert ab.table("g.up").dtypes == ab.table("g.down").dtypes == [("n", "bigint")]
    assert bag(ab.table("g.down")) == rows((1,), (2,), (3,), (4,), (5,))
    assert bag(ab.table("g.top")) == rows((4,))
    with nothing_changes(ab, outside), pytest.raises(Refused, match="in a cycle"):
        ab.set("allow_circular", False)
        ab.sql(
            "CREATE STREAM TABLE h.up AS SELECT n FROM h.down; "
            "CREATE STREAM TABLE h.down AS SELECT 1 AS n UNION SELECT n FROM h.up"
        )


@pytest.mark.extended
def test_a_cte_may_be_called_like_a_member(ab: Anabranch) -> None:
    """Inside its scope the name means the CTE, elsewhere (also in its own body) the member."""
    ab.sql("CREATE TABLE seed (id INT)")
    ab.sql("INSERT INTO seed VALUES (1), (2)")
    queries = {
        "one": "WITH two AS (SELECT id FROM seed) SELECT id FROM Two UNION SELECT id FROM other",
        "two": "SELECT id FROM one UNION SELECT 7 AS id",
        "other": "WITH two AS (SELECT id + 1 AS id FROM two WHERE id < 3) "
        "SELECT id FROM two UNION SELECT 0",
    }
    ab.create_stream_tables(queries, schedule=None)
    assert bag(ab.table("two")) == rows(*((n,) for n in (0, 1, 2, 3, 7)))
    ab.sql("DELETE FROM seed WHERE id = 1")
    ab.refresh("two")
    assert all(ab.verify(name)["equal"] for name in queries)


# -- columns: those that the queries give, whatever is stored --------------------------------------


def columns_of(ab: Anabranch, name: str) -> dict[str, str]:
    return dict(ab.table(name).dtypes)


def test_a_struct_gets_a_field_below_a_cycle(ab: Anabranch) -> None:
    """The union of the seed and what is stored has no type: a refresh still finds the new one."""
    ab.sql("CREATE TABLE g.seed (n INT, s STRUCT<a: INT>)")
    ab.sql("INSERT INTO g.seed VALUES (1, named_struct('a', 1))")
    ab.create_stream_tables(
        {
            "g.p": "SELECT n, s FROM g.seed UNION SELECT n + 1, s FROM g.q WHERE n < 3",
            "g.q": "SELECT n, s FROM g.p",
        },
        schedule=None,
    )
    ab.create_stream_table("g.seen", "SELECT n, s FROM g.q", schedule=None)
    ab.sql("ALTER TABLE g.seed ALTER COLUMN s TYPE STRUCT<a: INT, b: STRING>")
    ab.sql("INSERT INTO g.seed VALUES (2, named_struct('a', 2, 'b', 'x'))")
    ab.refresh()
    for name in ("g.p", "g.q", "g.seen"):
        assert columns_of(ab, name)["s"] == "struct<a:int,b:string>"
        assert ab.verify(name)["equal"]
    assert last(ab, "g.p")["action"] == "REINITIALIZE"
    ab.sql("INSERT INTO g.seed VALUES (3, named_struct('a', 3, 'b', 'y'))")
    ab.refresh()
    assert last(ab, "g.q")["action"] == "DIFFERENTIAL" and ab.verify("g.q")["equal"]
    assert ab.table("g.q").count() == 3 + 2 + 1


@pytest.mark.extended
@pytest.mark.parametrize("verb", ["REFRESH STREAM TABLE v.r FULL", "REFRESH STREAM TABLE v.r"])
def test_a_view_below_a_cycle_gets_other_types(ab: Anabranch, verb: str) -> None:
    ab.sql("CREATE TABLE v.seed (n INT)")
    ab.sql("INSERT INTO v.seed VALUES (1)")
    ab.sql("CREATE VIEW v.w AS SELECT n, named_struct('a', n) AS s FROM v.seed")
    query = "SELECT n, s FROM v.w UNION SELECT n + 1, s FROM v.r WHERE n < 3"
    ab.create_stream_table("v.r", query, schedule=None)
    ab.sql(
        "CREATE OR REPLACE VIEW v.w AS SELECT n, named_struct('a', n, 'b', 'x') AS s FROM v.seed"
    )
    ab.sql(verb)
    assert columns_of(ab, "v.r")["s"] == "struct<a:int,b:string>"
    assert ab.verify("v.r")["equal"] and ab.table("v.r").count() == 3


@pytest.mark.extended
def test_the_columns_of_a_table_that_reads_itself_are_renamed_and_added(ab: Anabranch) -> None:
    edges(ab, (1, 2), (2, 3))
    ab.create_stream_table("g.closure", CLOSURE, schedule=None)
    ab.sql(
        "ALTER STREAM TABLE g.closure AS SELECT src AS a, dst AS b, 1 AS hops FROM g.edges UNION "
        "SELECT r.a, e.dst, r.hops + 1 FROM g.closure r JOIN g.edges e ON e.src = r.b "
        "WHERE r.hops < 9"
    )
    assert list(columns_of(ab, "g.closure")) == ["a", "b", "hops"]
    assert bag(ab.table("g.closure")) == rows((1, 2, 1), (2, 3, 1), (1, 3, 2))
    edges(ab, (3, 4))
    ab.refresh("g.closure")
    assert last(ab, "g.closure")["action"] == "DIFFERENTIAL" and ab.verify("g.closure")["equal"]


@pytest.mark.extended
def test_types_after_an_alter_are_those_of_a_table_made_now(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE g.big (n BIGINT)")
    step = "UNION SELECT n + CAST(1 AS SMALLINT) FROM g.up WHERE n < 3"
    ab.create_stream_table("g.up", f"SELECT n FROM g.big {step}", schedule=None)
    assert columns_of(ab, "g.up") == {"n": "bigint"}
    ab.sql(f"ALTER STREAM TABLE g.up AS SELECT src AS n FROM g.edges {step}")
    assert columns_of(ab, "g.up") == {"n": "int"}


@pytest.mark.extended
def test_a_cycle_may_start_inside_a_derived_table(ab: Anabranch) -> None:
    edges(ab, (1, 2), (2, 3))
    ab.create_stream_table(
        "g.nodes",
        "SELECT DISTINCT n FROM (SELECT src AS n FROM g.edges UNION ALL "
        "SELECT e.dst FROM g.edges e JOIN g.nodes m ON e.src = m.n) AS u",
        schedule=None,
    )
    assert bag(ab.table("g.nodes")) == rows((1,), (2,), (3,))
    ab.sql("DELETE FROM g.edges WHERE src = 2")
    ab.refresh("g.nodes")
    assert bag(ab.table("g.nodes")) == rows((1,), (2,)) and ab.verify("g.nodes")["equal"]
