"""What the rules of the operators share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from anabranch.delta.by_class import ByClass
from anabranch.names import TableName
from anabranch.plan.exprs import binary, call, column, literal, weight
from anabranch.plan.nodes import (
    WEIGHT,
    Aggregate,
    Call,
    Filter,
    Item,
    Node,
    Project,
    Scan,
    Version,
    same_columns,
)
from anabranch.plan.walk import transform

Changed = frozenset[TableName]
Rule = Callable[[Node, Changed], Node | None]
OperatorRule = Callable[[Any, Changed, Rule], Node | None]

RULES = ByClass[OperatorRule]()  # of Δ
differentiates = RULES.add


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


def net(change: Node) -> Node:
    """The weights of equal rows added up, for a delta of at most one row that comes and one that
    goes: if they are equal nothing has changed."""
    names = [name for name in change.columns if name != WEIGHT]
    total = Call(WEIGHT, call("SUM", column(WEIGHT)))
    rows = Aggregate(change, tuple(Item(name, column(name)) for name in names), (total,))
    return Filter(rows, binary(exp.NEQ, column(WEIGHT), literal(0)))


def weighted(node: Node, sign: int) -> Node:
    """Every row with the weight +1 or -1."""
    return Project(node, (*same_columns(node), Item(WEIGHT, weight(sign))))
