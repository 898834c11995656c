"""How keys reach the inputs of an operator whose condition compares columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp

from anabranch.plan.exprs import Expr, column, conjuncts
from anabranch.plan.nodes.base import Node, On


def reads_only(on: On, names: Collection[str] | Mapping[str, Expr]) -> bool:
    return all(expr.columns <= set(names) for expr, _ in on)


def in_words_of(on: On, exprs: Mapping[str, Expr]) -> On:
    """The comparison over what the columns are computed from."""
    return tuple((expr.substitute(exprs), key) for expr, key in on)


def through_equality(condition: Expr | None, part: Node, on: On) -> On:
    """`on` in the words of another input, as far as the condition makes them equal."""
    equal: dict[str, str] = {}
    for each in conjuncts(condition):
        match each.tree:
            case exp.EQ(this=exp.Column() as left, expression=exp.Column() as right):
                for mine, other in ((left.name, right.name), (right.name, left.name)):
                    if mine in part.columns:
                        equal.setdefault(other, mine)
    pairs = ((equal.get(expr.column or ""), key) for expr, key in on)
    return tuple((column(name), key) for name, key in pairs if name is not None)
