"""Only the columns that somebody above looks at; so that a scan names what a query really reads."""

from __future__ import annotations

from anabranch.cache import cached
from anabranch.plan.nodes import Node, Project, items_of


def prune(plan: Node) -> Node:
    return _exactly(_prune(plan, frozenset(plan.columns)), plan.columns)


@cached(5_000)
def _prune(node: Node, needed: frozenset[str]) -> Node:
    """The node with the needed columns and perhaps some others."""
    kept = node.keep_only(needed)
    if any(kept is part for part in node.inputs):
        return _prune(kept, needed)
    wanted = kept.uses(needed)
    if all(names is None for names in wanted):
        return kept
    inputs = []
    for part, names in zip(kept.inputs, wanted, strict=True):
        found = part if names is None else _prune(part, names)
        if kept.exact and names is not None:
            found = _exactly(found, tuple(name for name in kept.columns if name in names))
        inputs.append(found)
    return kept.with_inputs(inputs)


def _exactly(node: Node, names: tuple[str, ...]) -> Node:
    return node if node.columns == names else Project(node, items_of(names))
