"""Every value that a plan finds groups, matches or rows by.

Such a value must be of a type whose equality is known (see `plan.sameness`).  What is only evaluated
row by row, such as `WHERE s COLLATE UTF8_LCASE = 'a'`, may be of any type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from anabranch.plan.exprs import Expr, Tree, column, conjuncts
from anabranch.plan.nodes import (
    Aggregate,
    ExistenceJoin,
    Filter,
    Generate,
    Join,
    Node,
    Outer,
    Project,
    Window,
)
from anabranch.plan.sameness import sameness
from anabranch.plan.walk import walk
from anabranch.sql.analyze import functions


def may_have_other_types(trees: Iterable[Tree]) -> bool:
    """Whether a query contains anything of a type that no table can have.

    Only functions known to be Spark's own get here, so that the list of those is complete.
    """
    return any(_is_other(node) for tree in trees for node in tree.walk())


def _is_other(node: Tree) -> bool:
    match node:
        case exp.Collate():
            return True
        case exp.DataType():
            return not sameness(node.sql("spark")).makes_keys
        case exp.Anonymous():
            return node.name.lower() in functions.OTHER_TYPES
    return False


def key_candidates(plan: Node) -> Iterator[tuple[Node, list[Expr]]]:
    """Expressions that may serve as keys, each list over the columns of a node."""
    for node in walk(plan):
        match node:
            case Project():
                yield node.input, [item.expr for item in node.items]
            case Aggregate():
                calls = (argument for call in node.calls for argument in _arguments(call.expr.tree))
                yield node.input, [*(key.expr for key in node.keys), *calls]
            case Window():
                calls = (argument for call in node.calls for argument in _arguments(call.expr.tree))
                yield node.input, [*node.partition, *calls]
            case Generate():
                yield node, [column(name) for name in node.names]
            case Filter():
                yield node.input, list(_equated(node.condition))
            case Outer() | ExistenceJoin() if node.condition is not None:
                joined = node if isinstance(node, Outer) else Join((node.left, node.right))
                yield joined, list(_equated(node.condition))
            case Join() if node.condition is not None:
                yield node, list(_equated(node.condition))


def _arguments(tree: Tree) -> Iterator[Expr]:
    """What an aggregate or window call uses, except for its FILTER."""
    match tree:
        case exp.Filter() | exp.IgnoreNulls() | exp.RespectNulls():
            yield from _arguments(tree.this)
        case exp.WithinGroup():
            yield from _arguments(tree.this)
            yield from _ordered(tree.expression)
        case exp.Window():
            yield from _arguments(tree.this)
            yield from map(Expr.of, tree.args.get("partition_by") or ())
            yield from _ordered(tree.args.get("order"))
        case exp.Anonymous():
            for argument in tree.expressions:
                args = argument.expressions if isinstance(argument, exp.Distinct) else [argument]
                yield from (Expr.of(arg) for arg in args if arg.find(exp.Column))


def _ordered(order: Tree | None) -> Iterator[Expr]:
    yield from (Expr.of(key.this) for key in (order.expressions if order is not None else ()))


def _equated(condition: Expr) -> Iterator[Expr]:
    """The sides of equalities that may become keys: both sides must use columns."""
    for predicate in conjuncts(condition):
        if isinstance(predicate.tree, (exp.EQ, exp.NullSafeEQ)):
            sides = [Expr.of(predicate.tree.this), Expr.of(predicate.tree.expression)]
            if all(side.columns for side in sides):
                yield from sides
