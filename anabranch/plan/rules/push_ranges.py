"""ΔR ⋈ S  =  ΔR ⋈ (S within the ranges of ΔR's keys): scans read only where keys can lie

The spans of a changed table's columns are known before anything is read.  They are carried through
the plan to whatever is joined with it: to the rows of S that are asked for, and no others.
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
from anabranch.plan.walk import walk


def push_ranges(plan: Node, statistics: Statistics) -> Node:
    """The plan, with scans that read no more than they must.

    >>> from anabranch.model import RangeSet
    >>> from anabranch.plan.read import rewritten
    >>> from anabranch.plan.statistics import TableStatistics
    >>> a, b = TableName.of("a"), TableName.of("b")
    >>> kinds = {"k": "integer"}
    >>> changed = {"k": RangeSet("integer", ((10, 19),))}
    >>> told = Statistics(
    ...     {a: TableStatistics(9, kinds, changed=changed), b: TableStatistics(9, kinds)}
    ... )
    >>> rewritten(lambda plan: push_ranges(plan, told), '''
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
    return _Pushing(statistics, statistics.given, _uses(plan)).visit(plan, NONE)


def ranges_of(plan: Node, statistics: Statistics) -> Limits:
    """Where the values of the columns of a plan lie, as far as is known."""
    pushing = _Pushing(statistics, statistics.given, Counter())
    found = {name: pushing.values(plan, name) for name in plan.columns}
    return {name: values for name, values in found.items() if values is not None}


def ranges_wanted(plan: Node, statistics: Statistics) -> dict[TableName, list[ColumnRanges]]:
    """The boxes that scans of the plan would be read within, by table."""
    found: dict[TableName, list[ColumnRanges]] = {}
    for part in walk(push_ranges(plan, statistics)):
        if isinstance(part, Scan) and part.ranges:
            found.setdefault(part.table, []).extend(part.ranges)
    return found


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
class _Pushing:
    known: Statistics
    given: Limits
    uses: Counter[Node]
    seen: dict[tuple[Node, str], RangeSet | None] = field(default_factory=dict)
    kinds: dict[tuple[Node, str], str | None] = field(default_factory=dict)
    done: dict[Node, Node] = field(default_factory=dict)

    # Where values lie, from below

    def values(self, node: Node, name: str) -> RangeSet | None:
        key = (node, name)
        if key not in self.seen:
            self.seen[key] = self._values(node, name)
        return self.seen[key]

    def _values(self, node: Node, name: str) -> RangeSet | None:
        match node:
            case Scan(version=Version.DELTA):
                return self.known.changed(node.table, name)
            case Parameter():
                return self.given.get(name)
            case Join():
                return self.of_class(node, name)
            case KeyFilter():
                return self.values(node.input, name) or self.asked(
                    node.input, node.keys, node.on
                ).get(name)
        return _union([self.values(node.inputs[o.input], o.name) for o in node.origins(name)])

    def of_class(self, node: Join, name: str) -> RangeSet | None:
        """The values of a column, or of one that the join makes equal to it."""
        for each in (name, *self.equals(node).get(name, ())):
            part = next(part for part in node.parts if each in part.columns)
            if (found := self.values(part, each)) is not None:
                return found
        return None

    def asked(self, node: Node, keys: Node, on: On) -> Limits:
        """The limits of columns of a node that are compared with keys."""
        found = {expr.column: self.values(keys, key) for expr, key in on}
        return {
            name: values
            for name, values in found.items()
            if name and values is not None and self.kind(node, name) == values.kind
        }

    def equals(self, node: Join | Outer | ExistenceJoin) -> dict[str, list[str]]:
        """For each column, those that the condition makes equal to it, value by value: 1 equals
        1.0 and '1', but what lies between two numbers is another matter with texts."""
        kinds = {
            name: self.kind(part, name)
            for part in node.inputs
            for name in part.columns
            if node.condition is not None and name in node.condition.columns
        }
        equal: dict[str, list[str]] = {}
        for part in conjuncts(node.condition):
            if not _compares_columns(part) or len({kinds[name] for name in part.columns}) > 1:
                continue
            one: list[str] = []
            for name in sorted(part.columns):
                if kinds[name] is not None:
                    one += [each for each in equal.get(name, [name]) if each not in one]
            equal |= dict.fromkeys(one, one)
        return equal

    def kind(self, node: Node, name: str) -> str | None:
        """The kind of a column's values, where it is a column of a table as it is."""
        key = (node, name)
        if key not in self.kinds:
            self.kinds[key] = self._kind(node, name)
        return self.kinds[key]

    def _kind(self, node: Node, name: str) -> str | None:
        match node:
            case Scan():
                return self.known.kind(node.table, name)
            case Parameter():
                return self.given[name].kind if name in self.given else None
        kinds = {self.kind(node.inputs[o.input], o.name) for o in node.typed_like(name)}
        return kinds.pop() if len(kinds) == 1 else None

    # What is of interest, from above

    def visit(self, node: Node, limits: Limits) -> Node:
        """The node without some rows outside the limits.  A part that is used more than once is
        computed once, so that limits of one use cannot go further."""
        if isinstance(node, ReducedScan) or (limits and self.uses[node] > 1 and is_work(node)):
            limits = NONE
        if limits:
            return self.pushed(node, limits)
        if node not in self.done:
            self.done[node] = self.pushed(node, NONE)
        return self.done[node]

    def pushed(self, node: Node, limits: Limits) -> Node:
        match node:
            case Scan():
                return self.within(node, [limits])
            case Join():
                return self.join(node, limits)
            case KeyFilter():
                asked = self.asked(node.input, node.keys, node.on)
                return node.with_inputs(
                    [self.visit(node.input, {**asked, **limits}), self.visit(node.keys, NONE)]
                )
            case ReducedScan():
                return self.reduced_scan(node)
            case Outer(full=False) | ExistenceJoin():
                return self.pair(node, limits)
        return self.over(node, limits) if node.inputs else node

    def over(self, node: Node, limits: Limits) -> Node:
        """Rows of no interest are left out of the inputs that could be asked for keys as well."""
        below: list[dict[str, RangeSet]] = [{} for _ in node.inputs]
        for name, values in limits.items():
            routes = node.routes(((column(name), ""),)) or ()
            for found, route in zip(below, routes, strict=bool(routes)):
                for expr, _ in route:
                    if expr.column is not None:
                        found[expr.column] = values
        inputs = zip(node.inputs, below, strict=True)
        return node.with_inputs([self.visit(part, found) for part, found in inputs])

    def join(self, node: Join, limits: Limits) -> Node:
        equal = self.equals(node)
        found = dict(limits)
        for name in equal:
            values = self.of_class(node, name) or next(
                (limits[each] for each in (name, *equal[name]) if each in limits), None
            )
            if values is not None:
                found.setdefault(name, values)
        return node.with_inputs([self.visit(part, _of(part, found)) for part in node.parts])

    def pair(self, node: Outer | ExistenceJoin, limits: Limits) -> Node:
        """The partners of rows that are of interest; of rows that need a partner, those that can
        have one."""
        equal = self.equals(node)
        left, right = dict(_of(node.left, limits)), dict[str, RangeSet]()
        for name in equal:
            others = equal[name]
            if name in node.right.columns:
                told = (
                    self.values(node.left, n) or left.get(n)
                    for n in others
                    if n in node.left.columns
                )
                if (values := next(filter(None, told), None)) is not None:
                    right[name] = values
            elif isinstance(node, SemiJoin):
                told = (self.values(node.right, n) for n in others if n in node.right.columns)
                if (values := next(filter(None, told), None)) is not None:
                    left.setdefault(name, values)
        return node.with_inputs([self.visit(node.left, left), self.visit(node.right, right)])

    def reduced_scan(self, node: ReducedScan) -> Node:
        """Rows that are asked for by some of the keys."""
        asked = [self.asked(node.input, keys, on) for keys, on in node.by]
        below = node.input
        if isinstance(below, Filter) and isinstance(below.input, Scan):
            below = replace(below, input=self.within(below.input, asked))
        elif isinstance(below, Scan):
            below = self.within(below, asked)
        keys = [self.visit(each, NONE) for each, _ in node.by]
        return node.with_inputs([below, *keys])

    def within(self, scan: Scan, wanted: Sequence[Limits]) -> Scan:
        """Nothing is left out unless every one of those who ask has limits."""
        if scan.version not in (Version.AFTER, Version.BEFORE):
            return scan
        boxes = [self.box(scan.table, limits) for limits in wanted]
        return replace(scan, ranges=tuple(dict.fromkeys(boxes))) if all(boxes) else scan

    def box(self, table: TableName, limits: Limits) -> ColumnRanges:
        fitting = (
            (name, spans)
            for name, spans in limits.items()
            if self.known.kind(table, name) == spans.kind
        )
        return tuple(sorted(fitting))


def inside(within: Sequence[ColumnRanges]) -> Expr:
    """The condition that a row lies in one of the boxes."""
    boxes = (conjunction(_in(name, spans) for name, spans in box) for box in within)
    return _any([box for box in boxes if box is not None])


def _in(name: str, spans: RangeSet) -> Expr:
    this = column(name)
    between = [
        Expr(f"{this.text} BETWEEN {_value(spans, low)} AND {_value(spans, high)}")
        for low, high in spans.ranges
    ]
    return _any([*between, is_null(this)] if spans.nulls else between)


def _any(conditions: Sequence[Expr]) -> Expr:
    return Expr(" OR ".join(f"({each.text})" for each in conditions) or "FALSE")


def _value(spans: RangeSet, number: int) -> str:
    if spans.kind == "date":
        return f"DATE '{date(1970, 1, 1) + timedelta(days=number)}'"
    return str(number)


def _of(node: Node, limits: Limits) -> Limits:
    return {name: limits[name] for name in node.columns if name in limits}


def _union(found: Sequence[RangeSet | None]) -> RangeSet | None:
    total: RangeSet | None = None
    for each in found:
        if each is None or (total is not None and total.kind != each.kind):
            return None
        total = each if total is None else total | each
    return total


def _compares_columns(condition: Expr) -> bool:
    tree = condition.tree
    if not isinstance(tree, (exp.EQ, exp.NullSafeEQ)):
        return False
    return isinstance(tree.this, exp.Column) and isinstance(tree.expression, exp.Column)
