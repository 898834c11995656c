"""Δγ(R) = γ(R₁ ⋉ K) − γ(R₀ ⋉ K)      K: the keys in ΔR

An aggregate without keys has one row before and one after.
"""

from __future__ import annotations

from anabranch.delta.rule import Changed, Rule, at, weighted
from anabranch.plan.nodes import Aggregate, Node, UnionAll, Version
from anabranch.plan.push_keys import semi


def aggregate(node: Aggregate, changed: Changed, delta: Rule) -> Node | None:
    change = delta(node.input, changed)
    if change is None:
        return None
    after = at(node.input, Version.AFTER, changed)
    before = at(node.input, Version.BEFORE, changed)
    if node.keys:
        keys = touched(node, change)
        on = tuple((key.expr, name) for key, name in zip(node.keys, keys.columns, strict=True))
        after, before = semi(after, keys, on), semi(before, keys, on)
    plus = Aggregate(after, node.keys, node.calls)
    minus = Aggregate(before, node.keys, node.calls)
    return UnionAll((weighted(plus, 1), weighted(minus, -1)))


def touched(node: Aggregate, change: Node) -> Aggregate:
    """The keys of the groups that a change of the input touches, each once."""
    return Aggregate(change, node.keys)
