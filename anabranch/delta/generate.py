"""ΔG(R) = G(ΔR): generated rows inherit the weight of their row"""

from __future__ import annotations

from dataclasses import replace

from anabranch.delta.rule import Changed, Rule, differentiates
from anabranch.plan.nodes import WEIGHT, Generate, Node, Project, items_of


@differentiates(Generate)
def generate(node: Generate, changed: Changed, delta: Rule) -> Node | None:
    change = delta(node.input, changed)
    if change is None:
        return None
    generated = replace(node, input=change)
    return Project(generated, items_of((*node.columns, WEIGHT)))
