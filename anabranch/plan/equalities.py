"""The equalities of a join condition: what makes it possible to read some keys only."""

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
    """The conjuncts that compare an expression over the left with one over the right."""
    candidates = (equality(conjunct, left, right) for conjunct in conjuncts(condition))
    return tuple(candidate for candidate in candidates if candidate is not None)


def equality(expr: Expr, left: Collection[str], right: Collection[str]) -> Equality | None:
    tree = expr.tree
    if not isinstance(tree, (exp.EQ, exp.NullSafeEQ)):
        return None
    first, second = Expr.of(tree.this), Expr.of(tree.expression)
    if not first.columns or not second.columns:
        return None
    null_safe = isinstance(tree, exp.NullSafeEQ)
    left_columns, right_columns = set(left), set(right)
    if first.columns <= left_columns and second.columns <= right_columns:
        return Equality(first, second, null_safe)
    if first.columns <= right_columns and second.columns <= left_columns:
        return Equality(second, first, null_safe)
    return None
