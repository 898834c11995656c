"""What compile says of a query that is to be incremental is what creation says, or nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from anabranch.names import TableName
from anabranch.project.compile import stored_columns
from anabranch.sql import offline as offline_module
from anabranch.sql.analyze.analysis import Column, analyze
from anabranch.sql.analyze.tables import tables_of
from anabranch.sql.lower.query import Lowered
from anabranch.sql.lower.supported import SUPPORTED
from anabranch.sql.offline import offline_obstacles
from anabranch.types import Type
from tests.fixtures.analysis.lists import ACCEPTED
from tests.fixtures.analysis.lists import TABLES as ANALYSED
from tests.oracle.kept import World
from tests.oracle.queries import draw
from tests.oracle.tables import TABLES
from tests.unit.delta import test_fixtures as fixtures
from tests.unit.sql.analyze.test_corpus import known

WORLD = World(TABLES)


def offline(query: str) -> list[str]:
    columns = {
        name: tuple(Column(each.name, Type.parse(each.type)) for each in own)
        for name, own in WORLD.columns.items()
    }
    found = analyze(query, lambda name: columns[TableName.of(name.name)])
    assert found.findings == ()
    width = None if found.columns is None else len(found.columns)
    return [str(each) for each in offline_obstacles(query, width, dict(WORLD.columns), {})]


@pytest.mark.parametrize(
    ("query", "codes"),
    [
        ("SELECT id FROM a", []),
        ("SELECT id, rand() AS r FROM a", ["NONDETERMINISTIC_FUNCTION"]),
        ("SELECT current_date AS d, now() AS n FROM a", ["TIME_DEPENDENT_FUNCTION"] * 2),
        ("SELECT id FROM a LIMIT 3", ["LIMIT_WITHOUT_ORDER"]),
        (
            "SELECT max(m) AS m FROM (SELECT k, avg(y) AS m FROM d GROUP BY k)",
            ["INEXACT_AGGREGATE"],
        ),
        ("SELECT max(m) AS m FROM (SELECT k, avg(z) AS m FROM d GROUP BY k)", []),
        ("SELECT k, first(id) AS f FROM a GROUP BY k", ["ORDER_DEPENDENT_AGGREGATE"]),
        ("SELECT a.id FROM a LEFT JOIN b ON a.id NOT IN (SELECT k FROM b)", ["SUBQUERY_IN_JOIN"]),
        ("SELECT id FROM a TABLESAMPLE (10 PERCENT)", ["SAMPLE"]),
        ("SELECT my_own(id) AS x FROM a", ["UNKNOWN_FUNCTION"]),
    ],
)
def test_codes(query: str, codes: list[str]) -> None:
    assert [each.partition(" ")[0] for each in offline(query)] == codes


TOLD_OFFLINE = [
    *[(query, ANALYSED) for query in ACCEPTED],
    *[
        (each.example, {"a": "id INT, k INT, v INT", "b": "id INT, k INT, w INT"})
        for each in SUPPORTED
    ],
    *[(case.query, fixtures.TABLES) for _, case in fixtures.CASES],
]


@pytest.mark.parametrize(("query", "declared"), TOLD_OFFLINE)
def test_nothing_that_spark_accepts_makes_it_fail(
    query: str, declared: Mapping[str, str | tuple[Column, ...]]
) -> None:
    """Whatever it says, or leaves to Spark: it does not stumble."""
    tables = known(declared)
    stored = {
        name: stored_columns(tables(name)) for name in tables_of(query) if tables(name) is not None
    }
    found = analyze(query, tables).columns
    offline_obstacles(query, None if found is None else len(found), stored, {})


def test_a_fault_of_ours_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is for the callers to go on, and to say so."""

    def boom(*given: object, **named: object) -> Lowered:
        raise AttributeError("_ab_v4")

    monkeypatch.setattr(offline_module, "lower", boom)
    with pytest.raises(AttributeError, match="_ab_v4"):
        offline("SELECT id FROM a")


def test_random_queries_get_the_answer_of_their_plan() -> None:
    for seed in range(120):
        query = draw(seed).text
        assert offline(query) == [str(each) for each in WORLD.lower(query, {}).obstacles], query
