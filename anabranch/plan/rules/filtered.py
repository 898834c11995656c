"""Filters over a node."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.plan.exprs import Expr, conjunction
from anabranch.plan.nodes import Filter, Node


def filtered(node: Node, predicates: Sequence[Expr]) -> Node:
    """The rows for which all predicates are true."""
    condition = conjunction(predicates)
    return node if condition is None else Filter(node, condition)
