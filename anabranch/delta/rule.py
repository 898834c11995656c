"""What the delta rules have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from anabranch.delta.registry import Registry
from anabranch.names import TableName
from anabranch.plan.exprs import binary, call, cast, column, literal, weight
from anabranch.plan.nodes import (
    WEIGHT,
    Aggregate,
    Call,
    Filter,
    Generate,
    Item,
    Node,
    Project,
    Scan,
    Version,
    items_of,
    same_columns,
)
from anabranch.plan.walk import transform

Changed = frozenset[TableName]
Rule = Callable[[Node, Changed], Node | None]
OperatorRule = Callable[[Any, Changed, Rule], Node | None]

_COPY = "_ab_i"

RULES = Registry[OperatorRule]()  # of Δ
differentiates = RULES.add


def at(node: Node, version: Version, changed: Changed | None = None) -> Node:
    """The plan over the tables before or after the change.

    A table outside `changed` is the same in both, and is always read as it is after.
    """

    def set_version(scan: Node) -> Node:
        if not isinstance(scan, Scan) or scan.version is not Version.NOW:
            return scan
        unchanged = changed is not None and scan.table not in changed
        return replace(scan, version=Version.AFTER if unchanged else version)

    return transform(node, set_version)


def net(change: Node) -> Node:
    """The delta with the weights of equal rows added up, for at most one inserted and one deleted row:
    if they are equal nothing has changed."""
    names = [name for name in change.columns if name != WEIGHT]
    total = Call(WEIGHT, call("SUM", column(WEIGHT)))
    totals = Aggregate(change, items_of(names), (total,))
    return Filter(totals, binary(exp.NEQ, column(WEIGHT), literal(0)))


def unit_weights(change: Node) -> Node:
    """Each row as often as its weight says, with the weight +1 or -1."""
    size, sign = (cast(call(each, column(WEIGHT)), "bigint") for each in ("ABS", "SIGN"))
    copies = Generate(change, call("EXPLODE", call("SEQUENCE", weight(1), size)), (_COPY,))
    names = [name for name in change.columns if name != WEIGHT]
    return Project(copies, (*items_of(names), Item(WEIGHT, sign)))


def weighted(node: Node, sign: int) -> Node:
    """Every row with the weight +1 or -1."""
    return Project(node, (*same_columns(node), Item(WEIGHT, weight(sign))))
