"""(R ⋈ S) ⋈ T = R ⋈ S ⋈ T"""

from __future__ import annotations

from anabranch.plan.exprs import Expr, conjunction, conjuncts
from anabranch.plan.nodes import Join, Node


def flatten_joins(node: Node) -> Node:
    """
    >>> from anabranch.plan.read import rewritten
    >>> rewritten(flatten_joins, '''
    ... Join on l = m
    ...   Join on k = l
    ...     Scan a (k)
    ...     Scan b (l)
    ...   Scan c (m)
    ... ''')
    Join on k = l AND l = m
      Scan default.a (k)
      Scan default.b (l)
      Scan default.c (m)
    """
    if not isinstance(node, Join) or not any(isinstance(part, Join) for part in node.parts):
        return node
    parts: list[Node] = []
    conditions: list[Expr] = []
    for part in node.parts:
        parts += part.parts if isinstance(part, Join) else (part,)
        conditions += conjuncts(part.condition) if isinstance(part, Join) else ()
    return Join(tuple(parts), conjunction((*conditions, *conjuncts(node.condition))))
