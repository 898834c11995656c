"""σ_c(π(R)) = π(σ_c'(R)) where c reads only columns that π passes on"""

from __future__ import annotations

from anabranch.plan.nodes import Filter, Node, Project


def filter_below_project(node: Node) -> Node:
    """
    >>> from anabranch.plan.read import rewritten
    >>> rewritten(filter_below_project, '''
    ... Filter x > 1
    ...   Project k as x, v + 1 as y
    ...     Scan a (k, v)
    ... ''')
    Project k as x, v + 1 as y
      Filter k > 1
        Scan default.a (k, v)
    """
    if not (isinstance(node, Filter) and isinstance(node.input, Project)):
        return node
    exprs = {item.name: item.expr for item in node.input.items}
    if any(exprs[name].column is None for name in node.condition.columns):
        return node
    below = Filter(node.input.input, node.condition.substitute(exprs))
    return Project(below, node.input.items)
