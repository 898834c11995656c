"""Parts that a plan names more than once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from anabranch.plan.nodes import (
    Again,
    Aggregate,
    Given,
    Join,
    Match,
    Node,
    Outer,
    Project,
    Scan,
    Semi,
    Top,
    UnionAll,
    Version,
    Windows,
)
from anabranch.plan.walk import walk

_RELATIONS = (Project, Aggregate, UnionAll, Outer, Match, Windows, Top)
_WORK = (*_RELATIONS[1:], Join, Semi)


def shared(root: Node, known: Collection[Node] = ()) -> list[Node]:
    """Nodes worth a name of their own, inner ones first: used more than once, and more than a
    renamed scan.  What lies below a `known` node is not looked at."""
    counts: Counter[Node] = Counter()
    order: list[Node] = []

    def visit(node: Node) -> None:
        counts[node] += 1
        if counts[node] == 1 and node not in known:  # below a node with a name all is used once
            for child in node.inputs:
                visit(child)
            order.append(node)

    visit(root)
    return [node for node in order if counts[node] > 1 and _is_work(node)]


def _is_work(node: Node) -> bool:
    return isinstance(node, _RELATIONS) and any(isinstance(part, _WORK) for part in walk(node))


def worth_keeping(node: Node) -> bool:
    """Whether to compute a shared part once and keep its rows: it is as small as the change that it
    comes from, and it takes reading more than changes to compute it."""
    parts = list(walk(node))
    scans = [part for part in parts if isinstance(part, Scan)]
    changes = [scan for scan in scans if scan.version is Version.DELTA]
    bound = any(isinstance(part, (Given, Again)) for part in parts)
    return bool(changes) and not bound and len(scans) > len(changes)
