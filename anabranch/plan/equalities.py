"""The equalities of a join condition: what makes it possible to look at some keys only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp

from anabranch.plan.exprs import Expr, conjuncts


@dataclass(frozen=True)
class Equality:
    """`left = right`, each over one side; with `null_safe` NULL equals NULL."""

    left: Expr
    right: Expr
    null_safe: bool = False


def equalities(
    condition: Expr | None, left: Collection[str], right: Collection[str]
) -> tuple[Equality, ...]:
    """The parts of the condition that compare something of the left with something of the right."""
    found = (equality(part, left, right) for part in conjuncts(condition))
    return tuple(each for each in found if each is not None)


def equality(expr: Expr, left: Collection[str], right: Collection[str]) -> Equality | None:
    tree = expr.tree
    if not isinstance(tree, (exp.EQ, exp.NullSafeEQ)):
        return None
    one, other = Expr.of(tree.this), Expr.of(tree.expression)
    if not one.columns or not other.columns:
        return None
    null_safe = isinstance(tree, exp.NullSafeEQ)
    mine, theirs = set(left), set(right)
    if one.columns <= mine and other.columns <= theirs:
        return Equality(one, other, null_safe)
    if one.columns <= theirs and other.columns <= mine:
        return Equality(other, one, null_safe)
    return None
