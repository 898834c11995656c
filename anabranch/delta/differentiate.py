"""Δ: the plan of what changes, for every operator.

    after = before + Δ        as bags: the weights of equal rows add up, and zero is no row

Weights are exactly +1 or -1; only one-row deltas are consolidated inside a delta plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anabranch.cache import cached
from anabranch.delta.aggregate import aggregate
from anabranch.delta.filter import filter_
from anabranch.delta.generate import generate
from anabranch.delta.join import join
from anabranch.delta.partners import outer, partners
from anabranch.delta.project import project
from anabranch.delta.recursive import recursive
from anabranch.delta.rule import Changed, Rule
from anabranch.delta.scan import constant, scan
from anabranch.delta.union_all import union_all
from anabranch.delta.windows import top, windows
from anabranch.plan.nodes import (
    Again,
    Aggregate,
    Filter,
    Generate,
    Given,
    Join,
    Match,
    Node,
    OneRow,
    Outer,
    Project,
    Recursive,
    Scan,
    Top,
    UnionAll,
    Windows,
)
from anabranch.plan.walk import reads_now

RULES: Mapping[type[Node], Callable[[Any, Changed, Rule], Node | None]] = {
    Scan: scan,
    OneRow: constant,
    Given: constant,
    Again: constant,
    Recursive: recursive,
    Filter: filter_,
    Project: project,
    Join: join,
    Aggregate: aggregate,
    UnionAll: union_all,
    Outer: outer,
    Match: partners,
    Windows: windows,
    Top: top,
    Generate: generate,
}


@cached(5_000)
def delta(node: Node, changed: Changed) -> Node | None:
    """The node's columns and `_ab_w`; None when nothing below it has changed."""
    if not reads_now(node) & changed:
        return None
    return RULES[type(node)](node, changed, delta)
