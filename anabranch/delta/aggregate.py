"""Δγ(R) = γ(R₁ ⋉ K) − γ(R₀ ⋉ K)      K: the keys in ΔR

An aggregate without keys has one row before and one after, and no delta if they are equal.
"""

from __future__ import annotations

from anabranch.delta.rule import Changed, Rule, differentiates, net
from anabranch.delta.touched import by_keys
from anabranch.plan.nodes import Aggregate, Node


@differentiates(Aggregate)
def aggregate(node: Aggregate, changed: Changed, delta: Rule) -> Node | None:
    change = by_keys(node, [key.expr for key in node.keys], changed, delta)
    return net(change) if change is not None and not node.keys else change
