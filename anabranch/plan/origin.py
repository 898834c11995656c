"""Where the values of a column come from."""

from __future__ import annotations

from anabranch.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    Look,
    Match,
    Node,
    Outer,
    Project,
    Scan,
    Semi,
    Top,
    Windows,
)


def origin(node: Node, name: str) -> tuple[Scan, str] | None:
    """The column of a scan that is passed on as it is, or as NULL; None if it is computed."""
    while not isinstance(node, Scan):
        below = _below(node, name)
        if below is None:
            return None
        node, name = below
    return node, name


def _below(node: Node, name: str) -> tuple[Node, str] | None:
    match node:
        case Project(input=inner, items=named) | Aggregate(input=inner, keys=named):
            passed = next((item.expr.column for item in named if item.name == name), None)
            return None if passed is None else (inner, passed)
        case Filter() | Join() | Look() | Match() | Outer() | Semi() | Top() | Windows():
            return next(((part, name) for part in node.inputs if name in part.columns), None)
    return None
