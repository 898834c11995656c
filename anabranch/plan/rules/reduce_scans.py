"""R ⋈ S = R ⋈ (S ⋉ R) where R is small:     scans of a large table read only rows with the keys at hand

    S₀ ⋈ R = (S₁ ⋉ R − ΔS) ⋈ R       as signed rows, where R has them

so that the state before the change is hardly ever read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from anabranch.plan.exprs import binary, column, negative, weight
from anabranch.plan.nodes import (
    WEIGHT,
    Filter,
    Item,
    Join,
    KeyFilter,
    Node,
    Project,
    ReducedScan,
    Scan,
    UnionAll,
    Version,
    items_of,
    same_columns,
)
from anabranch.plan.reducing import (
    SIGN,
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


def reduce_scans(plan: Node, statistics: Statistics) -> Node:
    """
    >>> from anabranch.names import TableName
    >>> from anabranch.plan.read import rewritten
    >>> from anabranch.plan.statistics import TableStatistics
    >>> statistics = Statistics({TableName.of("b"): TableStatistics(rows=1_000_000)})
    >>> rewritten(lambda plan: reduce_scans(plan, statistics), '''
    ... Join on k = l [first input small]
    ...   Scan a [delta] (k)
    ...   Project k as l
    ...     Scan b [after] (k)
    ... ''')
    Join on k = l [first input small]
      Scan default.a [delta] (k, _ab_w)
      Project k as l
        ReducedScan where k is _ab_k0
          Scan default.b [after] (k)
          Project _ab_k0
            Filter NOT _ab_k0 IS NULL
              Distinct k as _ab_k0
                Scan default.a [delta] (k, _ab_w)
    """
    large = large_tables(plan, statistics)

    def reduce_scan(node: Node) -> Node:
        match node:
            case KeyFilter(input=Scan() as scan) if is_reducible(
                scan, large
            ) and not refers_to_recursion(node.keys):
                return replace(node, input=ReducedScan(scan, ((node.keys, node.on),)))
            case Filter(input=KeyFilter(input=ReducedScan() as reduced) as key_filter) if (
                isinstance(reduced.input, Scan)
            ):
                reduced = replace(reduced, input=Filter(reduced.input, node.condition))
                return replace(node, input=replace(key_filter, input=reduced))
            case Join(broadcast=True, parts=(_, _)):
                return _reduce_join(node, large)
        return node

    return transform(plan, reduce_scan) if large else plan


def _reduce_join(node: Join, large: LargeTables) -> Node:
    left, right = node.parts
    operators, scan = operators_above(right)
    if not isinstance(scan, Scan) or not is_reducible(scan, large) or refers_to_recursion(left):
        return node
    keys = join_keys(left, right, node.condition)
    if keys is None:
        return node
    after = ReducedScan(filtered_scan(replace(scan, version=Version.AFTER), operators), (keys,))
    if scan.version is Version.AFTER:
        return node.with_inputs([left, reapplied(operators, after)])
    if WEIGHT not in left.columns:
        return node
    return _signed(node, left, _minus_change(operators, after, scan))


def _signed(node: Join, left: Node, right: Node) -> Node:
    """The weight of a joined row is the product of both weights."""
    product = Item(WEIGHT, binary(exp.Mul, column(WEIGHT), column(SIGN)))
    items = tuple(product if item.name == WEIGHT else item for item in same_columns(node))
    return Project(node.with_inputs([left, right]), items)


def _minus_change(operators: Sequence[Project | Filter], after: Node, scan: Scan) -> Node:
    """S₀ = S₁ − ΔS"""
    current = reapplied(operators, after)
    changed = reapplied(operators, replace(scan, version=Version.DELTA), (WEIGHT,))
    names = current.columns
    return UnionAll(
        (
            Project(current, (*same_columns(current), Item(SIGN, weight(1)))),
            Project(changed, (*items_of(names), Item(SIGN, negative(column(WEIGHT))))),
        )
    )
