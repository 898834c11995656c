"""ΔR ⋈ S  =  ΔR ⋈ (S within the ranges of ΔR's keys): scans read only where keys can be

The ranges of a changed table's columns are known before anything is read.  They are propagated through
the plan to whatever the change is joined with: scans of S read only rows within them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

from sqlglot import exp

from anabranch.model import ColumnRanges, RangeSet
from anabranch.names import TableName
from anabranch.plan.exprs import Expr, column, conjunction, conjuncts, is_null
from anabranch.plan.nodes import (
    ExistenceJoin,
    Filter,
    Join,
    KeyFilter,
    Node,
    On,
    Outer,
    Parameter,
    ReducedScan,
    Scan,
    SemiJoin,
    Version,
)
from anabranch.plan.shared import is_work
from anabranch.plan.statistics import NONE, Limits, Statistics


def push_ranges(plan: Node, statistics: Statistics) -> Node:
    """The plan with scans restricted to the ranges that can matter.

    >>> from anabranch.model import RangeSet
    >>> from anabranch.plan.read import rewritten
    >>> from anabranch.plan.statistics import TableStatistics
    >>> a, b = TableName.of("a"), TableName.of("b")
    >>> kinds = {"k": "integer"}
    >>> changed = {"k": RangeSet("integer", ((10, 19),))}
    >>> statistics = Statistics(
    ...     {a: TableStatistics(9, kinds, changed=changed), b: TableStatistics(9, kinds)}
    ... )
    >>> rewritten(lambda plan: push_ranges(plan, statistics), '''
    ... Join on k = l
    ...   Scan a [delta] (k)
    ...   Project k as l
    ...     Scan b [after] (k)
    ... ''')
    Join on k = l
      Scan default.a [delta] (k, _ab_w)
      Project k as l
        Scan default.b [after] (k) where k in 10..19
    """
    return _Pushdown(statistics, statistics.given, _uses(plan)).visit(plan, NONE)


def ranges_of(plan: Node, statistics: Statistics) -> Limits:
    """The ranges of the columns of a plan, where known."""
    pushdown = _Pushdown(statistics, statistics.given, Counter())
    ranges = {name: pushdown.values(plan, name) for name in plan.columns}
    return {name: values for name, values in ranges.items() if values is not None}


def _uses(plan: Node) -> Counter[Node]:
    uses: Counter[Node] = Counter()

    def visit(node: Node) -> None:
        uses[node] += 1
        if uses[node] == 1:
            for part in node.inputs:
                visit(part)

    visit(plan)
    return uses


@dataclass
class _Pushdown:
    statistics: Statistics
    given: Limits
    uses: Counter[Node]
    ranges: dict[tuple[Node, str], RangeSet | None] = field(default_factory=dict)
    kinds: dict[tuple[Node, str], str | None] = field(default_factory=dict)
    visited: dict[Node, Node] = field(default_factory=dict)

    # Ranges of values, bottom-up

    def values(self, node: Node, name: str) -> RangeSet | None:
        key = (node, name)
        if key not in self.ranges:
            self.ranges[key] = self._values(node, name)
        return self.ranges[key]

    def _values(self, node: Node, name: str) -> RangeSet | None:
        match node:
            case Scan(version=Version.DELTA):
                return self.statistics.changed(node.table, name)
            case Parameter():
                return self.given.get(name)
            case Join():
                return self.class_ranges(node, name)
            case KeyFilter():
                return self.values(node.input, name) or self.key_limits(
                    node.input, node.keys, node.on
                ).get(name)
        return _union([self.values(node.inputs[o.input], o.name) for o in node.origins(name)])

    def class_ranges(self, node: Join, name: str) -> RangeSet | None:
        """The ranges of a column, or of one that the join equates with it."""
        for equated in (name, *self.equated(node).get(name, ())):
            child = next(child for child in node.parts if equated in child.columns)
            if (ranges := self.values(child, equated)) is not None:
                return ranges
        return None

    def key_limits(self, node: Node, keys: Node, on: On) -> Limits:
        """The limits on columns of a node that are compared with keys."""
        ranges = {expr.column: self.values(keys, key) for expr, key in on}
        return {
            name: values
            for name, values in ranges.items()
            if name and values is not None and self.kind(node, name) == values.kind
        }

    def equated(self, node: Join | Outer | ExistenceJoin) -> dict[str, list[str]]:
        """For each column, those of the same kind that the condition equates with it: 1 equals 1.0 and
        '1', but a range of numbers is no range of strings."""
        kinds = {
            name: self.kind(child, name)
            for child in node.inputs
            for name in child.columns
            if node.condition is not None and name in node.condition.columns
        }
        classes: dict[str, list[str]] = {}
        for conjunct in conjuncts(node.condition):
            if (
                not _compares_columns(conjunct)
                or len({kinds[name] for name in conjunct.columns}) > 1
            ):
                continue
            merged: list[str] = []
            for name in sorted(conjunct.columns):
                if kinds[name] is not None:
                    merged += [
                        member for member in classes.get(name, [name]) if member not in merged
                    ]
            classes |= dict.fromkeys(merged, merged)
        return classes

    def kind(self, node: Node, name: str) -> str | None:
        """The kind of a column's values, if it is a plain column of a table."""
        key = (node, name)
        if key not in self.kinds:
            self.kinds[key] = self._kind(node, name)
        return self.kinds[key]

    def _kind(self, node: Node, name: str) -> str | None:
        match node:
            case Scan():
                return self.statistics.kind(node.table, name)
            case Parameter():
                return self.given[name].kind if name in self.given else None
        kinds = {self.kind(node.inputs[o.input], o.name) for o in node.typed_like(name)}
        return kinds.pop() if len(kinds) == 1 else None

    # Limits, top-down

    def visit(self, node: Node, limits: Limits) -> Node:
        """The node without some rows outside the limits.  A shared subplan is computed once, so that
        the limits of one use must not reach it."""
        if isinstance(node, ReducedScan) or (limits and self.uses[node] > 1 and is_work(node)):
            limits = NONE
        if limits:
            return self.pushed(node, limits)
        if node not in self.visited:
            self.visited[node] = self.pushed(node, NONE)
        return self.visited[node]

    def pushed(self, node: Node, limits: Limits) -> Node:
        match node:
            case Scan():
                return self.restricted(node, [limits])
            case Join():
                return self.join(node, limits)
            case KeyFilter():
                key_limits = self.key_limits(node.input, node.keys, node.on)
                return node.with_inputs(
                    [self.visit(node.input, {**key_limits, **limits}), self.visit(node.keys, NONE)]
                )
            case ReducedScan():
                return self.reduced_scan(node)
            case Outer(full=False) | ExistenceJoin():
                return self.pair(node, limits)
        return self.over(node, limits) if node.inputs else node

    def over(self, node: Node, limits: Limits) -> Node:
        """Limits are pushed to the inputs that a filter on keys could be pushed to."""
        input_limits: list[dict[str, RangeSet]] = [{} for _ in node.inputs]
        for name, values in limits.items():
            routes = node.routes(((column(name), ""),)) or ()
            for pushed, route in zip(input_limits, routes, strict=bool(routes)):
                for expr, _ in route:
                    if expr.column is not None:
                        pushed[expr.column] = values
        inputs = zip(node.inputs, input_limits, strict=True)
        return node.with_inputs([self.visit(child, pushed) for child, pushed in inputs])

    def join(self, node: Join, limits: Limits) -> Node:
        classes = self.equated(node)
        all_limits = dict(limits)
        for name in classes:
            values = self.class_ranges(node, name) or next(
                (limits[equated] for equated in (name, *classes[name]) if equated in limits), None
            )
            if values is not None:
                all_limits.setdefault(name, values)
        return node.with_inputs([self.visit(child, _of(child, all_limits)) for child in node.parts])

    def pair(self, node: Outer | ExistenceJoin, limits: Limits) -> Node:
        """Limits on the rows that can match left rows of interest; for a semi join, also on the left
        rows that can have a match."""
        classes = self.equated(node)
        left, right = dict(_of(node.left, limits)), dict[str, RangeSet]()
        for name in classes:
            others = classes[name]
            if name in node.right.columns:
                candidates = (
                    self.values(node.left, equated) or left.get(equated)
                    for equated in others
                    if equated in node.left.columns
                )
                if (values := next(filter(None, candidates), None)) is not None:
                    right[name] = values
            elif isinstance(node, SemiJoin):
                candidates = (
                    self.values(node.right, equated)
                    for equated in others
                    if equated in node.right.columns
                )
                if (values := next(filter(None, candidates), None)) is not None:
                    left.setdefault(name, values)
        return node.with_inputs([self.visit(node.left, left), self.visit(node.right, right)])

    def reduced_scan(self, node: ReducedScan) -> Node:
        """Rows that match some of the keys."""
        key_limits = [self.key_limits(node.input, keys, on) for keys, on in node.by]
        source = node.input
        if isinstance(source, Filter) and isinstance(source.input, Scan):
            source = replace(source, input=self.restricted(source.input, key_limits))
        elif isinstance(source, Scan):
            source = self.restricted(source, key_limits)
        keys = [self.visit(relation, NONE) for relation, _ in node.by]
        return node.with_inputs([source, *keys])

    def restricted(self, scan: Scan, alternatives: Sequence[Limits]) -> Scan:
        """The scan restricted to the alternatives, unless one of them has no limits."""
        if scan.version not in (Version.AFTER, Version.BEFORE):
            return scan
        ranges = [self.usable(scan.table, limits) for limits in alternatives]
        return replace(scan, ranges=tuple(dict.fromkeys(ranges))) if all(ranges) else scan

    def usable(self, table: TableName, limits: Limits) -> ColumnRanges:
        usable = (
            (name, ranges)
            for name, ranges in limits.items()
            if self.statistics.kind(table, name) == ranges.kind
        )
        return tuple(sorted(usable))


def inside(alternatives: Sequence[ColumnRanges]) -> Expr:
    """The condition that a row is within one of the alternatives."""
    conditions = (
        conjunction(_in(name, ranges) for name, ranges in column_ranges)
        for column_ranges in alternatives
    )
    return _any([condition for condition in conditions if condition is not None])


def _in(name: str, ranges: RangeSet) -> Expr:
    this = column(name)
    between = [
        Expr(f"{this.text} BETWEEN {_value(ranges, low)} AND {_value(ranges, high)}")
        for low, high in ranges.ranges
    ]
    return _any([*between, is_null(this)] if ranges.nulls else between)


def _any(conditions: Sequence[Expr]) -> Expr:
    return Expr(" OR ".join(f"({condition.text})" for condition in conditions) or "FALSE")


def _value(ranges: RangeSet, number: int) -> str:
    if ranges.kind == "date":
        return f"DATE '{date(1970, 1, 1) + timedelta(days=number)}'"
    return str(number)


def _of(node: Node, limits: Limits) -> Limits:
    return {name: limits[name] for name in node.columns if name in limits}


def _union(parts: Sequence[RangeSet | None]) -> RangeSet | None:
    total: RangeSet | None = None
    for part in parts:
        if part is None or (total is not None and total.kind != part.kind):
            return None
        total = part if total is None else total | part
    return total


def _compares_columns(condition: Expr) -> bool:
    tree = condition.tree
    if not isinstance(tree, (exp.EQ, exp.NullSafeEQ)):
        return False
    return isinstance(tree.this, exp.Column) and isinstance(tree.expression, exp.Column)
