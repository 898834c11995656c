"""Cases that have broken real engines: after every window each table equals its query, as a bag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch, errors
from anabranch.cut_view import CutView
from anabranch.errors import DataError
from anabranch.spark.session import Spark
from tests.e2e.traps import Trap, Window, cases, exists, index, load, names
from tests.e2e.world import Bag, Outside, bag, refused, rows

ROUNDS = "spark.sql.cteRecursionLevelLimit"
SLOW = {"recursion_more"}
QUICK = {"changes", "diamond", "joins"}  # the others are `extended`


def marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
    if name in SLOW:
        return (pytest.mark.slow,)
    return () if name in QUICK else (pytest.mark.extended,)


@pytest.fixture
def few_rounds(spark: Spark) -> Iterator[None]:
    """A recursion over a circle ends after few rounds."""
    spark.session.conf.set(ROUNDS, "6")
    yield
    spark.session.conf.unset(ROUNDS)


@pytest.mark.usefixtures("few_rounds")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=marks(name)) for name in names()],
)
def test_trap(ab: Anabranch, outside: Outside, name: str) -> None:
    trap = load(name)
    start, *windows = trap.windows
    ab.sql(start.statements)
    for queries, mode in ((trap.queries, "DIFFERENTIAL"), (trap.recomputed, "AUTO")):
        if queries:
            ab.create_stream_tables(
                {f"st.{name}": query for name, query in queries.items()}, refresh_mode=mode
            )
    assert wrong(ab, outside, trap, start) == {}, trap.title
    for case in trap.refused.values():
        with refused(ab, outside, getattr(errors, case.error), *case.words):
            ab.create_stream_table("st.refused", case.query, refresh_mode="DIFFERENTIAL")
    for window in windows:
        with ab.transaction() if window.whole else nullcontext():
            ab.sql(window.statements)
        done = ab.refresh()
        assert wrong(ab, outside, trap, window) == {}, (window.title, done)
        assert unexpected(trap, window, done) == [], window.title


def wrong(ab: Anabranch, outside: Outside, trap: Trap, window: Window) -> dict[str, Any]:
    """Stream tables, as any Iceberg reader sees them, that differ from their query or given rows."""
    found: dict[str, Any] = {}
    with ab.at() as world, ab._runtime.spark.tuned(1):
        for name, query in (trap.queries | trap.recomputed).items():
            stored = outside.bag(f"st.{name}")
            fresh = bag(world.sql(query))
            given = listed(world, window.rows[name]) if name in window.rows else fresh
            if not stored == fresh == given:
                found[name] = {"too much": stored - fresh, "missing": fresh - stored, "not": given}
    return found


def listed(world: CutView, values: str) -> Bag[tuple[Any, ...]]:
    return rows() if values == "nothing" else bag(world.sql(f"SELECT * FROM VALUES {values}"))


def unexpected(trap: Trap, window: Window, done: list[dict[str, Any]]) -> list[Mapping[str, Any]]:
    """Refreshes that went another way than the table was declared to go."""
    ways = {"NO_DATA", "DIFFERENTIAL"}
    if "ALTER TABLE" in window.statements:
        ways.add("REINITIALIZE")
    strict = {f"st.{name}" for name in trap.queries}
    return [line for line in done if line["table"] in strict and line["action"] not in ways]


def test_every_known_trap_is_set() -> None:
    known = index()
    assert len(known) > 90
    assert [trap for trap, sets in known.items() if not sets] == []
    named = {case for sets in known.values() for case in sets}
    assert [case for case in sorted(named) if not exists(case)] == []
    assert set(cases()) - named == set()


@pytest.fixture
def moving(ab: Anabranch) -> Anabranch:
    """A table with an extremum and a sum that are kept, and what reads them."""
    ab.sql("CREATE TABLE t (id INT, g STRING, x INT)")
    ab.sql("INSERT INTO t VALUES (1, 'a', 5), (2, 'a', 3), (3, 'b', 1)")
    ab.create_stream_tables(
        {
            "st.groups": "SELECT g, max(x) AS top, sum(x) AS s FROM t GROUP BY g",
            "st.pairs": "SELECT p.id, q.id AS other FROM t p JOIN t q ON p.g = q.g",
        },
        refresh_mode="DIFFERENTIAL",
    )
    return ab


@pytest.mark.extended
def test_a_source_that_moves_during_a_refresh(
    moving: Anabranch, spark: Spark, tmp_path: Path
) -> None:
    """The delta ends where the sources are read, so what comes meanwhile counts once, next time."""
    late = ["INSERT INTO t VALUES (4, 'a', 4)", "DELETE FROM t WHERE id = 2"]
    with anabranch.connect(tmp_path, spark=spark.session) as other:
        moving.on_progress = lambda event, facts: (
            other.sql(late.pop()) if late and event == "refresh_started" else None
        )
        moving.sql("DELETE FROM t WHERE id = 1")
        moving.refresh()
    assert not late
    assert bag(moving.table("st.groups")) == rows(("a", 3, 3), ("b", 1, 1))
    assert all(moving.verify(name)["equal"] for name in ("st.groups", "st.pairs"))
    moving.refresh()
    assert bag(moving.table("st.groups")) == rows(("a", 4, 4), ("b", 1, 1))
    assert bag(moving.table("st.pairs")) == rows((4, 4), (3, 3))


def test_a_transaction_that_commits_late(moving: Anabranch, spark: Spark, tmp_path: Path) -> None:
    """Begun before another commit and a refresh, it is in the next refresh."""
    moving.sql("CREATE TABLE u (id INT)")
    moving.create_stream_table("st.ids", "SELECT id FROM t UNION ALL SELECT id FROM u")
    with anabranch.connect(tmp_path, spark=spark.session) as other, other.transaction():
        other.sql("INSERT INTO u VALUES (10)")
        moving.sql("INSERT INTO t VALUES (4, 'b', 4)")
        moving.refresh("st.ids")
        assert bag(moving.table("st.ids")) == rows((1,), (2,), (3,), (4,))
    moving.refresh("st.ids")
    assert bag(moving.table("st.ids")) == rows((1,), (2,), (3,), (4,), (10,))


def test_a_branch_that_fails_holds_back_the_other(moving: Anabranch) -> None:
    moving.create_stream_table("st.ratio", "SELECT g, sum(10 / x) AS r FROM t GROUP BY g")
    moving.create_stream_table(
        "st.both", "SELECT l.g, l.s, r.r FROM st.groups l JOIN st.ratio r ON l.g = r.g"
    )
    before = {name: bag(moving.table(f"st.{name}")) for name in ("groups", "ratio", "both")}
    moving.sql("INSERT INTO t VALUES (5, 'b', 0)")
    with pytest.raises(DataError, match="zero"):
        moving.refresh("st.both")
    assert {name: bag(moving.table(f"st.{name}")) for name in before} == before
