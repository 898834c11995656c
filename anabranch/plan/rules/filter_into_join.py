"""σ_c(R ⋈ S) = R ⋈_c S"""

from __future__ import annotations

from dataclasses import replace

from anabranch.plan.exprs import conjunction, conjuncts
from anabranch.plan.nodes import Filter, Join, Node


def filter_into_join(node: Node) -> Node:
    """
    >>> from anabranch.plan.read import rewritten
    >>> rewritten(filter_into_join, '''
    ... Filter k = l
    ...   Join (all pairs)
    ...     Scan a (k)
    ...     Scan b (l)
    ... ''')
    Join on k = l
      Scan default.a (k)
      Scan default.b (l)
    """
    if not (isinstance(node, Filter) and isinstance(node.input, Join)):
        return node
    parts = (*conjuncts(node.input.condition), *conjuncts(node.condition))
    return replace(node.input, condition=conjunction(parts))
