"""R ⋈_c S = σ_c(R) ⋈ S where c looks only at R: for those who ask R for its keys"""

from __future__ import annotations

from anabranch.plan.exprs import conjunction, conjuncts
from anabranch.plan.nodes import Filter, Join, Node
from anabranch.plan.rules.filter_below_aggregate import filter_below_aggregate
from anabranch.plan.rules.filter_below_project import filter_below_project
from anabranch.plan.rules.filter_into_join import filter_into_join
from anabranch.plan.rules.filtered import filtered
from anabranch.plan.rules.merge_filters import merge_filters


def filter_below_join(node: Join) -> Join:
    """
    >>> from anabranch.plan.read import rewritten
    >>> rewritten(filter_below_join, '''
    ... Join on k = l AND v > 1
    ...   Scan a (k, v)
    ...   Scan b (l)
    ... ''')
    Join on k = l
      Filter v > 1
        Scan default.a (k, v)
      Scan default.b (l)
    """
    parts, waiting = list(node.parts), list(conjuncts(node.condition))
    for at, part in enumerate(parts):
        own = [expr for expr in waiting if expr.columns and expr.columns <= {*part.columns}]
        if own:
            waiting = [expr for expr in waiting if expr not in own]
            parts[at] = _moved(filtered(part, own))
    return Join(tuple(parts), conjunction(waiting), node.broadcast)


_RULES = (filter_below_project, filter_below_aggregate, filter_into_join)


def _moved(node: Node) -> Node:
    """A filter that has just moved goes on as far as it can, and no other does: parts that a plan
    shares stay the same."""
    if not isinstance(node, Filter):
        return node
    node = merge_filters(node)
    found = next((after for rule in _RULES if (after := rule(node)) is not node), node)
    return found if found is node else _further(found)


def _further(node: Node) -> Node:
    if isinstance(node, Join):
        return node
    (below,) = node.inputs
    return node.with_inputs([_further(below) if isinstance(node, Filter) else _moved(below)])
