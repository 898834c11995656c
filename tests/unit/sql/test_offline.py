"""What compile says of a query that is to be incremental is what creation says, or nothing."""

from __future__ import annotations

import pytest

from anabranch.names import TableName
from anabranch.sql.analyze.analysis import Column, analyze
from anabranch.sql.offline import offline_obstacles
from anabranch.types import Type
from tests.oracle.kept import World
from tests.oracle.queries import draw
from tests.oracle.tables import TABLES

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


def test_random_queries_get_the_answer_of_their_plan() -> None:
    for seed in range(120):
        query = draw(seed).text
        assert offline(query) == [str(each) for each in WORLD.lower(query, {}).obstacles], query
