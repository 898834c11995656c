"""What the rules of the operators share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anabranch.names import TableName
from anabranch.plan.exprs import weight
from anabranch.plan.nodes import WEIGHT, Item, Node, Project, Scan, Version, same_columns
from anabranch.plan.walk import transform

Changed = frozenset[TableName]
Rule = Callable[[Node, Changed], Node | None]


def at(node: Node, version: Version, changed: Changed | None = None) -> Node:
    """The plan over the tables as they were before, or are after, the change.

    A table outside `changed` is the same at both, and is always read as it is after.
    """

    def move(part: Node) -> Node:
        if not isinstance(part, Scan) or part.version is not Version.NOW:
            return part
        same = changed is not None and part.table not in changed
        return replace(part, version=Version.AFTER if same else version)

    return transform(node, move)


def weighted(node: Node, sign: int) -> Node:
    """Every row with the weight +1 or -1."""
    return Project(node, (*same_columns(node), Item(WEIGHT, weight(sign))))
