"""π_f(π_g(R)) = π_f∘g(R), unless that would evaluate an expression twice"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from anabranch.plan.nodes import Node, Project


def merge_projects(node: Node) -> Node:
    """
    >>> from anabranch.plan.read import rewritten
    >>> rewritten(merge_projects, '''
    ... Project x + 1 as y
    ...   Project k as x, v
    ...     Scan a (k, v)
    ... ''')
    Project k + 1 as y
      Scan default.a (k, v)
    """
    if not (isinstance(node, Project) and isinstance(node.input, Project)):
        return node
    inner_items = {item.name: item for item in node.input.items}
    uses = Counter(name for item in node.items for name in item.expr.columns)
    if any(uses[name] > 1 and inner_items[name].expr.column is None for name in uses):
        return node
    exprs = {name: item.expr for name, item in inner_items.items()}
    items = tuple(replace(item, expr=item.expr.substitute(exprs)) for item in node.items)
    return Project(node.input.input, items)
