"""One scan of each large table, reduced by semi-join, for all who ask for some of its rows

    S₁ ⋉ K₁, S₁ ⋉ K₂, …   become   L ⋉ K₁, L ⋉ K₂, …   with one   L = S₁ ⋉ (K₁ ∪ K₂ ∪ …)

A join whose first input is small asks its other input for the keys that it has.  Keys that come from a
reduced scan of a table cannot be part of it: then the table is read again.

    S₀ ⋉ K = (L − ΔS) ⋉ K       in a join as signed rows, elsewhere as rows that are counted

so that what was before the change is hardly ever read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    same_columns,
)
from anabranch.plan.nulls import without_nulls
from anabranch.plan.rules.filter_below_join import filter_below_join
from anabranch.plan.rules.push_ranges import push_ranges
from anabranch.plan.statistics import Statistics, TableStatistics
from anabranch.plan.walk import open_recursions, transform, walk

SIGN = "_ab_sign"  # the weight of the second input of a join
_COPY = "_ab_copy"


Larges = Mapping[TableName, TableStatistics]


def share_scans(plan: Node, statistics: Statistics) -> Node:
    """The plan with at most a few scans of each of the large tables of which much would be read.

    >>> from anabranch.plan.read import rewritten
    >>> told = Statistics({TableName.of("a"): TableStatistics(rows=1_000_000)})
    >>> rewritten(lambda plan: share_scans(plan, told), '''
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
    large = _larges(plan, statistics)
    if not large:
        return plan
    asked = _asked(plan, large)
    often = {table: found for table, found in large.items() if _reductions_of(asked, table) > 1}
    if not often:
        return plan
    plan, last = _asked(plan, often), frozenset[ReducedScan]()
    while group := _next(plan, often, last):
        one, answers = _together(group, often)
        last |= {one}
        plan = _replaced(plan, answers)
    return plan


def _larges(plan: Node, statistics: Statistics) -> Larges:
    """Large tables of which a scan would read much, even within the ranges of keys; none if there are
    too many keys to send to every task."""
    tables = statistics.tables
    if statistics.delta_rows > statistics.few or all(
        found.rows < statistics.large for found in tables.values()
    ):
        return {}
    scans = (part for part in walk(push_ranges(plan, statistics)) if isinstance(part, Scan))
    often = {
        scan.table
        for scan in scans
        if scan.version is not Version.DELTA
        and statistics.rows_read(scan.table, scan.ranges) >= statistics.large
    }
    return {
        table: found
        for table, found in tables.items()
        if table in often and found.rows >= statistics.large
    }


def _replaced(plan: Node, answers: Mapping[Node, Node]) -> Node:
    return transform(plan, lambda node: answers.get(node, node))


def _reductions_of(plan: Node, table: TableName) -> int:
    return len(
        {node for node in walk(plan) if isinstance(node, ReducedScan) and _table(node) == table}
    )


def _table(reduced: ReducedScan) -> TableName:
    return _scan(reduced).table


def _scan(reduced: ReducedScan) -> Scan:
    found = reduced.input.input if isinstance(reduced.input, Filter) else reduced.input
    assert isinstance(found, Scan)
    return found


# Who asks


def _asked(plan: Node, larges: Larges) -> Node:
    """Every scan of a large table for which there are keys becomes a reduced."""

    def ask(node: Node) -> Node:
        match node:
            case KeyFilter(input=Scan() as scan) if _fits(scan, larges) and not _repeats(node.keys):
                return replace(node, input=ReducedScan(scan, ((node.keys, node.on),)))
            case Filter(input=KeyFilter(input=ReducedScan() as reduced) as semi) if isinstance(
                reduced.input, Scan
            ):
                reduced = replace(reduced, input=Filter(reduced.input, node.condition))
                return replace(node, input=replace(semi, input=reduced))
            case Join(broadcast=True, parts=(_, _)):
                return _join(node, larges)
            case Join():
                return _through_small(node, larges)
        return node

    return transform(plan, ask)


def _fits(scan: Scan, larges: Larges) -> bool:
    return scan.table in larges and scan.version in (Version.AFTER, Version.BEFORE)


def _repeats(keys: Node) -> bool:
    return bool(open_recursions(keys))


def _join(node: Join, larges: Larges) -> Node:
    """R ⋈ S = R ⋈ (S ⋉ R)"""
    left, right = node.parts
    steps, scan = _way(right)
    if not isinstance(scan, Scan) or not _fits(scan, larges) or _repeats(left):
        return node
    asked = _asked_by(left, right, node.condition)
    if asked is None:
        return node
    after = ReducedScan(_filtered(replace(scan, version=Version.AFTER), steps), (asked,))
    if scan.version is Version.AFTER:
        return node.with_inputs([left, _again(steps, after)])
    if WEIGHT not in left.columns:
        return node
    return _signed(node, left, _minus_change(steps, after, scan))


def _asked_by(left: Node, right: Node, condition: Expr | None) -> tuple[Node, On] | None:
    """The keys of `left` that `right` may meet, and what they are compared with where it starts."""
    pairs = equalities(condition, left.columns, right.columns)
    if not pairs:
        return None
    names = {f"_ab_k{i}": pair for i, pair in enumerate(pairs)}
    items = tuple(Item(name, pair.left) for name, pair in names.items())
    met = (name for name, pair in names.items() if not pair.null_safe)
    steps, _ = _way(right)
    on = tuple((_lowered(pair.right, steps), name) for name, pair in names.items())
    source = _where_from(left, frozenset[str]().union(*(pair.left.columns for pair in pairs)))
    return without_nulls(Aggregate(source, items), met), on


def _where_from(node: Node, names: frozenset[str]) -> Node:
    """At least the rows of a chain of joins, from where it has the columns: what is joined later
    only leaves some out."""
    while True:
        match node:
            case Join(broadcast=True, parts=(left, _)) if names <= {*left.columns}:
                node = left
            case Project() if names <= {i.name for i in node.items if i.expr.column == i.name}:
                node = node.input
            case _:
                return node


def _through_small(node: Join, larges: Larges) -> Node:
    """(R ⋉ K) ⋈ S = (R ⋉ K) ⋈ (S ⋉ (R ⋉ K)) where R is no large table"""
    node = filter_below_join(node)
    small = [part for part in node.parts if _is_small(part, larges)]
    parts: list[Node] = []
    for part in node.parts:
        found = (_asked_by(other, part, node.condition) for other in small if other is not part)
        asked = next((each for each in found if each is not None), None)
        parts.append(part if asked is None else _reduced(part, asked, larges))
    return node.with_inputs(parts)


def _is_small(part: Node, larges: Larges) -> bool:
    _, start = _way(part)
    if not isinstance(start, KeyFilter) or _repeats(start):
        return False
    return isinstance(start.input, Scan) and start.input.table not in larges


def _reduced(part: Node, asked: tuple[Node, On], larges: Larges) -> Node:
    steps, start = _way(part)
    match start:
        case Scan() if _fits(start, larges):
            return _again(steps, ReducedScan(_filtered(start, steps), (asked,)))
        case KeyFilter(input=ReducedScan() as reduced):
            return _again(steps, replace(start, input=replace(reduced, by=(asked,))))
    return part


def _signed(node: Join, left: Node, right: Node) -> Node:
    """The weight of a pair is the product of both."""
    product = Item(WEIGHT, binary(exp.Mul, column(WEIGHT), column(SIGN)))
    items = tuple(product if item.name == WEIGHT else item for item in same_columns(node))
    return Project(node.with_inputs([left, right]), items)


def _minus_change(steps: Sequence[Project | Filter], after: Node, scan: Scan) -> Node:
    """S₀ = S₁ − ΔS"""
    came = _again(steps, after)
    gone = _again(steps, replace(scan, version=Version.DELTA), (WEIGHT,))
    names = came.columns
    return UnionAll(
        (
            Project(came, (*same_columns(came), Item(SIGN, weight(1)))),
            Project(gone, (*_items(names), Item(SIGN, negative(column(WEIGHT))))),
        )
    )


def _way(node: Node) -> tuple[list[Project | Filter], Node]:
    """The projections and filters above a scan, from above, and what they start from."""
    steps: list[Project | Filter] = []
    while isinstance(node, (Project, Filter)):
        steps.append(node)
        node = node.input
    return steps, node


def _again(steps: Sequence[Project | Filter], node: Node, passed: Sequence[str] = ()) -> Node:
    for step in reversed(steps):
        if isinstance(step, Project):
            node = Project(node, (*step.items, *_items(passed)))
        else:
            node = Filter(node, step.condition)
    return node


def _lowered(expr: Expr, steps: Sequence[Project | Filter]) -> Expr:
    for step in steps:
        if isinstance(step, Project):
            expr = expr.substitute({item.name: item.expr for item in step.items})
    return expr


def _filtered(scan: Scan, steps: Sequence[Project | Filter]) -> Node:
    last = steps[-1] if steps else None
    return Filter(scan, last.condition) if isinstance(last, Filter) else scan


def _items(names: Iterable[str]) -> tuple[Item, ...]:
    return tuple(Item(name, column(name)) for name in names)


# One scan for many


def _next(plan: Node, larges: Larges, last: frozenset[ReducedScan]) -> list[ReducedScan]:
    """The scans that can be one now: of a table of which none is left then, else of the smallest."""
    waiting = [node for node in walk(plan) if isinstance(node, ReducedScan) and node not in last]
    waiting = list(dict.fromkeys(waiting))
    ready = [reduced for reduced in waiting if not _needs(reduced, waiting)]
    tables = dict.fromkeys(_table(reduced) for reduced in ready)
    groups = {table: [reduced for reduced in ready if _table(reduced) == table] for table in tables}

    def later(table: TableName) -> tuple[bool, int]:
        rest = any(_table(reduced) == table for reduced in waiting if reduced not in ready)
        return rest, larges[table].rows

    return groups[min(groups, key=later)] if groups else []


def _needs(reduced: ReducedScan, others: Sequence[ReducedScan]) -> bool:
    inside = {
        node for keys, _ in reduced.by for node in walk(keys) if isinstance(node, ReducedScan)
    }
    return any(other in inside for other in others)


def _together(group: Sequence[ReducedScan], larges: Larges) -> tuple[ReducedScan, dict[Node, Node]]:
    """One reduced, and what it answers to each of those that asked."""
    same = larges[_table(group[0])].same
    uncounted = [
        reduced for reduced in group if _is_before(reduced) and not {*reduced.columns} <= same
    ]
    if uncounted:
        group = uncounted
    scans = [_scan(reduced) for reduced in group]
    names = tuple(dict.fromkeys(name for scan in scans for name in scan.names))
    before = all(map(_is_before, group)) or bool(uncounted)
    version = Version.BEFORE if before else Version.AFTER
    scan = Scan(scans[0].table, names, version)
    one = ReducedScan(_where(scan, _common(group)), _union(group))
    answers: dict[Node, Node] = {}
    for reduced in group:
        whole = _before(one, reduced) if _is_before(reduced) and not before else one
        answers[reduced] = Project(whole, _items(reduced.columns))
    return one, answers


def _is_before(reduced: ReducedScan) -> bool:
    return _scan(reduced).version is Version.BEFORE


def _common(group: Sequence[ReducedScan]) -> Expr | None:
    """The conditions that all of them have."""
    first, *others = [
        conjuncts(reduced.input.condition) if isinstance(reduced.input, Filter) else ()
        for reduced in group
    ]
    return conjunction(part for part in first if all(part in other for other in others))


def _where(scan: Scan, condition: Expr | None) -> Node:
    return scan if condition is None else Filter(scan, condition)


def _union(group: Sequence[ReducedScan]) -> tuple[tuple[Node, On], ...]:
    """Keys that are compared with the same expressions are one relation."""
    found: dict[tuple[Expr, ...], list[Node]] = {}
    for reduced in group:
        for keys, on in reduced.by:
            items = tuple(Item(f"_ab_k{i}", column(key)) for i, (_, key) in enumerate(on))
            wanted = found.setdefault(tuple(expr for expr, _ in on), [])
            wanted.append(Project(keys, items))
    made = []
    for exprs, parts in found.items():
        different = list(dict.fromkeys(parts))
        union = UnionAll(tuple(different)) if len(different) > 1 else different[0]
        keys = Aggregate(union, _items(union.columns)) if len(different) > 1 else union
        made.append((keys, tuple(zip(exprs, keys.columns, strict=True))))
    return tuple(made)


def _before(one: ReducedScan, reduced: ReducedScan) -> Node:
    """S₀ = S₁ − ΔS, as rows: those that are left when equal ones are counted."""
    names, scan = reduced.columns, _scan(reduced)
    came = Project(one, (*_items(names), Item(SIGN, weight(1))))
    change = replace(scan, version=Version.DELTA)
    gone = Project(change, (*_items(names), Item(SIGN, negative(column(WEIGHT)))))
    total = Call(SIGN, call("SUM", column(SIGN)))
    rows = Aggregate(UnionAll((came, gone)), _items(names), (total,))
    some = Filter(rows, binary(exp.GT, column(SIGN), literal(0)))
    copies = call("EXPLODE", call("SEQUENCE", weight(1), cast(column(SIGN), "bigint")))
    return Project(Generate(some, copies, (_COPY,)), _items(names))
