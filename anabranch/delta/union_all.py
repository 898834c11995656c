"""Δ(R + S) = ΔR + ΔS"""

from __future__ import annotations

from anabranch.delta.rule import Changed, Rule, differentiates
from anabranch.plan.nodes import Node, UnionAll


@differentiates(UnionAll)
def union_all(node: UnionAll, changed: Changed, delta: Rule) -> Node | None:
    changes = [delta(child, changed) for child in node.parts]
    present = tuple(change for change in changes if change is not None)
    return UnionAll(present) if len(present) > 1 else next(iter(present), None)
