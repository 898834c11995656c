"""π_c(Q(R)) = π_c(Q(π_d(R)))      d: the columns that c, and the choice of rows, depend on

Column pruning: only what is used further up stays, so that a scan names what a query really reads.
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
    return _with_columns(_pruned(plan, frozenset(plan.columns)), plan.columns)


@cached(5_000)
def _pruned(node: Node, needed: frozenset[str]) -> Node:
    """The node with at least the needed columns."""
    pruned = node.keep_only(needed)
    if any(pruned is child for child in node.inputs):
        return _pruned(pruned, needed)
    uses = pruned.uses(needed)
    if all(used is None for used in uses):
        return pruned
    inputs = []
    for child, used in zip(pruned.inputs, uses, strict=True):
        pruned_input = child if used is None else _pruned(child, used)
        if pruned.exact and used is not None:
            pruned_input = _with_columns(
                pruned_input, tuple(name for name in pruned.columns if name in used)
            )
        inputs.append(pruned_input)
    return pruned.with_inputs(inputs)


def _with_columns(node: Node, names: tuple[str, ...]) -> Node:
    return node if node.columns == names else Project(node, items_of(names))
