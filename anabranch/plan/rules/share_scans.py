"""Each large table is looked at once, for all who ask for some of its rows

    S₁ ⋉ K₁, S₁ ⋉ K₂, …   become   L ⋉ K₁, L ⋉ K₂, …   with one   L = S₁ ⋉ (K₁ ∪ K₂ ∪ …)

A join whose first input is small asks its other input for the keys that it has.  Keys that come from a
look at a table cannot be part of it: then the table is looked at again.

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
    Look,
    Node,
    On,
    Project,
    Scan,
    Semi,
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
    """The plan with at most a few looks at each of the large tables of which much would be read.

    >>> from anabranch.plan.read import rewritten
    >>> told = Statistics({TableName.of("a"): TableStatistics(rows=1_000_000)})
    >>> rewritten(lambda plan: share_scans(plan, told), '''
    ... UnionAll
    ...   Semi where k is x
    ...     Scan a [after] (k, v)
    ...     Given keys (x)
    ...   Semi where k is x
    ...     Scan a [after] (k, v)
    ...     Given others (x)
    ... ''')
    UnionAll
      Semi where k is x
        Project k, v
          Look where k is _ab_k0
            Scan default.a [after] (k, v)
            Distinct _ab_k0
              UnionAll
                Project x as _ab_k0
                  Given keys (x)
                Project x as _ab_k0
                  Given others (x)
        Given keys (x)
      Semi where k is x
        Project k, v
          Look where k is _ab_k0
            Scan default.a [after] (k, v)
            Distinct _ab_k0
              UnionAll
                Project x as _ab_k0
                  Given keys (x)
                Project x as _ab_k0
                  Given others (x)
        Given others (x)
    """
    large = _larges(plan, statistics)
    if not large:
        return plan
    asked = _asked(plan, large)
    often = {table: found for table, found in large.items() if _looks_at(asked, table) > 1}
    if not often:
        return plan
    plan, last = _asked(plan, often), frozenset[Look]()
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
        and statistics.rows_read(scan.table, scan.within) >= statistics.large
    }
    return {
        table: found
        for table, found in tables.items()
        if table in often and found.rows >= statistics.large
    }


def _replaced(plan: Node, answers: Mapping[Node, Node]) -> Node:
    return transform(plan, lambda node: answers.get(node, node))


def _looks_at(plan: Node, table: TableName) -> int:
    return len({node for node in walk(plan) if isinstance(node, Look) and _table(node) == table})


def _table(look: Look) -> TableName:
    return _scan(look).table


def _scan(look: Look) -> Scan:
    found = look.input.input if isinstance(look.input, Filter) else look.input
    assert isinstance(found, Scan)
    return found


# Who asks


def _asked(plan: Node, larges: Larges) -> Node:
    """Every scan of a large table for which there are keys becomes a look."""

    def ask(node: Node) -> Node:
        match node:
            case Semi(input=Scan() as scan) if _fits(scan, larges) and not _repeats(node.keys):
                return replace(node, input=Look(scan, ((node.keys, node.on),)))
            case Filter(input=Semi(input=Look() as look) as semi) if isinstance(look.input, Scan):
                look = replace(look, input=Filter(look.input, node.condition))
                return replace(node, input=replace(semi, input=look))
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
    after = Look(_filtered(replace(scan, version=Version.AFTER), steps), (asked,))
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
        parts.append(part if asked is None else _narrowed(part, asked, larges))
    return node.with_inputs(parts)


def _is_small(part: Node, larges: Larges) -> bool:
    _, start = _way(part)
    if not isinstance(start, Semi) or _repeats(start):
        return False
    return isinstance(start.input, Scan) and start.input.table not in larges


def _narrowed(part: Node, asked: tuple[Node, On], larges: Larges) -> Node:
    steps, start = _way(part)
    match start:
        case Scan() if _fits(start, larges):
            return _again(steps, Look(_filtered(start, steps), (asked,)))
        case Semi(input=Look() as look):
            return _again(steps, replace(start, input=replace(look, by=(asked,))))
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


# One look for many


def _next(plan: Node, larges: Larges, last: frozenset[Look]) -> list[Look]:
    """The looks that can be one now: at a table of which none is left then, else at the smallest."""
    waiting = [node for node in walk(plan) if isinstance(node, Look) and node not in last]
    waiting = list(dict.fromkeys(waiting))
    ready = [look for look in waiting if not _needs(look, waiting)]
    tables = dict.fromkeys(_table(look) for look in ready)
    groups = {table: [look for look in ready if _table(look) == table] for table in tables}

    def later(table: TableName) -> tuple[bool, int]:
        rest = any(_table(look) == table for look in waiting if look not in ready)
        return rest, larges[table].rows

    return groups[min(groups, key=later)] if groups else []


def _needs(look: Look, others: Sequence[Look]) -> bool:
    inside = {node for keys, _ in look.by for node in walk(keys) if isinstance(node, Look)}
    return any(other in inside for other in others)


def _together(group: Sequence[Look], larges: Larges) -> tuple[Look, dict[Node, Node]]:
    """One look, and what it answers to each of those that asked."""
    same = larges[_table(group[0])].same
    uncounted = [look for look in group if _is_before(look) and not {*look.columns} <= same]
    if uncounted:
        group = uncounted
    scans = [_scan(look) for look in group]
    names = tuple(dict.fromkeys(name for scan in scans for name in scan.names))
    before = all(map(_is_before, group)) or bool(uncounted)
    version = Version.BEFORE if before else Version.AFTER
    scan = Scan(scans[0].table, names, version)
    one = Look(_where(scan, _common(group)), _union(group))
    answers: dict[Node, Node] = {}
    for look in group:
        whole = _before(one, look) if _is_before(look) and not before else one
        answers[look] = Project(whole, _items(look.columns))
    return one, answers


def _is_before(look: Look) -> bool:
    return _scan(look).version is Version.BEFORE


def _common(group: Sequence[Look]) -> Expr | None:
    """The conditions that all of them have."""
    first, *others = [
        conjuncts(look.input.condition) if isinstance(look.input, Filter) else () for look in group
    ]
    return conjunction(part for part in first if all(part in other for other in others))


def _where(scan: Scan, condition: Expr | None) -> Node:
    return scan if condition is None else Filter(scan, condition)


def _union(group: Sequence[Look]) -> tuple[tuple[Node, On], ...]:
    """Keys that are compared with the same expressions are one relation."""
    found: dict[tuple[Expr, ...], list[Node]] = {}
    for look in group:
        for keys, on in look.by:
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


def _before(one: Look, look: Look) -> Node:
    """S₀ = S₁ − ΔS, as rows: those that are left when equal ones are counted."""
    names, scan = look.columns, _scan(look)
    came = Project(one, (*_items(names), Item(SIGN, weight(1))))
    change = replace(scan, version=Version.DELTA)
    gone = Project(change, (*_items(names), Item(SIGN, negative(column(WEIGHT)))))
    total = Call(SIGN, call("SUM", column(SIGN)))
    rows = Aggregate(UnionAll((came, gone)), _items(names), (total,))
    some = Filter(rows, binary(exp.GT, column(SIGN), literal(0)))
    copies = call("EXPLODE", call("SEQUENCE", weight(1), cast(column(SIGN), "bigint")))
    return Project(Generate(some, copies, (_COPY,)), _items(names))
