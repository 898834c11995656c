"""σ_a(σ_b(R)) = σ_{b ∧ a}(R)"""

from __future__ import annotations

from anabranch.plan.exprs import conjuncts
from anabranch.plan.nodes import Filter, Node
from anabranch.plan.rules.filtered import filtered


def merge_filters(node: Node) -> Node:
    """
    >>> from anabranch.plan.read import rewritten
    >>> rewritten(merge_filters, '''
    ... Filter v < 9
    ...   Filter k > 1
    ...     Scan a (k, v)
    ... ''')
    Filter k > 1 AND v < 9
      Scan default.a (k, v)
    """
    if not (isinstance(node, Filter) and isinstance(node.input, Filter)):
        return node
    inner = node.input
    return filtered(inner.input, (*conjuncts(inner.condition), *conjuncts(node.condition)))
