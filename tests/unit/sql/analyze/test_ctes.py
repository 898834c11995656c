"""What a name in FROM means; every part that asks gives the same answer."""

from __future__ import annotations

import pytest

from anabranch.model import Column, Columns
from anabranch.names import TableName
from anabranch.sql.analyze.analysis import analyze
from anabranch.sql.analyze.ctes import tables_in
from anabranch.sql.analyze.tables import rebind, tables_of
from anabranch.sql.lower.base_branches import base_branches
from anabranch.sql.lower.query import lower
from anabranch.sql.text.source_text import SourceText

P, Q = TableName.of("products"), TableName.of("other")

# Which of `products` and `other` a query reads, in the order of their mentions.
CASES = {
    "a CTE hides the table": ("WITH products AS (SELECT 1 AS a) SELECT a FROM products", []),
    "but not in its own body": (
        "WITH products AS (SELECT a FROM products) SELECT a FROM products",
        [P],
    ),
    "in upper case too": ("WITH Products AS (SELECT a FROM OTHER) SELECT a FROM PRODUCTS", [Q]),
    "a schema makes it a table": (
        "WITH products AS (SELECT 1 AS a) SELECT a FROM default.products",
        [P],
    ),
    "unless it is recursive": (
        "WITH RECURSIVE products AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM products WHERE a < 3) "
        "SELECT a FROM products",
        [],
    ),
    "later ones see it": (
        "WITH products AS (SELECT a FROM other), x AS (SELECT a FROM products) SELECT a FROM x",
        [Q],
    ),
    "earlier ones do not": (
        "WITH x AS (SELECT a FROM products), products AS (SELECT 1 AS a) "
        "SELECT a FROM x UNION ALL SELECT a FROM products",
        [P],
    ),
    "earlier ones do not, though it is recursive": (
        "WITH RECURSIVE x AS (SELECT a FROM products), products AS (SELECT 1 AS a) "
        "SELECT a FROM x UNION ALL SELECT a FROM products",
        [P],
    ),
    "subqueries see it": (
        "WITH products AS (SELECT 1 AS a) SELECT a FROM other WHERE a IN (SELECT a FROM products)",
        [Q],
    ),
    "one further in hides it": (
        "WITH products AS (SELECT 1 AS a) SELECT a FROM (WITH products AS (SELECT a FROM other) "
        "SELECT a FROM products) AS s",
        [Q],
    ),
    "and ends there": (
        "SELECT s.a FROM (WITH products AS (SELECT 1 AS a) SELECT a FROM products) AS s "
        "JOIN products AS p ON p.a = s.a",
        [P],
    ),
    "a body inside a body of the same name": (
        "WITH products AS (WITH products AS (SELECT a FROM products) SELECT a FROM products) "
        "SELECT a FROM products",
        [P],
    ),
    "both branches of a union": (
        "WITH other AS (SELECT a FROM products) SELECT a FROM other UNION SELECT a FROM products",
        [P, P],
    ),
    "an alias is no table": ("SELECT products.a FROM other AS products", [Q]),
}


@pytest.mark.parametrize(("query", "reads"), CASES.values(), ids=CASES)
def test_all_agree(query: str, reads: list[TableName]) -> None:
    columns: Columns = (Column("a", "int"),)
    tree = SourceText(query).tree
    walked = [TableName.of(*(part.name.lower() for part in each.parts)) for each in tables_in(tree)]
    assert sorted(walked) == sorted(reads)
    assert {_folded(name) for name in tables_of(query)} == set(reads)
    found = lower(query, {P: columns, Q: columns}, {}, lambda node, exprs: ["int"] * len(exprs))
    assert found.sources == set(reads)
    assert found.plan is not None, found.obstacles
    moved = rebind(query, dict.fromkeys(tables_of(query), "elsewhere"))
    assert moved.count("`elsewhere`") == len(reads)
    for each in (P, Q):
        left = base_branches(query, lambda name, each=each: _folded(name) == each)
        assert (each in reads) or left is not None
        assert left is None or each not in {_folded(name) for name in tables_of(left.text)}
    asked: set[TableName] = set()
    wrong = analyze(query, lambda name: asked.add(_folded(name))).findings
    assert wrong == ()
    assert asked == set(reads)


def _folded(name: TableName) -> TableName:
    return TableName.of(*(part.lower() for part in name.parts))
