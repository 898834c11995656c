"""One scan of each large table, reduced by a semi-join, for all readers of some of its rows

    S₁ ⋉ K₁, S₁ ⋉ K₂, …   become   L ⋉ K₁, L ⋉ K₂, …   with one   L = S₁ ⋉ (K₁ ∪ K₂ ∪ …)

A join whose first input is small reduces its other input by its keys.  Keys that come from a reduced
scan of a table cannot reduce that same scan: then the table is read again.

    S₀ ⋉ K = (L − ΔS) ⋉ K       in a join as signed rows, elsewhere by counting rows

so that the state before the change is hardly ever read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from anabranch.names import TableName
from anabranch.plan.equalities import equalities
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
    Join,
    KeyFilter,
    Node,
    On,
    Project,
    ReducedScan,
    Scan,
    UnionAll,
    Version,
    items_of,
    same_columns,
)
from anabranch.plan.nulls import without_nulls
from anabranch.plan.rules.filter_below_join import filter_below_join
from anabranch.plan.rules.push_ranges import push_ranges
from anabranch.plan.statistics import Statistics, TableStatistics
from anabranch.plan.walk import open_recursions, transform, walk

SIGN = "_ab_sign"  # the weight of the second input of a join
_COPY = "_ab_copy"


LargeTables = Mapping[TableName, TableStatistics]


def share_scans(plan: Node, statistics: Statistics) -> Node:
    """The plan with few scans of each large table of which much would be read.

    >>> from anabranch.plan.read import rewritten
    >>> statistics = Statistics({TableName.of("a"): TableStatistics(rows=1_000_000)})
    >>> rewritten(lambda plan: share_scans(plan, statistics), '''
    ... UnionAll
    ...   KeyFilter where k is x
    ...     Scan a [after] (k, v)
    ...     Parameter keys (x)
    ...   KeyFilter where k is x
    ...     Scan a [after] (k, v)
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
    large = _large_tables(plan, statistics)
    if not large:
        return plan
    reduced = _with_reduced_scans(plan, large)
    repeated = {
        table: table_statistics
        for table, table_statistics in large.items()
        if _count_reduced(reduced, table) > 1
    }
    if not repeated:
        return plan
    plan, merged_scans = _with_reduced_scans(plan, repeated), frozenset[ReducedScan]()
    while group := _next_group(plan, repeated, merged_scans):
        merged, replacements = _merge(group, repeated)
        merged_scans |= {merged}
        plan = _replaced(plan, replacements)
    return plan


def _large_tables(plan: Node, statistics: Statistics) -> LargeTables:
    """Large tables of which a scan would read much, even within ranges of keys; none if there are too
    many keys to broadcast."""
    tables = statistics.tables
    if statistics.delta_rows > statistics.few or all(
        table_statistics.rows < statistics.large for table_statistics in tables.values()
    ):
        return {}
    scans = (part for part in walk(push_ranges(plan, statistics)) if isinstance(part, Scan))
    expensive = {
        scan.table
        for scan in scans
        if scan.version is not Version.DELTA
        and statistics.rows_read(scan.table, scan.ranges) >= statistics.large
    }
    return {
        table: table_statistics
        for table, table_statistics in tables.items()
        if table in expensive and table_statistics.rows >= statistics.large
    }


def _replaced(plan: Node, replacements: Mapping[Node, Node]) -> Node:
    return transform(plan, lambda node: replacements.get(node, node))


def _count_reduced(plan: Node, table: TableName) -> int:
    return len(
        {node for node in walk(plan) if isinstance(node, ReducedScan) and _table(node) == table}
    )


def _table(reduced: ReducedScan) -> TableName:
    return _scan(reduced).table


def _scan(reduced: ReducedScan) -> Scan:
    scan = reduced.input.input if isinstance(reduced.input, Filter) else reduced.input
    assert isinstance(scan, Scan)
    return scan


# Reducing scans


def _with_reduced_scans(plan: Node, large: LargeTables) -> Node:
    """The plan in which scans of large tables are reduced wherever there are keys."""

    def reduce_scan(node: Node) -> Node:
        match node:
            case KeyFilter(input=Scan() as scan) if _is_reducible(
                scan, large
            ) and not _refers_to_recursion(node.keys):
                return replace(node, input=ReducedScan(scan, ((node.keys, node.on),)))
            case Filter(input=KeyFilter(input=ReducedScan() as reduced) as key_filter) if (
                isinstance(reduced.input, Scan)
            ):
                reduced = replace(reduced, input=Filter(reduced.input, node.condition))
                return replace(node, input=replace(key_filter, input=reduced))
            case Join(broadcast=True, parts=(_, _)):
                return _reduce_join(node, large)
            case Join():
                return _reduce_by_small_inputs(node, large)
        return node

    return transform(plan, reduce_scan)


def _is_reducible(scan: Scan, large: LargeTables) -> bool:
    return scan.table in large and scan.version in (Version.AFTER, Version.BEFORE)


def _refers_to_recursion(keys: Node) -> bool:
    return bool(open_recursions(keys))


def _reduce_join(node: Join, large: LargeTables) -> Node:
    """R ⋈ S = R ⋈ (S ⋉ R)"""
    left, right = node.parts
    operators, scan = _operators_above(right)
    if not isinstance(scan, Scan) or not _is_reducible(scan, large) or _refers_to_recursion(left):
        return node
    keys = _join_keys(left, right, node.condition)
    if keys is None:
        return node
    after = ReducedScan(_filtered(replace(scan, version=Version.AFTER), operators), (keys,))
    if scan.version is Version.AFTER:
        return node.with_inputs([left, _reapplied(operators, after)])
    if WEIGHT not in left.columns:
        return node
    return _signed(node, left, _minus_change(operators, after, scan))


def _join_keys(left: Node, right: Node, condition: Expr | None) -> tuple[Node, On] | None:
    """The keys of `left` that `right` may match, and what they are compared with in its scan."""
    pairs = equalities(condition, left.columns, right.columns)
    if not pairs:
        return None
    names = {f"_ab_k{i}": pair for i, pair in enumerate(pairs)}
    items = tuple(Item(name, pair.left) for name, pair in names.items())
    not_null = (name for name, pair in names.items() if not pair.null_safe)
    operators, _ = _operators_above(right)
    on = tuple((_over_scan(pair.right, operators), name) for name, pair in names.items())
    source = _source_of(left, frozenset[str]().union(*(pair.left.columns for pair in pairs)))
    return without_nulls(Aggregate(source, items), not_null), on


def _source_of(node: Node, names: frozenset[str]) -> Node:
    """The lowest node of a chain of joins that has the columns: a superset of the rows, since joins
    further up only remove some."""
    while True:
        match node:
            case Join(broadcast=True, parts=(left, _)) if names <= {*left.columns}:
                node = left
            case Project() if names <= {i.name for i in node.items if i.expr.column == i.name}:
                node = node.input
            case _:
                return node


def _reduce_by_small_inputs(node: Join, large: LargeTables) -> Node:
    """(R ⋉ K) ⋈ S = (R ⋉ K) ⋈ (S ⋉ (R ⋉ K)) where R is not large"""
    node = filter_below_join(node)
    small = [child for child in node.parts if _is_small(child, large)]
    inputs: list[Node] = []
    for child in node.parts:
        candidates = (
            _join_keys(other, child, node.condition) for other in small if other is not child
        )
        keys = next((candidate for candidate in candidates if candidate is not None), None)
        inputs.append(child if keys is None else _reduced(child, keys, large))
    return node.with_inputs(inputs)


def _is_small(node: Node, large: LargeTables) -> bool:
    _, start = _operators_above(node)
    if not isinstance(start, KeyFilter) or _refers_to_recursion(start):
        return False
    return isinstance(start.input, Scan) and start.input.table not in large


def _reduced(node: Node, keys: tuple[Node, On], large: LargeTables) -> Node:
    operators, start = _operators_above(node)
    match start:
        case Scan() if _is_reducible(start, large):
            return _reapplied(operators, ReducedScan(_filtered(start, operators), (keys,)))
        case KeyFilter(input=ReducedScan() as reduced):
            return _reapplied(operators, replace(start, input=replace(reduced, by=(keys,))))
    return node


def _signed(node: Join, left: Node, right: Node) -> Node:
    """The weight of a joined row is the product of both weights."""
    product = Item(WEIGHT, binary(exp.Mul, column(WEIGHT), column(SIGN)))
    items = tuple(product if item.name == WEIGHT else item for item in same_columns(node))
    return Project(node.with_inputs([left, right]), items)


def _minus_change(operators: Sequence[Project | Filter], after: Node, scan: Scan) -> Node:
    """S₀ = S₁ − ΔS"""
    current = _reapplied(operators, after)
    changed = _reapplied(operators, replace(scan, version=Version.DELTA), (WEIGHT,))
    names = current.columns
    return UnionAll(
        (
            Project(current, (*same_columns(current), Item(SIGN, weight(1)))),
            Project(changed, (*items_of(names), Item(SIGN, negative(column(WEIGHT))))),
        )
    )


def _operators_above(node: Node) -> tuple[list[Project | Filter], Node]:
    """The projections and filters above a scan, top-down, and the node below them."""
    operators: list[Project | Filter] = []
    while isinstance(node, (Project, Filter)):
        operators.append(node)
        node = node.input
    return operators, node


def _reapplied(
    operators: Sequence[Project | Filter], node: Node, extra: Sequence[str] = ()
) -> Node:
    for operator in reversed(operators):
        if isinstance(operator, Project):
            node = Project(node, (*operator.items, *items_of(extra)))
        else:
            node = Filter(node, operator.condition)
    return node


def _over_scan(expr: Expr, operators: Sequence[Project | Filter]) -> Expr:
    for operator in operators:
        if isinstance(operator, Project):
            expr = expr.substitute({item.name: item.expr for item in operator.items})
    return expr


def _filtered(scan: Scan, operators: Sequence[Project | Filter]) -> Node:
    last = operators[-1] if operators else None
    return Filter(scan, last.condition) if isinstance(last, Filter) else scan


# Merging the scans of a table


def _next_group(
    plan: Node, large: LargeTables, merged: frozenset[ReducedScan]
) -> list[ReducedScan]:
    """The scans to merge next: of a table with no others left to merge, else of the smallest table."""
    pending = [node for node in walk(plan) if isinstance(node, ReducedScan) and node not in merged]
    pending = list(dict.fromkeys(pending))
    ready = [reduced for reduced in pending if not _depends_on(reduced, pending)]
    tables = dict.fromkeys(_table(reduced) for reduced in ready)
    groups = {table: [reduced for reduced in ready if _table(reduced) == table] for table in tables}

    def priority(table: TableName) -> tuple[bool, int]:
        others_wait = any(_table(reduced) == table for reduced in pending if reduced not in ready)
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
    same = large[_table(group[0])].same
    uncountable = [
        reduced for reduced in group if _is_before(reduced) and not {*reduced.columns} <= same
    ]
    if uncountable:
        group = uncountable
    scans = [_scan(reduced) for reduced in group]
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
    return _scan(reduced).version is Version.BEFORE


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
    names, scan = reduced.columns, _scan(reduced)
    current = Project(merged, (*items_of(names), Item(SIGN, weight(1))))
    delta = replace(scan, version=Version.DELTA)
    changed = Project(delta, (*items_of(names), Item(SIGN, negative(column(WEIGHT)))))
    total = Call(SIGN, call("SUM", column(SIGN)))
    counts = Aggregate(UnionAll((current, changed)), items_of(names), (total,))
    present = Filter(counts, binary(exp.GT, column(SIGN), literal(0)))
    copies = call("EXPLODE", call("SEQUENCE", weight(1), cast(column(SIGN), "bigint")))
    return Project(Generate(present, copies, (_COPY,)), items_of(names))
