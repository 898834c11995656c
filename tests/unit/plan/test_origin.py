"""Where the values of a column come from."""

from __future__ import annotations

import pytest

from anabranch.names import TableName
from anabranch.plan.exprs import Expr, column
from anabranch.plan.nodes import (
    Aggregate,
    Call,
    Filter,
    Item,
    Join,
    Match,
    Node,
    Outer,
    Partner,
    Project,
    Scan,
    UnionAll,
)
from anabranch.plan.origin import origin

T = Scan(TableName.of("t"), ("a", "b"))
U = Scan(TableName.of("u"), ("c", "d"))
SAME = Expr("`a` = `c`")
RENAMED = Project(T, (Item("x", column("a")), Item("y", Expr("`a` + 1"))))


@pytest.mark.parametrize(
    ("node", "name", "expected"),
    [
        (T, "a", (T, "a")),
        (RENAMED, "x", (T, "a")),
        (RENAMED, "y", None),
        (Filter(RENAMED, Expr("`y` > 0")), "x", (T, "a")),
        (Join((T, U), SAME), "d", (U, "d")),
        (Outer(T, U, SAME), "d", (U, "d")),
        (Match(T, U, SAME, Partner.WANTED), "b", (T, "b")),
        (Match(T, U, SAME, Partner.MARKED, "m"), "m", None),
        (
            Aggregate(T, (Item("k", column("b")),), (Call("n", Expr("COUNT(`a`)")),)),
            "k",
            (T, "b"),
        ),
        (Aggregate(T, (Item("k", column("b")),), (Call("n", Expr("COUNT(`a`)")),)), "n", None),
        (UnionAll((T, T)), "a", None),  # the types of its parts may differ
    ],
)
def test_origin(node: Node, name: str, expected: tuple[Scan, str] | None) -> None:
    assert origin(node, name) == expected
