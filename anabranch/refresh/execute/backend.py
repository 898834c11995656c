"""The rounds of a fixed point on Spark.

A member is its stored rows and a list of batches, each some Parquet files below its table's own
folder: a plan reads any number of batches with one scan, so that it is as large in the hundredth round
as in the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch.delta.fixpoint import REMOVED, BatchRange, BatchRanges, Meter
from anabranch.delta.member import Member, among_rows, without
from anabranch.lake.commit import check_rows
from anabranch.lake.footers import counts
from anabranch.lake.places import same_form
from anabranch.lake.version import TableVersion
from anabranch.model import Columns, Reading
from anabranch.names import TableName
from anabranch.plan.nodes import Node, Parameter, Scan, Version
from anabranch.plan.optimize import KEY_RULES, optimize
from anabranch.plan.walk import walk
from anabranch.refresh.execute.bounded import bounded, within
from anabranch.spark.merge import add_all, names, quoted
from anabranch.spark.query import Inputs, run_sql
from anabranch.spark.rounds import BROADCAST_ROWS, counted, distinct, present, rest, signed
from anabranch.spark.scan import empty, frame, union
from anabranch.spark.session import Spark
from anabranch.spark.write import write
from anabranch.sql.render import to_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORDS, THERE = "lines", "there"
FEW_ROWS = 100_000  # up to here one task writes


@dataclass(frozen=True)
class Batch:
    files: tuple[str, ...]
    rows: int


def paths(batches: Sequence[Batch]) -> tuple[str, ...]:
    return tuple(path for batch in batches for path in batch.files)


@dataclass
class Rows:
    """The rows of one member; `base` is whether its stored rows count."""

    version: TableVersion
    hidden: Columns
    directory: str
    base: bool = True
    removed: bool = False
    added: list[Batch] = field(default_factory=list)
    lost: list[Batch] = field(default_factory=list)
    waste: list[Batch] = field(default_factory=list)  # empty, or of rounds that were given up

    @property
    def columns(self) -> Columns:
        return self.version.columns

    @property
    def physical(self) -> Columns:
        return (*self.version.columns, *self.hidden)

    @property
    def lost_rows(self) -> int:
        return sum(batch.rows for batch in self.lost)


Source = Callable[[Scan], str]  # the view of a source at one version


@dataclass
class SparkBackend:
    """`sizes` are the rows of the sources, and of their changes."""

    spark: Spark
    rows: Mapping[TableName, Rows]
    source: Source
    inputs: Inputs
    source_rows: int = 0
    delta_rows: int = 0
    down: bool = True
    meter: Meter | None = None

    # -- what the rounds ask for -----------------------------------------------------------------

    def clear(self) -> None:
        self.down = False
        for rows in self.rows.values():
            rows.base = False
            rows.waste += rows.added
            rows.added = []

    def restart(self) -> None:
        """Back to the stored rows, as if no round had been."""
        self.down = True
        for rows in self.rows.values():
            rows.base, rows.removed = True, False
            rows.waste += [*rows.added, *rows.lost]
            rows.added, rows.lost = [], []

    def remove(self) -> None:
        self.down = False
        for rows in self.rows.values():
            rows.removed = True

    def add(self, member: Member, records: Node, ranges: BatchRanges) -> int:
        self.down = False
        rows = self.rows[member.name]
        size = self.size(records, ranges)
        with self.running(member, size) as views:
            call = Call(self, member, ranges, views, hints=self.is_small(records, size))
            found = call.run(records)
            if member.is_set:
                fresh = call.fresh(found)
                if fresh is None:
                    return 0
                found = fresh
            batch = self.written(rows, found, size)
        return self.kept(rows, rows.added, batch)

    def take(self, member: Member, records: Node, ranges: BatchRanges, *, seeds: bool) -> int:
        self.down = True
        rows = self.rows[member.name]
        size = self.size(records, ranges)
        with self.running(member, size) as views:
            call = Call(self, member, ranges, views, hints=self.is_small(records, size))
            found = distinct(call.run(records), rows.columns)
            # Seeds are looked at twice: first to find those that the member has.
            call.given[RECORDS] = (views.keep if seeds else views.add)(found, RECORDS)
            given: Node = member.given(RECORDS)
            wanted = without(given, member.given(REMOVED)) if rows.lost else given
            if seeds:
                wanted = among_rows(wanted, call.there())
            batch = self.written(rows, call.run(wanted), size)
        return self.kept(rows, rows.lost, batch)

    @contextmanager
    def running(self, member: Member, size: int) -> Iterator[Inputs]:
        session = self.spark.session
        with (
            self.spark.tuned(size),
            Inputs(session) as views,
            bounded(session, self.meter, member.name),
        ):
            yield views

    # -- sizes and files ---------------------------------------------------------------------------

    def size(self, node: Node, ranges: BatchRanges) -> int:
        """Rows that a plan starts from: those of its deltas, or all."""
        scans = {part for part in walk(node) if isinstance(part, Scan)}
        deltas = [scan for scan in scans if scan.version is Version.DELTA]
        if deltas:
            return max(1, sum(self.moved(scan.table, ranges) for scan in deltas))
        stored = sum(self.stored(self.rows[table]) for table in self.rows)
        return max(1, self.source_rows + stored)

    def moved(self, table: TableName, ranges: BatchRanges) -> int:
        if table not in self.rows:
            return self.delta_rows
        rows, batch_range = self.rows[table], ranges[table]
        batches = rows.lost if self.down else rows.added
        return sum(batch.rows for batch in batches[batch_range.before : batch_range.after])

    def stored(self, rows: Rows) -> int:
        base = rows.version.rows if rows.base else 0
        return base + sum(batch.rows for batch in rows.added)

    def is_small(self, node: Node, size: int) -> bool:
        starts = any(
            isinstance(part, Scan) and part.version is Version.DELTA for part in walk(node)
        )
        return starts and size <= BROADCAST_ROWS

    def written(self, rows: Rows, found: DataFrame, size: int) -> Batch:
        left = None if self.meter is None else self.meter.rows_left
        found = within(found, self.meter)  # no task of many writes more than all of them may
        hashed = add_all(found, rows.columns, hashed=bool(rows.hidden))
        if size <= FEW_ROWS or (left is not None and left <= FEW_ROWS):
            # What it is computed from stays parallel; the one task that writes sees all rows.
            hashed = within(hashed.repartition(1), self.meter)
        done = write(hashed, rows.directory, rows.physical)
        io, root = rows.version.io, rows.version.root
        found_rows = counts(io, [same_form(path, root) for path in done.add])
        check_rows(rows.version.name, done.rows, sum(each[0] for each in found_rows.values()))
        return Batch(done.add, done.rows)

    def kept(self, rows: Rows, batches: list[Batch], batch: Batch) -> int:
        (batches if batch.rows else rows.waste).append(batch)
        return batch.rows

    # -- frames ------------------------------------------------------------------------------------

    def seen(self, scan: Scan, ranges: BatchRanges) -> DataFrame:
        """A member as a plan sees it."""
        rows = self.rows[scan.table]
        batch_range = ranges.get(scan.table, BatchRange(0, 0))
        if scan.version is Version.DELTA:
            batches = rows.lost if self.down else rows.added
            found = self.batches(rows, batches[batch_range.before : batch_range.after])
            return signed(found, rows.columns, -1 if self.down else 1)
        if self.down:
            return self.base(rows)
        end = batch_range.before if scan.version is Version.BEFORE else batch_range.after
        parts = [self.base(rows)] if rows.base else []
        parts += [self.batches(rows, rows.added[:end])] if end or not parts else []
        return union(parts)

    def base(self, rows: Rows) -> DataFrame:
        """The stored rows, without the lost ones once those are removed."""
        session, reading = self.spark.session, rows.version.reading()
        if not rows.removed or not rows.lost:
            return frame(session, reading, rows.columns)
        few = rows.lost_rows <= BROADCAST_ROWS
        stored = frame(session, reading, rows.physical)
        return rest(stored, self.physical(rows, rows.lost), rows.columns, few=few)

    def there(
        self, rows: Rows, records: DataFrame, batch_range: BatchRange, *, few: bool
    ) -> DataFrame:
        """Those of the lines that the member has, up to the end of a span."""
        readings = [rows.version.reading()] if rows.base else []
        if not self.down and (files := paths(rows.added[: batch_range.after])):
            readings.append(Reading(files))
        session, columns = self.spark.session, rows.columns
        found = [
            present(session, reading, records, columns, rows.hidden, few=few)
            for reading in readings
        ]
        if rows.base and rows.removed and rows.lost:
            lost = self.physical(rows, rows.lost)
            found[0] = rest(found[0], lost, columns, few=rows.lost_rows <= BROADCAST_ROWS)
        chosen = [each.select(*quoted(names(columns))) for each in found]
        return union(chosen) if chosen else empty(session, columns)

    def batches(self, rows: Rows, batches: list[Batch]) -> DataFrame:
        files = paths(batches)
        if not files:
            return empty(self.spark.session, rows.columns)
        return frame(self.spark.session, Reading(files), rows.columns)

    def physical(self, rows: Rows, batches: list[Batch]) -> DataFrame:
        return frame(self.spark.session, Reading(paths(batches)), rows.physical)


@dataclass
class Call:
    """One plan run for one member."""

    backend: SparkBackend
    member: Member
    ranges: BatchRanges
    views: Inputs
    hints: bool
    given: dict[str, str] = field(default_factory=dict)
    names: dict[tuple[TableName, Version], str] = field(default_factory=dict)

    def run(self, node: Node) -> DataFrame:
        node = optimize(node, KEY_RULES)
        text = to_sql(node, self.name_of, "spark", hints=self.hints)
        return run_sql(self.backend.spark.session, text, labels=self.labels)

    @property
    def labels(self) -> dict[str, str]:
        return {**self.backend.inputs.labels, **self.views.labels}

    def name_of(self, leaf: Scan | Parameter) -> str:
        if isinstance(leaf, Parameter):
            return self.given.get(leaf.name) or self.removed()
        if leaf.table not in self.backend.rows:
            return self.backend.source(leaf)
        key = (leaf.table, leaf.version)
        if key not in self.names:
            self.names[key] = self.views.add(self.backend.seen(leaf, self.ranges), str(leaf.table))
        return self.names[key]

    def removed(self) -> str:
        rows = self.backend.rows[self.member.name]
        self.given[REMOVED] = self.views.add(self.backend.batches(rows, rows.lost), REMOVED)
        return self.given[REMOVED]

    def fresh(self, found: DataFrame) -> DataFrame | None:
        """The rows that a set does not have yet; None when there are none at all.

        A small table is compared as it is.  Of a large one only the rows in question are looked up,
        which takes computing them first.
        """
        rows = self.backend.rows[self.member.name]
        once = distinct(found, rows.columns)
        records, now = self.member.given(RECORDS), self.member.now
        if self.backend.stored(rows) <= FEW_ROWS:
            self.given[RECORDS] = self.views.add(once, RECORDS)
            return self.run(without(records, now))
        # Those that it has may be among them.
        once = within(once, self.backend.meter, self.backend.stored(rows))
        kept, count = counted(once, self.labels)
        if not count:
            return None
        self.given[RECORDS] = self.views.add(kept, RECORDS)
        self.hints = count <= BROADCAST_ROWS
        return self.run(without(records, self.there() if self.hints else now))

    def there(self) -> Parameter:
        """Those of the lines that the member has."""
        records = self.backend.spark.session.table(self.given[RECORDS])
        rows, batch_range = self.backend.rows[self.member.name], self.ranges[self.member.name]
        self.given[THERE] = self.views.add(
            self.backend.there(rows, records, batch_range, few=self.hints), THERE
        )
        return self.member.given(THERE)
