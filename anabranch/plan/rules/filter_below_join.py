"""R ⋈_c S = σ_c(R) ⋈ S where c reads only R: so that R can be filtered by its keys"""

from __future__ import annotations

from anabranch.plan.exprs import conjunction, conjuncts
from anabranch.plan.nodes import Filter, Join, Node
from anabranch.plan.rules.filter_below_aggregate import filter_below_aggregate
from anabranch.plan.rules.filter_below_project import filter_below_project
from anabranch.plan.rules.filter_into_join import filter_into_join
from anabranch.plan.rules.filtered import filtered
from anabranch.plan.rules.merge_filters import merge_filters


def filter_below_join(node: Node) -> Node:
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
    if not isinstance(node, Join):
        return node
    parts, pending = list(node.parts), list(conjuncts(node.condition))
    for position, part in enumerate(parts):
        own = [
            predicate
            for predicate in pending
            if predicate.columns and predicate.columns <= {*part.columns}
        ]
        if own:
            pending = [predicate for predicate in pending if predicate not in own]
            parts[position] = _pushed_down(filtered(part, own))
    return Join(tuple(parts), conjunction(pending), node.broadcast)


_PUSHDOWN = (filter_below_project, filter_below_aggregate, filter_into_join)


def _pushed_down(node: Node) -> Node:
    """Push a filter that has just moved as far down as it goes, and no other: shared subplans stay
    identical."""
    if not isinstance(node, Filter):
        return node
    node = merge_filters(node)
    pushed = next((rewritten for rule in _PUSHDOWN if (rewritten := rule(node)) is not node), node)
    return pushed if pushed is node else _pushed_further(pushed)


def _pushed_further(node: Node) -> Node:
    if isinstance(node, Join):
        return node
    (below,) = node.inputs
    return node.with_inputs(
        [_pushed_further(below) if isinstance(node, Filter) else _pushed_down(below)]
    )
