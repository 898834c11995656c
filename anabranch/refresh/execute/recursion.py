"""WITH RECURSIVE … UNION on Spark, which knows UNION ALL alone: by rounds of our own.

Rounds run as plans over checkpointed frames, so that the plan of a statement is bound to their result
before it is written as SQL.  After a change a recursion is carried over from what it was before: its
stored rows, where the stream table is nothing but the recursion; else it is computed first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from anabranch.catalog.bounds import past
from anabranch.delta.closure import as_member, as_written, is_before
from anabranch.delta.fixpoint import (
    REMOVED,
    BatchRange,
    BatchRanges,
    Counts,
    Meter,
    NoFixedPoint,
    follow,
    from_empty,
)
from anabranch.delta.member import Member, among_rows, without
from anabranch.delta.rule import Changed, at
from anabranch.errors import DataError, NotConverged
from anabranch.model import FixpointBounds
from anabranch.names import TableName, quote
from anabranch.plan.exprs import column
from anabranch.plan.monotone import not_monotone
from anabranch.plan.nodes import (
    WEIGHT,
    Aggregate,
    Difference,
    Item,
    Node,
    Parameter,
    Recursive,
    Scan,
    Version,
)
from anabranch.plan.optimize import KEY_RULES, optimize
from anabranch.plan.walk import tables, transform
from anabranch.refresh.execute.bounded import bounded, within
from anabranch.spark.query import Inputs, checkpoint, run_sql
from anabranch.spark.rounds import counted
from anabranch.spark.scan import union
from anabranch.sql.render import NameOf, to_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEW = 100  # rows that are lost without counting
TOO_MANY = 0.5  # of all rows lost: then starting from empty is cheaper than bringing most back
FEW_ROWS = 200_000  # up to here rows are sent whole to every task
MANY_BATCHES = 8  # then they are put together
LINES = "lines"
View = Callable[[Scan], str]  # the view of a source at one version


@dataclass
class Closure:
    """A recursion's rows after a change, and if it is touched by it, before and what it comes to."""

    after: DataFrame
    before: DataFrame
    change: DataFrame | None = None


@dataclass
class Recursions:
    """The recursions of the plans of one refresh, each worked out once.

    `changed` are the tables of which there are deltas, `losing` those of them that have lost rows.
    """

    session: SparkSession
    inputs: Inputs
    view: View
    bounds: FixpointBounds  # rounds and rows of each recursion, and the time of all of them
    table: TableName  # whose query it is
    changed: Changed = frozenset()
    losing: Changed = frozenset()
    stored: dict[Recursive, DataFrame] = field(default_factory=dict)  # as they were before
    views: dict[str, str] = field(default_factory=dict)  # of the relations that plans are bound to
    done: dict[Recursive, Closure] = field(default_factory=dict)
    bound_parts: dict[Node, Node] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def bound(self, node: Node) -> Node:
        """The plan with a relation for every recursion that keeps rows once."""
        if node not in self.bound_parts:
            self.bound_parts[node] = self._bound(node)
        return self.bound_parts[node]

    def _bound(self, node: Node) -> Node:
        if isinstance(node, Difference) and isinstance(node.right, Recursive):
            found = self.closure(as_written(node.right))
            if found.change is not None:
                return self.given(found.change, node.columns)
        if isinstance(node, Recursive) and node.distinct:
            found = self.closure(as_written(node))
            return self.given(found.before if is_before(node) else found.after, node.columns)
        inputs = [self.bound(part) for part in node.inputs]
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        return node if same else node.with_inputs(inputs)

    def named(self, name_of: NameOf) -> NameOf:
        """Names also for what plans are bound to."""

        def name(leaf: Scan | Parameter) -> str:
            view = self.views.get(leaf.name) if isinstance(leaf, Parameter) else None
            return view or name_of(leaf)

        return name

    def given(self, rows: DataFrame, columns: tuple[str, ...]) -> Parameter:
        name = f"_ab_closure{len(self.views)}"
        self.views[name] = self.inputs.add(rows, "a recursion")
        return Parameter(name, columns)

    def closure(self, node: Recursive) -> Closure:
        if node not in self.done:
            self.done[node] = self._closure(node)
        return self.done[node]

    def _closure(self, node: Recursive) -> Closure:
        changed = self.changed & tables(node)
        try:
            if not changed:
                rows = self.computed(node, frozenset())
                return Closure(rows, rows)
            before = self.stored.get(node)
            if before is None:
                before = self.computed(node, changed)
            return self.followed(node, before, changed)
        except NoFixedPoint as error:
            raise self.endless(error) from error

    def endless(self, error: NoFixedPoint) -> NotConverged:
        """How far it got, and at which bound it stopped."""
        total = sum(sum(each.values()) for each in error.rounds)
        bound = error.bound.value
        mend = f"bound the values that grow, or raise {bound}"
        cure = f"{mend}: ALTER STREAM TABLE {self.table} SET ({bound} = …)"
        return NotConverged(
            f"{self.table}: WITH RECURSIVE … UNION: no fixed point after {len(error.rounds)} rounds, "
            f"which {'took away' if error.down else 'added'} {total:,} rows"
            f"{past(error.bound, self.bounds)}",
            hint=f"{cure}; then refresh",
            cure=cure,
            cure_at_creation=f"{mend}: CREATE STREAM TABLE … WITH ({bound} = …)",
        )

    def computed(self, node: Recursive, before: Changed) -> DataFrame:
        """From nothing; over the tables of `before` as they were before the change."""
        backend = FrameBackend(self, node, None, before)
        from_empty(backend, [backend.member], self.bounds, _nothing, started=self.started)
        return backend.rows()

    def followed(self, node: Recursive, before: DataFrame, changed: Changed) -> Closure:
        backend = FrameBackend(self, node, before)
        before = backend.base = backend.typed(before)
        member = backend.member
        gains = not self.losing & changed and not list(not_monotone(member.plan, changed))
        try:
            follow(
                backend,
                [member],
                changed,
                only_gains=gains,
                give_up=0 if gains else max(FEW, TOO_MANY * before.count()),
                bounds=self.bounds,
                watch=_nothing,
                started=self.started,
            )
        except DataError:
            # Pairs of old and new rows that were never in a result may break a query.
            if gains:
                raise
            from_empty(backend, [member], self.bounds, _nothing, started=self.started)
        return Closure(backend.rows(), before, backend.change(before))


@dataclass
class FrameBackend:
    """The rounds of one recursion over frames.

    `base` are its rows before the change, None when it starts from nothing; `shifted` are the tables
    that are read as they were before a change.
    """

    around: Recursions
    node: Recursive
    base: DataFrame | None
    shifted: Changed = frozenset()
    added: list[DataFrame] = field(default_factory=list)
    lost: list[DataFrame] = field(default_factory=list)
    sizes: dict[bool, list[int]] = field(default_factory=lambda: {True: [], False: []})
    together: list[DataFrame] = field(default_factory=list)  # the first n + 1 of those added
    down: bool = False
    restarted: bool = False
    meter: Meter | None = None

    @cached_property
    def member(self) -> Member:
        return as_member(self.node)

    @cached_property
    def nothing(self) -> DataFrame:
        """No rows, of the types of the recursion."""
        return self.run(at(self.node.seed, Version.AFTER), {}, {}).limit(0)

    def typed(self, rows: DataFrame) -> DataFrame:
        """Stored rows with the types of the recursion: Iceberg has no SMALLINT, and keeps an INT."""
        wanted = self.nothing.schema
        if [each.dataType for each in rows.schema] == [each.dataType for each in wanted]:
            return rows
        return rows.select(
            *(rows[quote(each.name)].cast(each.dataType).alias(each.name) for each in wanted)
        )

    # -- what the rounds ask for -------------------------------------------------------------------

    def clear(self) -> None:
        self.down, self.restarted = False, True
        self.base, self.added, self.together = None, [], []
        self.sizes[False] = []

    def remove(self) -> None:
        self.down = False
        if self.lost and self.base is not None:
            given = {"stored": self.base, REMOVED: union(self.lost)}
            stored, removed = (Parameter(name, self.member.columns) for name in given)
            self.base = self.checked(without(stored, removed), {}, given)[0]

    def add(self, member: Member, lines: Node, ranges: BatchRanges) -> int:
        self.down = False
        # Of a base nobody has counted the rows.
        there = sum(self.sizes[False]) if self.base is None else None
        found, count = self.checked(self.once(lines), ranges, beside=there)
        if not count:
            return 0
        if self.base is not None or self.added:
            found, count = self.checked(self.fresh(count), ranges, {LINES: found}, beside=0)
        if count:
            self.added.append(found)
            self.sizes[False].append(count)
            whole = found if not self.together else union([self.together[-1], found])
            if len(self.together) % MANY_BATCHES == MANY_BATCHES - 1:
                whole = checkpoint(whole)
            self.together.append(whole)
        return count

    def take(self, member: Member, lines: Node, ranges: BatchRanges, *, seeds: bool) -> int:
        self.down = True
        wanted = self.once(lines)
        if self.lost:
            wanted = without(wanted, member.given(REMOVED))
        found, count = self.checked(wanted, ranges)
        if count and seeds:  # those that it has
            few = count <= FEW_ROWS
            there = among_rows(member.now, member.given(LINES), broadcast=few)
            found, count = self.checked(there, ranges, {LINES: found})
        if count:
            self.lost.append(found)
            self.sizes[True].append(count)
        return count

    def once(self, lines: Node) -> Node:
        return Aggregate(lines, tuple(Item(name, column(name)) for name in self.member.columns))

    def fresh(self, count: int) -> Node:
        """The lines that are not there yet: of the rows that are there, only those are looked at."""
        lines = self.member.given(LINES)
        if count > FEW_ROWS:
            return without(lines, self.member.now)
        return without(lines, among_rows(self.member.now, lines))

    # -- frames ------------------------------------------------------------------------------------

    def rows(self) -> DataFrame:
        parts = [] if self.base is None else [self.base]
        parts += self.together[-1:]
        return union(parts) if parts else self.nothing

    def change(self, before: DataFrame) -> DataFrame:
        """What the rounds came to; rows that went and came back are as they were."""
        columns = self.member.columns
        plus, minus = Parameter("plus", columns), Parameter("minus", columns)
        given = {
            "plus": self.rows() if self.restarted else _all(self.added, self.nothing),
            "minus": before if self.restarted else _all(self.lost, self.nothing),
        }
        return self.checked(Difference(minus, plus), {}, given)[0]

    def checked(
        self,
        node: Node,
        ranges: BatchRanges,
        given: dict[str, DataFrame] | None = None,
        *,
        beside: int | None = None,
    ) -> tuple[DataFrame, int]:
        """The rows of a plan, computed once, and how many there are.

        `beside`: of new rows, how many others there may be among them; they are bounded.
        """
        rows = self.run(node, ranges, given or {})
        if beside is not None:
            rows = within(rows, self.meter, beside)
        with bounded(self.around.session, self.meter, self.around.table):
            return counted(rows, self.around.inputs.labels)

    def run(self, node: Node, ranges: BatchRanges, given: dict[str, DataFrame]) -> DataFrame:
        inputs = self.around.inputs
        node = optimize(self.around.bound(self.shift(node)), KEY_RULES)

        def name_of(leaf: Scan | Parameter) -> str:
            if isinstance(leaf, Scan):
                if leaf.table == self.member.name:
                    return inputs.add(self.seen(leaf, ranges), "the recursion")
                return self.around.view(leaf)
            if leaf.name in self.around.views:
                return self.around.views[leaf.name]
            rows = given[leaf.name] if leaf.name in given else union(self.lost)
            return inputs.add(rows, leaf.name)

        text = to_sql(node, name_of, "spark", hints=self.is_small(ranges))
        return run_sql(self.around.session, text, labels=inputs.labels)

    def shift(self, node: Node) -> Node:
        def move(part: Node) -> Node:
            if isinstance(part, Scan) and part.table in self.shifted:
                return replace(part, version=Version.BEFORE)
            return part

        return transform(node, move) if self.shifted else node

    def is_small(self, ranges: BatchRanges) -> bool:
        """Whether what the rounds look at is sent whole to every task."""
        batch_range = ranges.get(self.member.name)
        if batch_range is None or batch_range.after == batch_range.before:
            return False
        return sum(self.sizes[self.down][batch_range.before : batch_range.after]) <= FEW_ROWS

    def seen(self, scan: Scan, ranges: BatchRanges) -> DataFrame:
        """The recursion as a plan sees it."""
        batch_range = ranges.get(self.member.name, BatchRange(0, len(self.added)))
        if scan.version is Version.DELTA:
            batches = self.lost if self.down else self.added
            sign = -1 if self.down else 1
            rows = _all(batches[batch_range.before : batch_range.after], self.nothing)
            return rows.selectExpr("*", f"CAST({sign} AS BIGINT) AS {WEIGHT}")
        if self.down:
            return self.nothing if self.base is None else self.base
        end = batch_range.before if scan.version is Version.BEFORE else batch_range.after
        parts = [] if self.base is None else [self.base]
        parts += [self.together[end - 1]] if end else []
        return union(parts) if parts else self.nothing


def _all(frames: Sequence[DataFrame], nothing: DataFrame) -> DataFrame:
    return union(frames) if frames else nothing


def _nothing(_: Counts) -> None:
    """Nobody watches the rounds."""
