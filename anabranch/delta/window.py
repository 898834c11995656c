"""ΔW(R) = W(R₁ ⋉ P) − W(R₀ ⋉ P)      P: the partitions that ΔR touches"""

from __future__ import annotations

from anabranch.delta.rule import Changed, Rule, differentiates
from anabranch.delta.touched import by_keys
from anabranch.plan.nodes import Node, TopK, Window


@differentiates(Window)
def window(node: Window, changed: Changed, delta: Rule) -> Node | None:
    return by_keys(node, node.partition, changed, delta)


@differentiates(TopK)
def top(node: TopK, changed: Changed, delta: Rule) -> Node | None:
    """The first rows of a partition depend on nothing but the partition."""
    return by_keys(node, node.partition, changed, delta)
