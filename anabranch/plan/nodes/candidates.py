"""What groups, matches or rows may be found by: the parts of expressions whose equality counts.

Such a value must be of a type whose equality is known (see `plan.sameness`).  What is only evaluated
row by row, such as `WHERE s COLLATE UTF8_LCASE = 'a'`, may be of any type.  A column that an input has
is looked at where it is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from anabranch.plan.exprs import Expr, Tree, conjuncts


def computed(exprs: Iterable[Expr]) -> tuple[Expr, ...]:
    return tuple(expr for expr in exprs if expr.column is None)


def equated(condition: Expr | None) -> Iterator[Expr]:
    """The sides of equalities that may become keys: both sides must use columns."""
    for predicate in conjuncts(condition):
        if isinstance(predicate.tree, (exp.EQ, exp.NullSafeEQ)):
            sides = [Expr.of(predicate.tree.this), Expr.of(predicate.tree.expression)]
            if all(side.columns for side in sides):
                yield from sides


def arguments(tree: Tree) -> Iterator[Expr]:
    """What an aggregate or window call uses, except for its FILTER."""
    match tree:
        case exp.Filter() | exp.IgnoreNulls() | exp.RespectNulls():
            yield from arguments(tree.this)
        case exp.WithinGroup():
            yield from arguments(tree.this)
            yield from _ordered(tree.expression)
        case exp.Window():
            yield from arguments(tree.this)
            yield from map(Expr.of, tree.args.get("partition_by") or ())
            yield from _ordered(tree.args.get("order"))
        case exp.Anonymous():
            for argument in tree.expressions:
                args = argument.expressions if isinstance(argument, exp.Distinct) else [argument]
                yield from (Expr.of(arg) for arg in args if arg.find(exp.Column))


def _ordered(order: Tree | None) -> Iterator[Expr]:
    yield from (Expr.of(key.this) for key in (order.expressions if order is not None else ()))
