"""Δπ(R) = π(ΔR), the weight passed on"""

from __future__ import annotations

from anabranch.delta.rule import Changed, Rule, differentiates
from anabranch.plan.exprs import column
from anabranch.plan.nodes import WEIGHT, Item, Node, Project


@differentiates(Project)
def project(node: Project, changed: Changed, delta: Rule) -> Node | None:
    change = delta(node.input, changed)
    return None if change is None else Project(change, (*node.items, Item(WEIGHT, column(WEIGHT))))
