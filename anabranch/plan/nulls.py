"""Filtering out rows with NULLs in some columns; what is known to be NOT NULL is a trait of nodes."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.plan.exprs import column, conjunction, is_not_null
from anabranch.plan.nodes import Filter, Node, Project, same_columns


def without_nulls(node: Node, names: Iterable[str]) -> Node:
    """The rows in which none of the columns is NULL, as a relation of its own: it may be shared."""
    condition = conjunction(is_not_null(column(name)) for name in names)
    return node if condition is None else Project(Filter(node, condition), same_columns(node))
