"""Common subplans: nodes that a plan uses more than once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import partial

from anabranch.plan.nodes import Node, Parameter, ReducedScan, Scan, Version
from anabranch.plan.walk import open_recursions, walk


def shared(root: Node, materialized: Collection[Node] = ()) -> list[Node]:
    """Common subplans worth a name of their own, inner ones first: reduced scans, and what is used more
    than once and does more than rename a scan.  Inputs of `materialized` nodes are not visited."""
    counts: Counter[Node] = Counter()
    order: list[Node] = []

    def visit(node: Node) -> None:
        counts[node] += 1
        if (
            counts[node] == 1 and node not in materialized
        ):  # what only a shared node reads is used once
            for child in node.inputs:
                visit(child)
            order.append(node)

    visit(root)
    return [
        node
        for node in order
        if isinstance(node, ReducedScan)
        or (counts[node] > 1 and is_work(node) and not open_recursions(node))
    ]


def is_work(node: Node) -> bool:
    """Whether a node does more than rename a scan, and is worth computing once."""
    return node.shareable and any(part.work for part in walk(node))


def worth_materializing(node: Node, materialized: Collection[Node] = ()) -> bool:
    """Whether to store the rows of a common subplan: it is as small as the delta it comes from, and
    computing it reads more than deltas, or joins what is `materialized` already."""
    if isinstance(node, ReducedScan):
        return True
    is_stored = partial(_is_stored, materialized)
    parts = list(walk(node, until=is_stored))
    if open_recursions(node) or any(isinstance(part, Parameter) for part in parts):
        return False
    versions = {part.version for part in parts if isinstance(part, Scan)}
    reads_stored = any(map(is_stored, parts))
    if versions - {Version.DELTA}:
        return reads_stored or Version.DELTA in versions
    return reads_stored and any(part.heavy for part in parts)


def _is_stored(materialized: Collection[Node], node: Node) -> bool:
    return isinstance(node, ReducedScan) or node in materialized
