"""Parts that a plan names more than once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import partial

from anabranch.plan.nodes import Node, Parameter, ReducedScan, Scan, Version
from anabranch.plan.walk import open_recursions, walk


def shared(root: Node, known: Collection[Node] = ()) -> list[Node]:
    """Nodes worth a name of their own, inner ones first: reduced scans, and what is used more than once
    and more than a renamed scan.  What lies below a `known` node is not looked at."""
    counts: Counter[Node] = Counter()
    order: list[Node] = []

    def visit(node: Node) -> None:
        counts[node] += 1
        if counts[node] == 1 and node not in known:  # below a node with a name all is used once
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
    """Whether a node is more than a renamed scan, and worth computing once."""
    return node.shareable and any(part.work for part in walk(node))


def worth_materializing(node: Node, known: Collection[Node] = ()) -> bool:
    """Whether to compute a shared part once and keep its rows: it is as small as the change that it
    comes from, and it takes reading more than changes, or joining what is `known`, to compute it."""
    if isinstance(node, ReducedScan):
        return True
    is_kept = partial(_is_kept, known)
    parts = list(walk(node, until=is_kept))
    if open_recursions(node) or any(isinstance(part, Parameter) for part in parts):
        return False
    versions = {part.version for part in parts if isinstance(part, Scan)}
    kept = any(map(is_kept, parts))
    if versions - {Version.DELTA}:
        return kept or Version.DELTA in versions
    return kept and any(part.heavy for part in parts)


def _is_kept(known: Collection[Node], node: Node) -> bool:
    return isinstance(node, ReducedScan) or node in known
