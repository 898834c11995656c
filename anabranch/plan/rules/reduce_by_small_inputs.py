"""(R ⋉ K) ⋈ S = (R ⋉ K) ⋈ (S ⋉ (R ⋉ K)) where R is not large

Keys of a table that is not large reduce the large tables that it is joined with.
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.plan.nodes import Join, KeyFilter, Node, On, ReducedScan, Scan
from anabranch.plan.reducing import (
    filtered_scan,
    is_reducible,
    join_keys,
    large_tables,
    operators_above,
    reapplied,
    refers_to_recursion,
)
from anabranch.plan.statistics import LargeTables, Statistics
from anabranch.plan.walk import transform


def reduce_by_small_inputs(plan: Node, statistics: Statistics) -> Node:
    """
    >>> from anabranch.names import TableName
    >>> from anabranch.plan.read import rewritten
    >>> from anabranch.plan.statistics import TableStatistics
    >>> statistics = Statistics({TableName.of("b"): TableStatistics(rows=1_000_000)})
    >>> rewritten(lambda plan: reduce_by_small_inputs(plan, statistics), '''
    ... Join on k = l
    ...   KeyFilter where k is key
    ...     Scan a [after] (k)
    ...     Parameter keys (key)
    ...   Project k as l
    ...     Scan b [after] (k)
    ... ''')
    Join on k = l
      KeyFilter where k is key
        Scan default.a [after] (k)
        Parameter keys (key)
      Project k as l
        ReducedScan where k is _ab_k0
          Scan default.b [after] (k)
          Project _ab_k0
            Filter NOT _ab_k0 IS NULL
              Distinct k as _ab_k0
                KeyFilter where k is key
                  Scan default.a [after] (k)
                  Parameter keys (key)
    """
    large = large_tables(plan, statistics)

    def reduce_join(node: Node) -> Node:
        if isinstance(node, Join) and not (node.broadcast and len(node.parts) == 2):
            return _with_reduced_inputs(node, large)
        return node

    return transform(plan, reduce_join) if large else plan


def _with_reduced_inputs(node: Join, large: LargeTables) -> Node:
    small = [child for child in node.parts if _is_small(child, large)]
    if not small:
        return node
    inputs: list[Node] = []
    for child in node.parts:
        candidates = (
            join_keys(other, child, node.condition) for other in small if other is not child
        )
        keys = next((candidate for candidate in candidates if candidate is not None), None)
        inputs.append(child if keys is None else _reduced(child, keys, large))
    return node.with_inputs(inputs)


def _is_small(node: Node, large: LargeTables) -> bool:
    _, start = operators_above(node)
    if not isinstance(start, KeyFilter) or refers_to_recursion(start):
        return False
    return isinstance(start.input, Scan) and start.input.table not in large


def _reduced(node: Node, keys: tuple[Node, On], large: LargeTables) -> Node:
    operators, start = operators_above(node)
    match start:
        case Scan() if is_reducible(start, large):
            return reapplied(operators, ReducedScan(filtered_scan(start, operators), (keys,)))
        case KeyFilter(input=ReducedScan() as reduced):
            return reapplied(operators, replace(start, input=replace(reduced, by=(keys,))))
    return node
