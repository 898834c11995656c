"""INTERSECT and EXCEPT: the multiplicity of a row in the result follows from those on both sides.

l, r: the copies on either side, counted over the union of both

INTERSECT   once       where l > 0 and r > 0        INTERSECT ALL   min(l, r) times
EXCEPT      once       where l > 0 and r = 0        EXCEPT ALL      l − r times, if positive
"""

from __future__ import annotations

from sqlglot import exp

from anabranch.plan.exprs import Expr, binary, call, cast, column, conjunction, literal
from anabranch.plan.nodes import (
    Aggregate,
    Call,
    Filter,
    Generate,
    Item,
    Node,
    Project,
    UnionAll,
    same_columns,
)

_LEFT, _RIGHT, _COPY = "_ab_l", "_ab_r", "_ab_i"


def counted(left: Node, right: Node) -> Aggregate:
    """Each distinct row with its number of copies on either side; both sides have the same columns."""
    sides = [
        Project(side, (*same_columns(side), *_side(position)))
        for position, side in enumerate((left, right))
    ]
    calls = tuple(
        Call(name, call("SUM", column(name)), "sum", column(name), "int")
        for name in (_LEFT, _RIGHT)
    )
    keys = tuple(Item(name, column(name)) for name in left.columns)
    return Aggregate(UnionAll(tuple(sides)), keys, calls)


def _side(position: int) -> tuple[Item, Item]:
    one, none = literal(1), literal(0)
    return (Item(_LEFT, none if position else one), Item(_RIGHT, one if position else none))


def intersect(left: Node, right: Node, *, distinct: bool) -> Node:
    in_both = _where(_positive(_LEFT), _positive(_RIGHT))
    counts = Filter(counted(left, right), in_both)
    copies = None if distinct else call("LEAST", column(_LEFT), column(_RIGHT))
    return _copied(counts, left.columns, copies)


def except_(left: Node, right: Node, *, distinct: bool) -> Node:
    if distinct:
        absent = binary(exp.EQ, column(_RIGHT), literal(0))
        return _copied(Filter(counted(left, right), _where(_positive(_LEFT), absent)), left.columns)
    surplus = binary(exp.GT, column(_LEFT), column(_RIGHT))
    copies = binary(exp.Sub, column(_LEFT), column(_RIGHT))
    return _copied(Filter(counted(left, right), surplus), left.columns, copies)


def _copied(rows: Node, names: tuple[str, ...], copies: Expr | None = None) -> Node:
    if copies is not None:
        numbers = call("SEQUENCE", cast(literal(1), "bigint"), cast(copies, "bigint"))
        rows = Generate(rows, call("EXPLODE", numbers), (_COPY,))
    return Project(rows, tuple(Item(name, column(name)) for name in names))


def _positive(name: str) -> Expr:
    return binary(exp.GT, column(name), literal(0))


def _where(*predicates: Expr) -> Expr:
    condition = conjunction(predicates)
    assert condition is not None
    return condition
