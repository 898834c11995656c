"""WITH RECURSIVE … UNION in one stream table: kept by rounds of our own, deletes included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import anabranch
from anabranch import Anabranch
from anabranch.errors import (
    DataError,
    NotConverged,
    NotIncremental,
    Refused,
    Unsupported,
    UserError,
)
from anabranch.refresh.execute.recursion import Recursions
from anabranch.spark.session import Spark
from tests.e2e.world import Outside, bag, rows

REACH = (
    "WITH RECURSIVE r (src, dst) AS (SELECT src, dst FROM g.edges UNION "
    "SELECT r.src, e.dst FROM r JOIN g.edges e ON e.src = r.dst) "
)
QUERIES = {
    "g.reach": REACH + "SELECT * FROM r",
    "g.swapped": REACH + "SELECT dst AS `to`, src AS `from` FROM r",
    "g.filtered": REACH + "SELECT dst FROM r WHERE src = 1",
    "g.named": REACH + "SELECT r.src, r.dst, n.name FROM r LEFT JOIN g.nodes n ON n.id = r.dst",
    "g.sizes": REACH + "SELECT src, count(*) AS n, max(dst) AS m FROM r GROUP BY src",
    "g.lonely": REACH + "SELECT id FROM g.nodes WHERE NOT EXISTS (SELECT 1 FROM r WHERE dst = id)",
    "g.doubled": "WITH RECURSIVE r AS (SELECT src, dst FROM g.edges UNION "
    "SELECT a.src, b.dst FROM r a JOIN r b ON a.dst = b.src) SELECT src, dst FROM r",
    "g.inside": "WITH RECURSIVE r AS (WITH x AS (SELECT src, dst FROM g.edges WHERE src < 4) "
    "SELECT src, dst FROM x UNION SELECT r.src, x.dst FROM r JOIN x ON r.dst = x.src) "
    "SELECT count(*) AS n, sum(dst) AS s FROM r",
    "g.over_a_view": "WITH RECURSIVE r AS (SELECT 1 AS id UNION "
    "SELECT e.dst FROM r JOIN g.open e ON e.src = r.id) SELECT id FROM r",
    "g.over_another": "WITH RECURSIVE r AS (SELECT id FROM g.over_a_view UNION "
    "SELECT n.id + 1 FROM r JOIN g.nodes n ON n.id = r.id) SELECT id FROM r",
    "g.two": "WITH RECURSIVE r (src, dst) AS (SELECT src, dst FROM g.edges UNION "
    "SELECT r.src, e.dst FROM r JOIN g.edges e ON e.src = r.dst), "
    "s (id) AS (SELECT id FROM g.nodes WHERE name = 'a' UNION "
    "SELECT r.dst FROM s JOIN r ON r.src = s.id) "
    "SELECT s.id, count(r.dst) AS n FROM s LEFT JOIN r ON r.src = s.id GROUP BY s.id",
}
QUICK = ("g.reach", "g.over_a_view", "g.over_another", "g.two")
CHANGES = (
    "DELETE FROM g.edges WHERE src = 1 AND dst = 2",
    "INSERT INTO g.edges VALUES (4, 2), (5, 1), (NULL, 3); UPDATE g.nodes SET name = 'a' WHERE id = 4",
    "DELETE FROM g.edges WHERE src = 3; INSERT INTO g.nodes VALUES (2, 'x')",
)


@pytest.fixture
def ab(tmp_path: Path, spark: Spark) -> Iterator[Anabranch]:
    settings: dict[str, Any] = {"allow_circular": True, "max_fixpoint_iterations": 20}
    with anabranch.connect(tmp_path, spark=spark.session, **settings) as opened:
        opened.sql(
            "CREATE TABLE g.edges (src INT, dst INT); CREATE TABLE g.nodes (id INT, name STRING)"
        )
        opened.sql("INSERT INTO g.edges VALUES (1, 2), (2, 3), (3, 2), (1, 4), (4, 3), (7, 7)")
        opened.sql("INSERT INTO g.nodes VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'd')")
        opened.sql("CREATE VIEW g.open AS SELECT src, dst FROM g.edges WHERE src <> 7")
        yield opened


class Elsewhere:
    """The same statements and queries in DuckDB, which knows UNION in recursions."""

    def __init__(self, ab: Anabranch) -> None:
        self.db = duckdb.connect()
        self.db.execute("CREATE SCHEMA g; CREATE TABLE g.edges (src INT, dst INT)")
        self.db.execute("CREATE TABLE g.nodes (id INT, name VARCHAR)")
        self.db.execute("CREATE VIEW g.open AS SELECT src, dst FROM g.edges WHERE src <> 7")
        for table in ("g.edges", "g.nodes"):
            self.db.executemany(
                f"INSERT INTO {table} VALUES (?, ?)",
                [tuple(row) for row in ab.table(table).collect()],
            )
        query = QUERIES["g.over_a_view"].replace("`", '"')
        self.db.execute(f"CREATE VIEW g.over_a_view AS {query}")

    def bag(self, name: str) -> Any:
        query = QUERIES[
            "g.reach" if name == "g.doubled" else name
        ]  # DuckDB joins the last round only
        return rows(*self.db.execute(query.replace("`", '"')).fetchall())


def wrong(outside: Outside, elsewhere: Elsewhere, names: Iterable[str]) -> dict[str, Any]:
    pairs = {name: (outside.bag(name), elsewhere.bag(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(QUICK, id="some"),
        pytest.param(tuple(QUERIES), id="all", marks=pytest.mark.slow),
    ],
)
@pytest.mark.extended
def test_a_recursion_that_keeps_rows_once_follows_its_sources(
    ab: Anabranch, tmp_path: Path, names: tuple[str, ...]
) -> None:
    outside, elsewhere = Outside(tmp_path), Elsewhere(ab)
    queries = {name: QUERIES[name] for name in names}
    ab.create_stream_tables(queries, refresh_mode="DIFFERENTIAL", schedule=None)
    ab.create_stream_table("g.full", QUERIES["g.reach"], refresh_mode="FULL", schedule=None)
    assert wrong(outside, elsewhere, names) == {}
    for change in CHANGES:
        ab.sql(change)
        elsewhere.db.execute(change)
        done = {line["table"]: line["action"] for line in ab.refresh()}
        assert wrong(outside, elsewhere, names) == {}, change
        assert {done.get(name, "NO_DATA") for name in names} <= {"DIFFERENTIAL", "NO_DATA"}, done
        assert outside.bag("g.full") == outside.bag("g.reach")
    assert all(
        ab.verify(name)["equal"] for name in ("g.reach", "g.two", "g.full", "g.over_another")
    )
    costly = {row["table"] for row in ab.events() if row["kind"] == "RECURSION"}
    whole = {"g.reach", "g.swapped", "g.doubled", "g.over_a_view", "g.over_another"}
    assert costly == queries.keys() - whole
    assert "a stream table of its own" in ab.explain("g.two")
    told = ab.explain("g.reach")
    assert "a stream table of its own" not in told
    assert "UNION" in told and "each row once" in told and "incremental: yes" in told
    outside.catalog.close()


@pytest.mark.extended
def test_what_cannot_be_kept_is_said(ab: Anabranch) -> None:
    with pytest.raises(
        Unsupported, match=r"(?s)Spark cannot run WITH RECURSIVE … UNION.*stream table"
    ):
        ab.sql(QUERIES["g.reach"])
    counted = (
        "WITH RECURSIVE r AS (SELECT src, dst FROM g.edges UNION "
        "SELECT src, max(dst) FROM r GROUP BY src) SELECT * FROM r"
    )
    with pytest.raises(NotIncremental, match="(?s)RECURSION.*below an aggregate"):
        ab.create_stream_table("g.no", counted)
    endless = "WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT n + 1 FROM r) SELECT n FROM r"
    with pytest.raises(NotConverged, match="no fixed point after 20 rounds"):
        ab.create_stream_table("g.no", endless)
    inside = (
        "WITH RECURSIVE r AS (SELECT src, dst FROM g.edges UNION SELECT r.src, e.dst FROM r "
        "JOIN g.edges e ON e.src = r.dst) SELECT src FROM r UNION SELECT src FROM g.self"
    )
    with pytest.raises(Refused, match="WITH RECURSIVE … UNION of its own"):
        ab.create_stream_table("g.self", inside)
    assert ab.status() == []


def test_stored_rows_are_where_a_recursion_starts(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is nothing but the recursion is carried over from what is stored."""

    ab.create_stream_table("g.swapped", QUERIES["g.swapped"], refresh_mode="DIFFERENTIAL")

    def computed(*_: object) -> None:
        raise AssertionError("it is not computed from nothing")

    monkeypatch.setattr(Recursions, "computed", computed)
    ab.sql("DELETE FROM g.edges WHERE src = 4; INSERT INTO g.edges VALUES (7, 1)")
    ab.refresh("g.swapped")
    monkeypatch.undo()
    assert bag(ab.table("g.swapped"))[(1, 7)] == 1
    assert ab.verify("g.swapped")["equal"]


ENDLESS = "WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT n + 1 FROM r) "


WHOLE, INSIDE = "SELECT n FROM r", "SELECT count(*) AS c FROM r WHERE n > 2"
ROUNDS = ("max_fixpoint_iterations", 3, "no fixed point after 3 rounds")
ROWS = ("max_fixpoint_rows", 2, r"added 3 rows \(max_fixpoint_rows is 2\)")
TIME = ("max_fixpoint_time", "0.001s", r"\(max_fixpoint_time is ")


@pytest.mark.parametrize(
    ("query", "bound", "value", "said"),
    [
        (WHOLE, *TIME),
        (INSIDE, *ROWS),
        *(
            pytest.param(query, *case, marks=pytest.mark.slow)
            for query, case in ((WHOLE, ROUNDS), (WHOLE, ROWS), (INSIDE, ROUNDS), (INSIDE, TIME))
        ),
    ],
)
def test_a_recursion_has_bounds(
    ab: Anabranch, query: str, bound: str, value: Any, said: str
) -> None:
    """Also where it stands inside a larger query."""
    with pytest.raises(NotConverged, match=said) as caught:
        ab.create_stream_table("g.no", ENDLESS + query, **{bound: value})
    assert f"raise {bound}" in str(caught.value)
    assert ab.status() == []


@pytest.mark.extended
def test_a_change_meets_the_bounds_of_a_recursion(ab: Anabranch) -> None:
    names = ("g.reach", "g.sizes")
    for name in names:
        ab.create_stream_table(name, QUERIES[name], max_fixpoint_rows=40, schedule=None)
    before = {name: bag(ab.table(name)) for name in names}
    ab.sql("INSERT INTO g.edges VALUES (3, 5), (5, 6), (6, 1)")  # now all are in one circle
    for name in names:
        ab.alter_stream_table(name, max_fixpoint_rows=15)
        with pytest.raises(NotConverged, match=rf"{name}: .*max_fixpoint_rows is 15"):
            ab.refresh(name)
        assert bag(ab.table(name)) == before[name]
        ab.alter_stream_table(name, max_fixpoint_rows=0)
        ab.refresh(name)
        assert ab.verify(name)["equal"]


@pytest.mark.extended
def test_a_deep_union_all_needs_a_higher_bound(ab: Anabranch) -> None:
    """Spark runs it, and counts its levels by the same setting as the rounds of a cycle."""
    ab.sql("CREATE TABLE r.n (most BIGINT)")
    ab.sql("INSERT INTO r.n VALUES (15)")
    query = (
        "WITH RECURSIVE c AS (SELECT 1L AS x UNION ALL SELECT x + 1 AS x FROM c JOIN r.n ON x < most) "
        "SELECT COUNT(*) AS n, MAX(x) AS x FROM c"
    )
    ab.create_stream_table("r.c", query)
    ab.sql("UPDATE r.n SET most = 30")
    with pytest.raises(DataError, match="limit 20 reached") as raised:
        ab.refresh("r.c")
    assert "MAX RECURSION LEVEL" not in str(raised.value)
    assert "max_fixpoint_iterations" in (raised.value.hint or "")
    ab.sql("ALTER STREAM TABLE r.c SET (max_fixpoint_iterations = 50)")
    ab.refresh("r.c")
    assert ab.table("r.c").collect() == [(30, 30)] and ab.verify("r.c")["equal"]


@pytest.mark.extended
def test_stored_rows_have_the_types_of_the_recursion(ab: Anabranch) -> None:
    """Iceberg has no SMALLINT: the next refresh starts from an INT."""
    ab.sql("CREATE TABLE n.t (x INT); INSERT INTO n.t VALUES (1), (2)")
    ab.create_stream_table(
        "n.r",
        "WITH RECURSIVE r AS (SELECT CAST(x AS SMALLINT) AS n, '' AS ty FROM n.t UNION "
        "SELECT CAST(n + 1S AS SMALLINT), typeof(n) FROM r JOIN n.t ON t.x <= n WHERE n < 5) "
        "SELECT * FROM r",
        refresh_mode="DIFFERENTIAL",
    )
    for change in ("INSERT INTO n.t VALUES (3)", "DELETE FROM n.t WHERE x = 1"):
        ab.sql(change)
        ab.refresh("n.r")
        assert ab.verify("n.r")["equal"] and ab.history("n.r", 1)[0]["action"] == "DIFFERENTIAL"


@pytest.mark.extended
def test_a_recursion_is_as_wide_as_its_widest_branch(ab: Anabranch) -> None:
    """A cast to the first branch's type, which nobody wrote, changed values, or failed."""
    ab.sql("CREATE TABLE n.t (x INT, b BIGINT); INSERT INTO n.t VALUES (2, 5000000000)")
    for name, seed, step in (
        ("n.d", "x", "n * CAST(1.5 AS DOUBLE) FROM r"),
        ("n.b", "x", "t.b FROM r JOIN n.t ON t.x = r.n"),
        ("n.v", "NULL", "t.x FROM r CROSS JOIN n.t"),
    ):
        query = f"SELECT {seed} AS n FROM n.t UNION SELECT {step} WHERE n IS NULL OR n < 10"
        ab.create_stream_table(name, f"WITH RECURSIVE r AS ({query}) SELECT n FROM r")
    assert bag(ab.table("n.d")) == rows((2.0,), (3.0,), (4.5,), (6.75,), (10.125,))
    assert bag(ab.table("n.b")) == rows((2,), (5000000000,))
    assert bag(ab.table("n.v")) == rows((None,), (2,))
    ab.sql("DELETE FROM n.t; INSERT INTO n.t VALUES (8, 9)")
    ab.refresh()
    assert all(ab.verify(name)["equal"] for name in ("n.d", "n.b", "n.v"))
    assert bag(ab.table("n.d")) == rows((8.0,), (12.0,))


def test_branches_without_a_type_for_both_are_refused(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE n.t (x BIGINT)")
    query = "SELECT x AS n FROM n.t UNION SELECT n * CAST(1.5 AS DOUBLE) FROM r WHERE n < 9"
    with pytest.raises(UserError, match="r: column n is of type bigint in one branch, and double"):
        ab.create_stream_table("n.r", f"WITH RECURSIVE r AS ({query}) SELECT n FROM r")


@pytest.mark.extended
def test_a_recursion_with_a_level_of_its_own_is_recomputed(ab: Anabranch) -> None:
    """The bound counts from the first row: what follows a change alone cannot keep it."""
    ab.sql("CREATE TABLE l.n (most BIGINT)")
    ab.sql("INSERT INTO l.n VALUES (5)")
    query = (
        "WITH RECURSIVE c (x) MAX RECURSION LEVEL 8 AS (SELECT 1L UNION ALL "
        "SELECT x + 1 FROM c JOIN l.n ON x < most) SELECT x FROM c"
    )
    ab.create_stream_table("l.c", query)
    assert "RECURSION_LEVEL" in ab.explain("l.c")
    ab.sql("UPDATE l.n SET most = 7")
    ab.refresh("l.c")
    assert len(ab.table("l.c").collect()) == 7 and ab.verify("l.c")["equal"]
    ab.sql("UPDATE l.n SET most = 12")
    with pytest.raises(DataError, match="limit 8 reached"):
        ab.refresh("l.c")
    with pytest.raises(NotIncremental, match="MAX RECURSION LEVEL"):
        ab.create_stream_table("l.d", query, refresh_mode="DIFFERENTIAL")
    with pytest.raises(NotIncremental, match="MAX RECURSION LEVEL"):
        ab.create_stream_table("l.e", query.replace("UNION ALL", "UNION"))


@pytest.mark.extended
def test_several_recursions_in_one_query_follow_every_change(ab: Anabranch) -> None:
    """Beside each other, one over the other, and of both kinds."""
    ab.sql("CREATE TABLE m.up (id BIGINT, boss BIGINT); CREATE TABLE m.e (a BIGINT, b BIGINT)")
    ab.sql("INSERT INTO m.up VALUES (1, NULL), (2, 1), (3, 1), (4, 2)")
    ab.sql("INSERT INTO m.e VALUES (1, 2), (2, 3), (3, 1), (5, 4)")
    counted = (
        "t AS (SELECT id, 0 AS level FROM m.up WHERE boss IS NULL UNION ALL "
        "SELECT u.id, t.level + 1 FROM t JOIN m.up u ON u.boss = t.id)"
    )
    kept = "r AS (SELECT a, b FROM m.e UNION SELECT r.a, e.b FROM r JOIN m.e ON e.a = r.b)"
    queries = {
        "m.beside": f"WITH RECURSIVE {counted}, {kept} "
        "SELECT t.id, t.level, r.b FROM t JOIN r ON r.a = t.id",
        "m.over": f"WITH RECURSIVE {counted}, s AS (SELECT id, level FROM t UNION "
        "SELECT e.b AS id, s.level FROM s JOIN m.e ON e.a = s.id) SELECT id, level FROM s",
        "m.below": f"WITH RECURSIVE {kept}, t AS (SELECT a, b, 0 AS n FROM r WHERE a = 5 UNION ALL "
        "SELECT t.a, u.boss AS b, t.n + 1 FROM t JOIN m.up u ON u.id = t.b) SELECT a, b, n FROM t",
        "m.twice": f"WITH RECURSIVE {counted}, v AS (SELECT id, 0 AS n FROM m.up WHERE id = 4 "
        "UNION ALL SELECT u.boss AS id, v.n + 1 FROM v JOIN m.up u ON u.id = v.id "
        "WHERE u.boss IS NOT NULL) SELECT t.id, t.level, v.n FROM t LEFT JOIN v ON v.id = t.id",
    }
    for name, query in queries.items():
        ab.create_stream_table(name, query)
    changes = (
        "INSERT INTO m.up VALUES (5, 4), (6, 5)",
        "DELETE FROM m.e WHERE a = 2",
        "UPDATE m.up SET boss = 3 WHERE id = 4",
        "INSERT INTO m.e VALUES (4, 5), (3, 6)",
        "DELETE FROM m.up WHERE id = 3; DELETE FROM m.e WHERE a = 5",
        "INSERT INTO m.up VALUES (3, 1); INSERT INTO m.e VALUES (5, 2)",
    )
    for change in changes:
        ab.sql(change)
        for name in queries:
            ab.refresh(name)
            assert ab.verify(name)["equal"], (name, change)
    modes = {
        name: [each["action"] for each in ab.history(name)][: len(changes)] for name in queries
    }
    assert all("DIFFERENTIAL" in found for found in modes.values()), modes
