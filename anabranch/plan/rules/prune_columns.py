"""π_c(Q(R)) = π_c(Q(π_d(R)))      d: the columns that c is made of, and those that decide about rows

Only the columns that somebody above looks at; so that a scan names what a query really reads.
"""

from __future__ import annotations

from anabranch.cache import cached
from anabranch.plan.nodes import Node, Project, items_of


def prune_columns(plan: Node) -> Node:
    """
    >>> from anabranch.plan.read import rewritten
    >>> rewritten(prune_columns, '''
    ... Project x
    ...   Filter y > 1
    ...     Project k as x, v as y, w as z
    ...       Scan a (k, v, w, u)
    ... ''')
    Project x
      Filter y > 1
        Project k as x, v as y
          Scan default.a (k, v)
    """
    return _exactly(_pruned(plan, frozenset(plan.columns)), plan.columns)


@cached(5_000)
def _pruned(node: Node, needed: frozenset[str]) -> Node:
    """The node with the needed columns and perhaps some others."""
    kept = node.keep_only(needed)
    if any(kept is part for part in node.inputs):
        return _pruned(kept, needed)
    wanted = kept.uses(needed)
    if all(names is None for names in wanted):
        return kept
    inputs = []
    for part, names in zip(kept.inputs, wanted, strict=True):
        found = part if names is None else _pruned(part, names)
        if kept.exact and names is not None:
            found = _exactly(found, tuple(name for name in kept.columns if name in names))
        inputs.append(found)
    return kept.with_inputs(inputs)


def _exactly(node: Node, names: tuple[str, ...]) -> Node:
    return node if node.columns == names else Project(node, items_of(names))
