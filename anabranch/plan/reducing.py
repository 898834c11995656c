"""S ⋉ K: what the rules that reduce scans of large tables by keys have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from anabranch.names import TableName
from anabranch.plan.equalities import equalities
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import (
    Aggregate,
    Filter,
    Item,
    Join,
    Node,
    On,
    Project,
    ReducedScan,
    Scan,
    Version,
    items_of,
)
from anabranch.plan.nulls import without_nulls
from anabranch.plan.statistics import LargeTables, Statistics
from anabranch.plan.walk import open_recursions, walk

SIGN = "_ab_sign"  # the weight of the second input of a join


def large_tables(plan: Node, statistics: Statistics) -> LargeTables:
    """Tables of which a scan of the plan would read much, even within ranges of keys; none if there
    are too many keys to broadcast."""
    if statistics.delta_rows > statistics.few:
        return {}
    tables = statistics.tables.items()
    large = {name: table for name, table in tables if table.is_large(statistics.large)}
    if not large:
        return {}
    scans = (part for part in walk(plan) if isinstance(part, Scan))
    scanned = {scan.table for scan in scans if scan.version is not Version.DELTA}
    return {name: table for name, table in large.items() if name in scanned}


def repeated(plan: Node) -> frozenset[TableName]:
    """The tables of which a plan has several reduced scans."""
    reduced = {node for node in walk(plan) if isinstance(node, ReducedScan)}
    counts = Counter(scan_of(node).table for node in reduced)
    return frozenset(table for table, count in counts.items() if count > 1)


def scan_of(reduced: ReducedScan) -> Scan:
    scan = reduced.input.input if isinstance(reduced.input, Filter) else reduced.input
    assert isinstance(scan, Scan)
    return scan


def is_reducible(scan: Scan, large: LargeTables) -> bool:
    return scan.table in large and scan.version in (Version.AFTER, Version.BEFORE)


def refers_to_recursion(keys: Node) -> bool:
    return bool(open_recursions(keys))


def join_keys(left: Node, right: Node, condition: Expr | None) -> tuple[Node, On] | None:
    """The keys of `left` that `right` may match, and what they are compared with in its scan."""
    pairs = equalities(condition, left.columns, right.columns)
    if not pairs:
        return None
    names = {f"_ab_k{i}": pair for i, pair in enumerate(pairs)}
    items = tuple(Item(name, pair.left) for name, pair in names.items())
    not_null = (name for name, pair in names.items() if not pair.null_safe)
    operators, _ = operators_above(right)
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


def operators_above(node: Node) -> tuple[list[Project | Filter], Node]:
    """The projections and filters above a scan, top-down, and the node below them."""
    operators: list[Project | Filter] = []
    while isinstance(node, (Project, Filter)):
        operators.append(node)
        node = node.input
    return operators, node


def reapplied(operators: Sequence[Project | Filter], node: Node, extra: Sequence[str] = ()) -> Node:
    for operator in reversed(operators):
        if isinstance(operator, Project):
            node = Project(node, (*operator.items, *items_of(extra)))
        else:
            node = Filter(node, operator.condition)
    return node


def filtered_scan(scan: Scan, operators: Sequence[Project | Filter]) -> Node:
    """The scan below the filter that stands right above it."""
    last = operators[-1] if operators else None
    return Filter(scan, last.condition) if isinstance(last, Filter) else scan


def _over_scan(expr: Expr, operators: Sequence[Project | Filter]) -> Expr:
    for operator in operators:
        if isinstance(operator, Project):
            expr = expr.substitute({item.name: item.expr for item in operator.items})
    return expr
