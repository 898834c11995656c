"""Every value that a plan looks rows up by: what a group, a partner or a row is found again with.

Such a value must be of a type whose equality is known (see `plan.sameness`).  What is only judged row
by row, such as `WHERE s COLLATE UTF8_LCASE = 'a'`, may be of any type.
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
    """Whether a query says anything that could make a value of a type that no table holds.

    Only functions that are known to be Spark's own get this far, so that the list of those is whole.
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


def looked_up(plan: Node) -> Iterator[tuple[Node, list[Expr]]]:
    """Expressions of the plan, each list over the columns of a node."""
    for node in walk(plan):
        match node:
            case Project():
                yield node.input, [item.expr for item in node.items]
            case Aggregate():
                calls = (part for call in node.calls for part in _arguments(call.expr.tree))
                yield node.input, [*(key.expr for key in node.keys), *calls]
            case Window():
                calls = (part for call in node.calls for part in _arguments(call.expr.tree))
                yield node.input, [*node.partition, *calls]
            case Generate():
                yield node, [column(name) for name in node.names]
            case Filter():
                yield node.input, list(_equated(node.condition))
            case Outer() | ExistenceJoin() if node.condition is not None:
                both = node if isinstance(node, Outer) else Join((node.left, node.right))
                yield both, list(_equated(node.condition))
            case Join() if node.condition is not None:
                yield node, list(_equated(node.condition))


def _arguments(tree: Tree) -> Iterator[Expr]:
    """What an aggregate or window call looks at, but for its FILTER."""
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
            for part in tree.expressions:
                parts = part.expressions if isinstance(part, exp.Distinct) else [part]
                yield from (Expr.of(each) for each in parts if each.find(exp.Column))


def _ordered(order: Tree | None) -> Iterator[Expr]:
    yield from (Expr.of(each.this) for each in (order.expressions if order is not None else ()))


def _equated(condition: Expr) -> Iterator[Expr]:
    """The sides of equalities that may become keys: of two that both look at columns."""
    for part in conjuncts(condition):
        if isinstance(part.tree, (exp.EQ, exp.NullSafeEQ)):
            sides = [Expr.of(part.tree.this), Expr.of(part.tree.expression)]
            if all(side.columns for side in sides):
                yield from sides
