"""Types that follow from the plan are those that a database gives; others are not guessed."""

from __future__ import annotations

import pytest

from anabranch.names import TableName
from anabranch.plan.exprs import Expr, column
from anabranch.plan.nodes import Item, Node, Project, Scan, UnionAll
from anabranch.sql.lower.known_types import known_type
from tests.oracle.kept import World

WORLD = World(
    {
        "a": "id INT, k BIGINT, s VARCHAR, f DOUBLE, d DECIMAL(8,2), b BOOLEAN, t DATE",
        "c": "id INT, k INT, x SMALLINT",
    }
)


def plan_of(query: str) -> Node:
    plan = WORLD.lower(query, {}).plan
    assert plan is not None
    return plan


TOLD = [
    "SELECT id, k, s, f, b, t FROM a",
    "SELECT a.id, c.x FROM a LEFT JOIN c ON a.id = c.id WHERE a.k IN (SELECT k FROM c)",
    "SELECT 1 AS one, 'x' AS word, CAST(d AS BIGINT) AS whole, id > 3 AS more, s IS NULL AS no FROM a",
    "SELECT s, count(*) AS n, sum(id) AS total, max(t) AS latest, avg(f) AS mean FROM a GROUP BY s",
    "SELECT id FROM a UNION ALL SELECT id FROM c",
    "SELECT n, count(*) AS m FROM (SELECT k, count(*) AS n FROM c GROUP BY k) GROUP BY n",
    "SELECT id, s FROM a ORDER BY id, s LIMIT 3",
]


@pytest.mark.parametrize("query", TOLD)
def test_a_type_that_is_told_is_the_right_one(query: str) -> None:
    plan = plan_of(query)
    names = [column(name) for name in plan.columns]
    assert [known_type(plan, name, WORLD.columns) for name in names] == list(
        WORLD.types(plan, names)
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT d AS x FROM a",
        "SELECT id + 1 AS x FROM a",
        "SELECT upper(s) AS x FROM a",
        "SELECT 3000000000 AS x FROM a",
        "SELECT sum(d) AS x FROM a",
        "SELECT row_number() OVER (ORDER BY id, k, s, f, d, b, t) AS x FROM a",
    ],
)
def test_what_depends_on_more_is_not_told(query: str) -> None:
    assert known_type(plan_of(query), Expr("`c0`"), WORLD.columns) is None


def test_branches_of_other_types_are_not_told() -> None:
    """The widest of them counts, which is for the database to say."""
    scan = Scan(TableName.of("a"), ("id", "k"))
    same = UnionAll((scan, scan))
    other = UnionAll(tuple(Project(scan, (Item("x", column(name)),)) for name in ("id", "k")))
    assert known_type(same, column("k"), WORLD.columns) == "bigint"
    assert known_type(other, column("x"), WORLD.columns) is None
