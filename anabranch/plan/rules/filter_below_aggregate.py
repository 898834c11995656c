"""σ_c(γ_k(R)) = γ_k(σ_c(R)) where c reads only keys, and at least one"""

from __future__ import annotations

from dataclasses import replace

from anabranch.plan.exprs import conjuncts
from anabranch.plan.nodes import Aggregate, Filter, Node
from anabranch.plan.rules.filtered import filtered


def filter_below_aggregate(node: Node) -> Node:
    """
    >>> from anabranch.plan.read import rewritten
    >>> rewritten(filter_below_aggregate, '''
    ... Filter g > 1 AND n > 2
    ...   Aggregate COUNT(*) as n by k as g
    ...     Scan a (k)
    ... ''')
    Filter n > 2
      Aggregate COUNT(*) as n by k as g
        Filter k > 1
          Scan default.a (k)
    """
    if not (isinstance(node, Filter) and isinstance(node.input, Aggregate)):
        return node
    keys = {key.name: key.expr for key in node.input.keys}
    predicates = conjuncts(node.condition)
    pushed = [
        predicate
        for predicate in predicates
        if predicate.columns and predicate.columns <= keys.keys()
    ]
    remaining = [predicate for predicate in predicates if predicate not in pushed]
    if not pushed:
        return node
    rows = filtered(node.input.input, [predicate.substitute(keys) for predicate in pushed])
    return filtered(replace(node.input, input=rows), remaining)
