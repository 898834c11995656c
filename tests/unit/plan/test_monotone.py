"""Which references to a member of a component are monotone, and which are not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from anabranch.model import Column
from anabranch.names import TableName
from anabranch.plan.demand import Operator
from anabranch.plan.exprs import Expr
from anabranch.plan.monotone import distinct_root, not_monotone, unbounded
from anabranch.plan.nodes import Node
from anabranch.sql.lower.query import lower

E, M, N = (TableName.of(name) for name in ("e", "m", "n"))
COLUMNS = (Column("src", "int"), Column("dst", "int"))
TABLES = {E: COLUMNS, M: COLUMNS, N: COLUMNS}


def types(node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
    return ["int" for _ in exprs]


def plan(query: str) -> Node:
    lowered = lower(query, TABLES, {}, types)
    assert lowered.plan is not None, lowered.obstacles
    return lowered.plan


def broken(query: str) -> set[tuple[str, Operator]]:
    return {(str(each.table.name), each.operator) for each in not_monotone(plan(query), {M, N})}


MONOTONE = [
    "SELECT src, dst FROM m",
    "SELECT src + 1 AS src, dst FROM m WHERE src > 3",
    "SELECT e.src, m.dst FROM e JOIN m ON e.dst = m.src",
    "SELECT a.src, b.dst FROM m a, m b WHERE a.dst = b.src",
    "SELECT src, dst FROM e UNION ALL SELECT src, dst FROM m",
    "SELECT src, dst FROM e UNION SELECT src, dst FROM m",
    "SELECT DISTINCT src FROM m",
    "SELECT src, dst FROM e INTERSECT SELECT src, dst FROM m",
    "SELECT src, dst FROM m INTERSECT ALL SELECT src, dst FROM n",
    "SELECT src, dst FROM m EXCEPT SELECT src, dst FROM e",
    "SELECT src, dst FROM m EXCEPT ALL SELECT src, dst FROM e",
    "SELECT m.src, e.dst FROM m LEFT JOIN e ON e.src = m.dst",
    "SELECT m.src, e.dst FROM e RIGHT JOIN m ON e.src = m.dst",
    "SELECT src FROM e WHERE EXISTS (SELECT 1 FROM m WHERE m.src = e.dst)",
    "SELECT src FROM e WHERE src IN (SELECT dst FROM m)",
    "SELECT src FROM m WHERE NOT EXISTS (SELECT 1 FROM e WHERE e.src = m.dst)",
    "SELECT src FROM m WHERE src NOT IN (SELECT dst FROM e)",
    "SELECT m.src, c.n FROM m JOIN (SELECT src, count(*) AS n FROM e GROUP BY src) c ON c.src = m.src",
    "SELECT m.src, t.dst FROM m JOIN (SELECT * FROM e ORDER BY src, dst LIMIT 3) t ON t.src = m.dst",
    "WITH x AS (SELECT src, dst FROM m) SELECT x.src, e.dst FROM x JOIN e ON e.src = x.dst",
    "SELECT src FROM e WHERE src > 3 OR EXISTS (SELECT 1 FROM m WHERE m.src = e.dst)",
    "SELECT src FROM e WHERE src IN (SELECT dst FROM m) AND (src > 3 OR dst IN (SELECT dst FROM n))",
    "SELECT src FROM e WHERE src > ANY (SELECT dst FROM m) OR src = 1",
    "SELECT e.src FROM e JOIN n ON e.src = n.src AND (e.dst = 1 OR n.dst IN (SELECT dst FROM m))",
    "SELECT src FROM (SELECT src, EXISTS (SELECT 1 FROM m WHERE m.src = e.dst) AS x FROM e) WHERE x",
    "SELECT DISTINCT src FROM e WHERE src NOT IN (SELECT dst FROM e) OR src IN (SELECT dst FROM m)",
    "SELECT src, x FROM m LATERAL VIEW explode(sequence(1, dst)) v AS x",
]


@pytest.mark.parametrize("query", MONOTONE)
def test_more_rows_of_a_member_take_nothing_away(query: str) -> None:
    assert broken(query) == set()


NOT = {
    "SELECT src, max(dst) AS dst FROM m GROUP BY src": Operator.AGGREGATE,
    "SELECT count(*) AS n FROM (SELECT DISTINCT src FROM m WHERE src > 1) x": Operator.AGGREGATE,
    "SELECT src, row_number() OVER (ORDER BY src, dst) AS n FROM m": Operator.WINDOW,
    "SELECT src, dst FROM m ORDER BY src, dst LIMIT 3": Operator.LIMIT,
    "SELECT src, dst FROM e EXCEPT SELECT src, dst FROM m": Operator.EXCEPT,
    "SELECT src, dst FROM e EXCEPT ALL SELECT src, dst FROM m": Operator.EXCEPT,
    "SELECT e.src, m.dst FROM e LEFT JOIN m ON e.dst = m.src": Operator.OUTER,
    "SELECT e.src, m.dst FROM m RIGHT JOIN e ON e.dst = m.src": Operator.OUTER,
    "SELECT e.src, m.dst FROM m FULL JOIN e ON e.dst = m.src": Operator.OUTER,
    "SELECT src FROM e WHERE NOT EXISTS (SELECT 1 FROM m WHERE m.src = e.dst)": Operator.ABSENT,
    "SELECT src FROM e LEFT ANTI JOIN m ON e.dst = m.src": Operator.ABSENT,
    "SELECT src FROM e WHERE src NOT IN (SELECT dst FROM m)": Operator.VALUE,
    "SELECT src, EXISTS (SELECT 1 FROM m WHERE m.src = e.dst) AS x FROM e": Operator.VALUE,
    "SELECT src, (SELECT max(dst) FROM m) AS x FROM e": Operator.AGGREGATE,
    "SELECT src FROM e WHERE src > 3 OR src NOT IN (SELECT dst FROM m)": Operator.VALUE,
    "SELECT src FROM e WHERE src > 3 OR NOT EXISTS (SELECT 1 FROM m)": Operator.VALUE,
    "SELECT src FROM e WHERE src > ALL (SELECT dst FROM m)": Operator.VALUE,
    "SELECT src FROM e WHERE coalesce(src IN (SELECT dst FROM m), true)": Operator.VALUE,
    "SELECT 1 AS x FROM e WHERE CASE WHEN src IN (SELECT dst FROM m) THEN false ELSE true END": (
        Operator.VALUE
    ),
    "SELECT e.src FROM e LEFT JOIN e f ON e.src = f.src AND e.dst IN (SELECT dst FROM m)": (
        Operator.VALUE
    ),
    "SELECT DISTINCT src, dst IN (SELECT dst FROM m) AS x FROM e": Operator.VALUE,
    "SELECT src FROM (SELECT DISTINCT src, dst IN (SELECT dst FROM m) AS x FROM e)": Operator.VALUE,
}


@pytest.mark.parametrize(("query", "operator"), NOT.items())
def test_more_rows_of_a_member_may_take_rows_away(query: str, operator: Operator) -> None:
    assert broken(query) == {("m", operator)}


def test_every_reference_is_judged_by_itself() -> None:
    query = "SELECT m.src, n.dst FROM m LEFT JOIN n ON n.src = m.dst"
    assert broken(query) == {("n", Operator.OUTER)}


@pytest.mark.parametrize(
    ("query", "open_"),
    [
        ("SELECT src, dst FROM e UNION ALL SELECT src, dst FROM m", {M}),
        ("SELECT src, dst FROM e UNION SELECT src, dst FROM m", set()),
        ("SELECT src, dst FROM n UNION ALL SELECT DISTINCT src, dst FROM m", {N}),
        ("SELECT src FROM n WHERE EXISTS (SELECT 1 FROM m WHERE m.src = n.dst)", {N}),
        ("SELECT src, dst FROM m INTERSECT SELECT src, dst FROM n", set()),
    ],
)
def test_what_keeps_a_row_once_ends_the_growth_of_counts(query: str, open_: set[TableName]) -> None:
    assert unbounded(plan(query), {M, N}) == open_


@pytest.mark.parametrize(
    ("query", "is_set"),
    [
        ("SELECT DISTINCT src, dst FROM m", True),
        ("SELECT src AS a, dst AS b FROM e UNION SELECT src, dst FROM m", True),
        ("SELECT a FROM (SELECT DISTINCT src AS a, dst AS b FROM m)", False),
        ("SELECT src, dst FROM m", False),
        ("SELECT src, count(*) AS n FROM e GROUP BY src", False),
    ],
)
def test_a_query_is_a_set_when_its_root_is_distinct(query: str, is_set: bool) -> None:
    found = distinct_root(plan(query))
    assert (found is not None) is is_set
    if found is not None:
        assert found.columns == plan(query).columns
