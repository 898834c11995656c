from __future__ import annotations

import pytest

from anabranch.names import TableName
from anabranch.plan.exprs import Expr, column
from anabranch.plan.nodes import Aggregate, Filter, Item, Node, Project, Scan, UnionAll
from anabranch.plan.nulls import without_nulls

SCAN = Scan(TableName.of("a"), ("k", "v"))
KEYS = without_nulls(SCAN, ["k"])


def renamed(node: Node, text: str = "`k`") -> Node:
    return Project(node, (Item("x", Expr(text)),))


@pytest.mark.parametrize(
    ("node", "name", "expected"),
    [
        (SCAN, "k", False),
        (KEYS, "k", True),
        (KEYS, "v", False),
        (Filter(SCAN, Expr("`k` = `k` AND `v` > 1")), "k", True),
        (Filter(SCAN, Expr("`k` = `k` OR `v` > 1")), "k", False),
        (Filter(KEYS, Expr("`v` > 1")), "k", True),
        (renamed(KEYS), "x", True),
        (renamed(KEYS, "`k` / 0"), "x", False),
        (Aggregate(KEYS, (Item("x", column("k")),)), "x", True),
        (UnionAll((renamed(KEYS), renamed(KEYS))), "x", True),
        (UnionAll((renamed(KEYS), renamed(SCAN))), "x", False),
    ],
)
def test_a_column_that_is_never_null(node: Node, name: str, expected: bool) -> None:
    assert node.never_null(name) is expected


def test_without_names_every_row_stays() -> None:
    assert without_nulls(SCAN, []) is SCAN
