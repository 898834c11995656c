"""ΔG(R) = G(ΔR): a row's weight goes with all rows that are made of it"""

from __future__ import annotations

from dataclasses import replace

from anabranch.delta.rule import Changed, Rule, differentiates
from anabranch.plan.exprs import column
from anabranch.plan.nodes import WEIGHT, Generate, Item, Node, Project


@differentiates(Generate)
def generate(node: Generate, changed: Changed, delta: Rule) -> Node | None:
    change = delta(node.input, changed)
    if change is None:
        return None
    made = replace(node, input=change)
    return Project(made, tuple(Item(name, column(name)) for name in (*node.columns, WEIGHT)))
