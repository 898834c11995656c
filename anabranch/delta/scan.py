"""Δ(scan) is what the source's snapshots differ by; what is not stored does not change."""

from __future__ import annotations

from dataclasses import replace

from anabranch.delta.rule import Changed, Rule, differentiates
from anabranch.plan.nodes import Again, Given, Node, OneRow, Scan, Version


@differentiates(Scan)
def scan(node: Scan, changed: Changed, delta: Rule) -> Node | None:
    return replace(node, version=Version.DELTA) if node.table in changed else None


@differentiates(OneRow, Given, Again)
def constant(node: Node, changed: Changed, delta: Rule) -> Node | None:
    return None
