"""Only the columns that somebody above looks at; so that a scan names what a query really reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from anabranch.cache import cached
from anabranch.plan.exprs import Expr, column
from anabranch.plan.nodes import (
    Aggregate,
    Filter,
    Generate,
    Item,
    Join,
    Match,
    Node,
    Outer,
    Project,
    Recursive,
    Scan,
    Semi,
    Top,
    UnionAll,
    Windows,
)


def prune(plan: Node) -> Node:
    return _exactly(_prune(plan, frozenset(plan.columns)), plan.columns)


@cached(5_000)
def _prune(node: Node, needed: frozenset[str]) -> Node:
    """The node with the needed columns and perhaps some others."""
    match node:
        case Scan():
            return replace(node, names=_kept(node.names, needed))
        case Filter():
            return replace(node, input=_prune(node.input, needed | node.condition.columns))
        case Project():
            kept = _kept([item.name for item in node.items], needed)
            items = tuple(item for item in node.items if item.name in kept)
            return Project(_prune(node.input, _used(items)), items)
        case Aggregate():
            calls = tuple(call for call in node.calls if call.name in needed)
            if not calls and not node.keys:
                calls = node.calls[:1]
            used = _used(node.keys).union(*(call.expr.columns for call in calls))
            return Aggregate(_prune(node.input, used), node.keys, calls)
        case Join():
            wanted = needed | _of(node.condition)
            return node.with_inputs([_prune(part, wanted) for part in node.parts])
        case Semi():
            wanted = needed.union(*(expr.columns for expr, _ in node.on))
            return replace(node, input=_prune(node.input, wanted))
        case Outer():
            wanted = needed | _of(node.condition)
            return node.with_inputs([_prune(part, wanted) for part in node.inputs])
        case Match():
            wanted = needed | _of(node.condition)
            right = _prune(node.right, _of(node.condition))
            return replace(node, left=_prune(node.left, wanted), right=right)
        case Windows():
            asked = tuple(item for item in node.calls if item.name in needed)
            if not asked:
                return _prune(node.input, needed)
            wanted = needed.union(*(expr.columns for expr in node.partition)) | _used(asked)
            return replace(node, input=_prune(node.input, wanted), calls=asked)
        case Top():
            wanted = needed.union(
                *(expr.columns for expr in node.partition),
                *(order.expr.columns for order in node.order),
            )
            return replace(node, input=_prune(node.input, wanted))
        case Recursive():
            every = frozenset(node.columns)
            return node.with_inputs(
                [_exactly(_prune(part, every), node.columns) for part in node.inputs]
            )
        case Generate():
            return replace(node, input=_prune(node.input, needed | node.generator.columns))
        case UnionAll():
            kept = _kept(node.columns, needed)
            return UnionAll(tuple(_exactly(_prune(p, frozenset(kept)), kept) for p in node.parts))
    return node


def _kept(names: Iterable[str], needed: frozenset[str]) -> tuple[str, ...]:
    """A relation keeps one column even when only its rows are counted."""
    every = tuple(names)
    return tuple(name for name in every if name in needed) or every[:1]


def _of(condition: Expr | None) -> frozenset[str]:
    return condition.columns if condition is not None else frozenset()


def _used(items: Iterable[Item]) -> frozenset[str]:
    return frozenset().union(*(item.expr.columns for item in items))


def _exactly(node: Node, names: tuple[str, ...]) -> Node:
    if node.columns == names:
        return node
    return Project(node, tuple(Item(name, column(name)) for name in names))
