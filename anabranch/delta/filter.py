"""Δσ(R) = σ(ΔR)"""

from __future__ import annotations

from anabranch.delta.rule import Changed, Rule, differentiates
from anabranch.plan.nodes import Filter, Node


@differentiates(Filter)
def filter_(node: Filter, changed: Changed, delta: Rule) -> Node | None:
    change = delta(node.input, changed)
    return None if change is None else Filter(change, node.condition)
