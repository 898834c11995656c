"""Only the columns that somebody above looks at; so that a scan names what a query really reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from anabranch.plan.exprs import column
from anabranch.plan.nodes import (
    Aggregate,
    Filter,
    Item,
    Join,
    Node,
    Project,
    Scan,
    Semi,
    UnionAll,
)


def prune(plan: Node) -> Node:
    return _exactly(_prune(plan, frozenset(plan.columns)), plan.columns)


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
            wanted = needed | (node.condition.columns if node.condition else frozenset())
            return node.with_inputs([_prune(part, wanted) for part in node.parts])
        case Semi():
            wanted = needed.union(*(expr.columns for expr, _ in node.on))
            return replace(node, input=_prune(node.input, wanted))
        case UnionAll():
            kept = _kept(node.columns, needed)
            return UnionAll(tuple(_exactly(_prune(p, frozenset(kept)), kept) for p in node.parts))
    return node


def _kept(names: Iterable[str], needed: frozenset[str]) -> tuple[str, ...]:
    """A relation keeps one column even when only its rows are counted."""
    every = tuple(names)
    return tuple(name for name in every if name in needed) or every[:1]


def _used(items: Iterable[Item]) -> frozenset[str]:
    return frozenset().union(*(item.expr.columns for item in items))


def _exactly(node: Node, names: tuple[str, ...]) -> Node:
    if node.columns == names:
        return node
    return Project(node, tuple(Item(name, column(name)) for name in names))
