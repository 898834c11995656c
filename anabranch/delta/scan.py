"""Δ of a scan is the difference of the source's snapshots; what is not stored does not change."""

from __future__ import annotations

from dataclasses import replace

from anabranch.delta.rule import Changed, Rule, differentiates
from anabranch.plan.nodes import Node, OneRow, Parameter, RecursiveRef, Scan, Version


@differentiates(Scan)
def scan(node: Scan, changed: Changed, delta: Rule) -> Node | None:
    return replace(node, version=Version.DELTA) if node.table in changed else None


@differentiates(OneRow, Parameter, RecursiveRef)
def constant(node: Node, changed: Changed, delta: Rule) -> Node | None:
    return None
