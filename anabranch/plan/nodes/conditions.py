"""How a filter on keys is pushed through conditions that compare columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp

from anabranch.plan.exprs import Expr, column, conjuncts
from anabranch.plan.nodes.base import Node, On


def reads_only(on: On, names: Collection[str] | Mapping[str, Expr]) -> bool:
    return all(expr.columns <= set(names) for expr, _ in on)


def expressed_in(on: On, exprs: Mapping[str, Expr]) -> On:
    """The comparisons over the expressions that compute the columns."""
    return tuple((expr.substitute(exprs), key) for expr, key in on)


def through_equality(condition: Expr | None, child: Node, on: On) -> On:
    """`on` over another input, for the columns that the condition equates."""
    equal: dict[str, str] = {}
    for conjunct in conjuncts(condition):
        match conjunct.tree:
            case exp.EQ(this=exp.Column() as left, expression=exp.Column() as right):
                for own, other in ((left.name, right.name), (right.name, left.name)):
                    if own in child.columns:
                        equal.setdefault(other, own)
    pairs = ((equal.get(expr.column or ""), key) for expr, key in on)
    return tuple((column(name), key) for name, key in pairs if name is not None)
