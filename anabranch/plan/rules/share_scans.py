"""Few scans of each large table, for all readers of some of its rows

    S₁ ⋉ K₁, S₁ ⋉ K₂, …   become   L ⋉ K₁, L ⋉ K₂, …   with one   L = S₁ ⋉ (K₁ ∪ K₂ ∪ …)

Keys that come from a reduced scan of a table cannot reduce that same scan: then the table is read
again.

    S₀ ⋉ K = (L − ΔS) ⋉ K       by counting rows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from anabranch.names import TableName
from anabranch.plan.exprs import (
    Expr,
    binary,
    call,
    cast,
    column,
    conjunction,
    conjuncts,
    literal,
    negative,
    weight,
)
from anabranch.plan.nodes import (
    WEIGHT,
    Aggregate,
    Call,
    Filter,
    Generate,
    Item,
    Node,
    On,
    Project,
    ReducedScan,
    Scan,
    UnionAll,
    Version,
    items_of,
)
from anabranch.plan.reducing import SIGN, scan_of
from anabranch.plan.statistics import LargeTables, Statistics
from anabranch.plan.walk import transform, walk

_COPY = "_ab_copy"


def share_scans(plan: Node, statistics: Statistics) -> Node:
    """
    >>> from anabranch.names import TableName
    >>> from anabranch.plan.read import rewritten
    >>> from anabranch.plan.statistics import TableStatistics
    >>> statistics = Statistics({TableName.of("a"): TableStatistics(rows=1_000_000)})
    >>> rewritten(lambda plan: share_scans(plan, statistics), '''
    ... UnionAll
    ...   KeyFilter where k is x
    ...     ReducedScan where k is x
    ...       Scan a [after] (k, v)
    ...       Parameter keys (x)
    ...     Parameter keys (x)
    ...   KeyFilter where k is x
    ...     ReducedScan where k is x
    ...       Scan a [after] (k, v)
    ...       Parameter others (x)
    ...     Parameter others (x)
    ... ''')
    UnionAll
      KeyFilter where k is x
        Project k, v
          ReducedScan where k is _ab_k0
            Scan default.a [after] (k, v)
            Distinct _ab_k0
              UnionAll
                Project x as _ab_k0
                  Parameter keys (x)
                Project x as _ab_k0
                  Parameter others (x)
        Parameter keys (x)
      KeyFilter where k is x
        Project k, v
          ReducedScan where k is _ab_k0
            Scan default.a [after] (k, v)
            Distinct _ab_k0
              UnionAll
                Project x as _ab_k0
                  Parameter keys (x)
                Project x as _ab_k0
                  Parameter others (x)
        Parameter others (x)
    """
    tables, merged_scans = statistics.tables, frozenset[ReducedScan]()
    while group := _next_group(plan, tables, merged_scans):
        merged, replacements = _merge(group, tables)
        merged_scans |= {merged}
        plan = _replaced(plan, replacements)
    return plan


def _replaced(plan: Node, replacements: Mapping[Node, Node]) -> Node:
    return transform(plan, lambda node: replacements.get(node, node))


def _next_group(
    plan: Node, large: LargeTables, merged: frozenset[ReducedScan]
) -> list[ReducedScan]:
    """The scans to merge next: of a table with no others left to merge, else of the smallest table."""
    pending = [node for node in walk(plan) if isinstance(node, ReducedScan) and node not in merged]
    pending = list(dict.fromkeys(pending))
    ready = [reduced for reduced in pending if not _depends_on(reduced, pending)]
    tables = dict.fromkeys(scan_of(reduced).table for reduced in ready)
    groups = {
        table: [reduced for reduced in ready if scan_of(reduced).table == table] for table in tables
    }

    def priority(table: TableName) -> tuple[bool, int]:
        others_wait = any(
            scan_of(reduced).table == table for reduced in pending if reduced not in ready
        )
        return others_wait, large[table].rows

    return groups[min(groups, key=priority)] if groups else []


def _depends_on(reduced: ReducedScan, others: Sequence[ReducedScan]) -> bool:
    sources = {
        node for keys, _ in reduced.by for node in walk(keys) if isinstance(node, ReducedScan)
    }
    return any(other in sources for other in others)


def _merge(
    group: Sequence[ReducedScan], large: LargeTables
) -> tuple[ReducedScan, dict[Node, Node]]:
    """One reduced scan, and what replaces each scan of the group."""
    same = large[scan_of(group[0]).table].same
    uncountable = [
        reduced for reduced in group if _is_before(reduced) and not {*reduced.columns} <= same
    ]
    if uncountable:
        group = uncountable
    scans = [scan_of(reduced) for reduced in group]
    names = tuple(dict.fromkeys(name for scan in scans for name in scan.names))
    before = all(map(_is_before, group)) or bool(uncountable)
    version = Version.BEFORE if before else Version.AFTER
    scan = Scan(scans[0].table, names, version)
    merged = ReducedScan(_where(scan, _common_filter(group)), _all_keys(group))
    replacements: dict[Node, Node] = {}
    for reduced in group:
        rows = _state_before(merged, reduced) if _is_before(reduced) and not before else merged
        replacements[reduced] = Project(rows, items_of(reduced.columns))
    return merged, replacements


def _is_before(reduced: ReducedScan) -> bool:
    return scan_of(reduced).version is Version.BEFORE


def _common_filter(group: Sequence[ReducedScan]) -> Expr | None:
    """The predicates that all of them have."""
    first, *others = [
        conjuncts(reduced.input.condition) if isinstance(reduced.input, Filter) else ()
        for reduced in group
    ]
    return conjunction(
        predicate for predicate in first if all(predicate in other for other in others)
    )


def _where(scan: Scan, condition: Expr | None) -> Node:
    return scan if condition is None else Filter(scan, condition)


def _all_keys(group: Sequence[ReducedScan]) -> tuple[tuple[Node, On], ...]:
    """The keys of all scans; those compared with the same expressions become one relation."""
    by_expressions: dict[tuple[Expr, ...], list[Node]] = {}
    for reduced in group:
        for keys, on in reduced.by:
            items = tuple(Item(f"_ab_k{i}", column(key)) for i, (_, key) in enumerate(on))
            relations = by_expressions.setdefault(tuple(expr for expr, _ in on), [])
            relations.append(Project(keys, items))
    result = []
    for exprs, relations in by_expressions.items():
        distinct = list(dict.fromkeys(relations))
        union = UnionAll(tuple(distinct)) if len(distinct) > 1 else distinct[0]
        keys = Aggregate(union, items_of(union.columns)) if len(distinct) > 1 else union
        result.append((keys, tuple(zip(exprs, keys.columns, strict=True))))
    return tuple(result)


def _state_before(merged: ReducedScan, reduced: ReducedScan) -> Node:
    """S₀ = S₁ − ΔS, as rows: those with a positive count."""
    names, scan = reduced.columns, scan_of(reduced)
    current = Project(merged, (*items_of(names), Item(SIGN, weight(1))))
    delta = replace(scan, version=Version.DELTA)
    changed = Project(delta, (*items_of(names), Item(SIGN, negative(column(WEIGHT)))))
    total = Call(SIGN, call("SUM", column(SIGN)))
    counts = Aggregate(UnionAll((current, changed)), items_of(names), (total,))
    present = Filter(counts, binary(exp.GT, column(SIGN), literal(0)))
    copies = call("EXPLODE", call("SEQUENCE", weight(1), cast(column(SIGN), "bigint")))
    return Project(Generate(present, copies, (_COPY,)), items_of(names))
