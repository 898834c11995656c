"""The Spark job of a refresh: one write into the stage, whichever way was chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from anabranch.catalog.streams import StreamTable
from anabranch.delta.maintenance import ByRows, Combine, Replace
from anabranch.engine.groups import Groups, State, combine_groups, replace_groups
from anabranch.engine.merge import Stored, add_all, apply_rows, replace_all, stored_rows
from anabranch.engine.query import Inputs, run_sql
from anabranch.engine.scan import delta_frame, frame
from anabranch.engine.write import write
from anabranch.lake.spans import in_files, kind_of
from anabranch.lake.version import TableVersion
from anabranch.model import Action, Box, Columns, Delta, Reading, RefreshMode, Spans
from anabranch.names import TableName
from anabranch.plan.looks import Large, Larges, looks
from anabranch.plan.narrow import NONE, Limits, inside, narrow, spans
from anabranch.plan.nodes import Given, Join, Node, Scan, Version
from anabranch.plan.shared import shared, worth_keeping
from anabranch.plan.walk import walk
from anabranch.refresh.choose import Layout, rewrites
from anabranch.refresh.definition import Definition
from anabranch.runtime import Runtime, Transaction
from anabranch.sql.render import NameOf, to_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BROADCAST_ROWS = 500_000  # up to here a delta is sent whole to every task
ROWS_PER_FILE = 1_000_000
ONE_TASK_ROWS = 200_000  # up to here a single task recomputes a table fastest
WORTH_SHARE = 0.5  # more than this part of a table is read as all of it
LOOK_ROWS = 500_000  # from here on reading a table twice costs more than keeping rows of it
_PLAIN = ("boolean", "tinyint", "smallint", "int", "bigint", "string", "date", "timestamp")


@dataclass(frozen=True)
class Sources:
    """The tables a query reads, as they are now, and what changed in each since the last refresh."""

    versions: Mapping[TableName, TableVersion]
    before: Mapping[TableName, int | None]
    deltas: Mapping[TableName, Delta]  # only those that changed
    expired: str | None = None

    @property
    def delta_rows(self) -> int:
        return sum(delta.rows for delta in self.deltas.values())

    @property
    def rows(self) -> int:
        return sum(version.rows for version in self.versions.values())

    @cached_property
    def larges(self) -> Larges:
        """The tables that are worth a look: none if there are too many keys to send to every task."""
        if self.delta_rows > BROADCAST_ROWS:
            return {}
        return {
            name: Large(version.rows, plain(version.columns))
            for name, version in self.versions.items()
            if version.rows >= LOOK_ROWS
        }

    @property
    def insert_only(self) -> bool:
        return not any(delta.minus for delta in self.deltas.values())

    def planned(self, node: Node, limits: Limits = NONE) -> Node:
        """The plan with few looks at large tables, of which no more is read than must be."""
        bare = narrow(node, self, limits)
        often = {
            scan.table for scan in walk(bare) if isinstance(scan, Scan) and self.is_large(scan)
        }
        larges = {table: large for table, large in self.larges.items() if table in often}
        return narrow(looks(node, larges), self, limits) if larges else bare

    def is_large(self, scan: Scan) -> bool:
        """Whether what a scan reads is worth a look."""
        return scan.version is not Version.DELTA and self.rows_of(scan) >= LOOK_ROWS

    def rows_of(self, scan: Scan) -> int:
        """About how many rows a scan reads."""
        version, within = self.versions[scan.table], self.within(scan)
        return round(version.rows * version.share(within)) if within else version.rows

    def kind(self, table: TableName, column: str) -> str | None:
        field = self.versions[table].field(column)
        return kind_of(field) if field is not None else None

    def changed(self, table: TableName, column: str) -> Spans | None:
        version, delta = self.versions[table], self.deltas.get(table)
        field = version.field(column)
        if field is None or delta is None:
            return None
        files = [path for each in (*delta.plus, *delta.minus) for path in each.files]
        return in_files(version.io, files, field)

    def within(self, scan: Scan) -> tuple[Box, ...]:
        """The boxes of a scan, if they leave out enough to be worth asking for each row."""
        version = self.versions[scan.table]
        return scan.within if scan.within and version.share(scan.within) <= WORTH_SHARE else ()


def plain(columns: Columns) -> frozenset[str]:
    """Columns of which equal values are the same bits: 0.0 equals -0.0, and a map equals nothing."""
    return frozenset(
        each.name for each in columns if each.type in _PLAIN or each.type.startswith("decimal")
    )


@dataclass
class Scans:
    """Scans of a plan as temporary views, each read at most once per statement."""

    session: SparkSession
    sources: Sources
    inputs: Inputs
    hints: bool
    names: dict[object, str] = field(default_factory=dict)
    parts: dict[Node, str] = field(default_factory=dict)  # computed once, though used more often

    def run(self, node: Node, given: DataFrame | None = None, limits: Limits = NONE) -> DataFrame:
        """The frame of a plan; `given` is bound to its Given relation, `limits` are those of its
        columns."""
        node = self.sources.planned(node, limits)

        def name_of(leaf: Scan | Given) -> str:
            if isinstance(leaf, Given):
                assert given is not None
                return self.inputs.add(given, leaf.name)
            return self.view(leaf)

        for part in shared(node, self.parts):
            if worth_keeping(part, self.parts):
                kept = self.inputs.keep(self.frame(part, name_of), "a part of the change")
                self.parts[part] = kept
        return self.frame(node, name_of)

    def frame(self, node: Node, name_of: NameOf) -> DataFrame:
        text = to_sql(node, name_of, "spark", hints=self.hints, known=self.parts)
        return run_sql(self.session, text, labels=self.inputs.labels)

    def view(self, scan: Scan) -> str:
        now = Version.AFTER if scan.version is Version.NOW else scan.version
        within = self.sources.within(scan)
        key = (scan.table, now, within)
        if key not in self.names:
            rows = self.read(scan.table, now, within)
            self.names[key] = self.inputs.add(rows, str(scan.table))
        return self.names[key]

    def read(self, table: TableName, version: Version, within: tuple[Box, ...]) -> DataFrame:
        found = self.sources.versions[table]
        if version is Version.DELTA:
            return delta_frame(self.session, self.sources.deltas[table], found.columns)
        snapshot = found.snapshot_id if version is Version.AFTER else self.sources.before[table]
        reading = found.reading(snapshot, within=within) if snapshot is not None else Reading(())
        rows = frame(self.session, reading, found.columns)
        return rows.filter(inside(within).text) if within else rows


def full_job(
    runtime: Runtime,
    tx: Transaction,
    stream: StreamTable,
    definition: Definition,
    sources: Sources,
    summary: Mapping[str, str],
) -> TableVersion:
    """All rows from scratch.  A small table that was filled before gets only the difference."""
    session, name = runtime.spark.session, stream.name
    stored = tx.world.version(name)
    visible, hidden = stored.columns, hidden_of(stream, definition)
    compare = (
        summary["anabranch.mode"] == Action.FULL.value
        and stream.populated
        and not hidden
        and small(runtime, stored)
    )
    with Inputs(session) as inputs, runtime.spark.tuned(max(sources.rows, 1)):
        scans = Scans(session, sources, inputs, hints=False)
        kept = definition.kept
        rows = scans.run(kept.full) if kept is not None else tx.world.sql(definition.query)
        if compare:
            rows = replace_all(reader(session, stored, hidden), rows, visible, rewrite=True)
        elif hidden and isinstance(kept, (Combine, Replace)):
            rows = add_all(rows, (*visible, *hidden), hashed=False)
        else:
            rows = add_all(rows, visible, hashed=bool(hidden))
        files = 1 if sources.rows <= ONE_TASK_ROWS else None
        written = write(rows, tx.stage.directory(name), (*visible, *hidden), files)
    return tx.stage.commit_rows(
        name, written, rewrite=compare, replace_all=not compare, hidden=hidden, summary=summary
    )


def hidden_of(stream: StreamTable, definition: Definition) -> Columns:
    """A table that is always recomputed needs no state."""
    return () if stream.refresh_mode is RefreshMode.FULL else definition.hidden


def incremental_job(
    runtime: Runtime,
    tx: Transaction,
    stream: StreamTable,
    definition: Definition,
    sources: Sources,
    summary: Mapping[str, str],
) -> TableVersion:
    """Only what the changes of the sources touch."""
    session, name = runtime.spark.session, stream.name
    stored = tx.world.version(name)
    rewrite = (
        small(runtime, stored) and sources.delta_rows <= 10 * runtime.settings.small_table_rows
    )
    rescans = rescan_needed(definition, sources)
    size = sources.delta_rows + (stored.rows if rewrite else 0)
    with (
        Inputs(session) as inputs,
        runtime.spark.tuned(size, adaptive=True if rescans else None),
    ):
        few = sources.delta_rows <= BROADCAST_ROWS
        scans = Scans(session, sources, inputs, hints=few)
        job = Job(scans, definition, stored, rewrite, few)
        rows = job.rows()
        if rows is None:
            return stored
        columns = (*stored.columns, *definition.hidden)
        # What is written comes out of a shuffle, so writing it in one task holds nothing up.
        files = 1 if size <= ROWS_PER_FILE else None
        written = write(rows, tx.stage.directory(name), columns, files)
    return tx.stage.commit_rows(
        name, written, rewrite=job.rewrite, hidden=definition.hidden, summary=summary
    )


def small(runtime: Runtime, stored: TableVersion) -> bool:
    layout = Layout(stored.rows, stored.marked, len(stored.reading().skip))
    return rewrites(layout, runtime.settings.small_table_rows)


def rescan_needed(definition: Definition, sources: Sources) -> bool:
    kept = definition.kept
    extrema = isinstance(kept, Combine) and any(state.deleted for state in kept.state)
    return extrema and not sources.insert_only


def reader(session: SparkSession, stored: TableVersion, hidden: Columns) -> Stored:
    return stored_rows(session, stored.reading(), (*stored.columns, *hidden))


@dataclass
class Job:
    """An incremental refresh as a frame of rows to add, remove and keep."""

    scans: Scans
    definition: Definition
    stored: TableVersion
    rewrite: bool
    broadcast: bool

    def rows(self) -> DataFrame | None:
        """None when the changes cannot reach the table."""
        kept = self.definition.kept
        if isinstance(kept, ByRows):
            return self.by_rows(kept)
        if isinstance(kept, Combine):
            return self.combined(kept)
        assert isinstance(kept, Replace)
        return self.recomputed(kept)

    @property
    def changed(self) -> frozenset[TableName]:
        return frozenset(self.scans.sources.deltas)

    @property
    def read(self) -> Stored:
        return reader(self.scans.session, self.stored, self.definition.hidden)

    def by_rows(self, kept: ByRows) -> DataFrame | None:
        node = kept.delta(self.changed)
        if node is None:
            return None
        insert_only = kept.monotone and self.scans.sources.insert_only
        rows = self.scans.run(node)
        if insert_only:
            self.rewrite = False  # the delta is the new file
            if self.broadcast and any(isinstance(part, Join) for part in walk(node)):
                rows = rows.repartition(1)  # the scan of the join's other side stays parallel
        return apply_rows(
            self.read,
            rows,
            self.stored.columns,
            rewrite=self.rewrite,
            insert_only=insert_only,
            broadcast=self.broadcast,
        )

    def combined(self, kept: Combine) -> DataFrame | None:
        node = kept.change(self.changed)
        if node is None:
            return None
        keys = tuple(key.name for key in kept.keys)
        groups = Groups(
            keys=keys,
            state=tuple(State(s.name, s.type, s.combine, s.deleted) for s in kept.state),
            outputs=tuple((item.name, str(item.expr)) for item in kept.outputs),
        )
        rescan: Callable[[DataFrame], DataFrame] | None = None
        if rescan_needed(self.definition, self.scans.sources):
            given = Given("keys", keys or ("_ab_any",))
            limits = spans(node, self.scans.sources)
            rescan = lambda found: self.scans.run(kept.rescan(given), found, limits)  # noqa: E731
        return combine_groups(
            self.read,
            self.scans.run(node),
            (*self.stored.columns, *self.definition.hidden),
            groups,
            rewrite=self.rewrite,
            rescan=rescan,
            broadcast=self.broadcast,
        )

    def recomputed(self, kept: Replace) -> DataFrame | None:
        node = kept.touched(self.changed)
        if node is None:
            return None
        keys = tuple(key.name for key in kept.keys)
        given = Given("keys", keys) if keys else None
        limits = spans(node, self.scans.sources)
        return replace_groups(
            self.read,
            self.scans.run(node),
            lambda touched: self.scans.run(kept.recompute(given), touched, limits),
            (*self.stored.columns, *self.definition.hidden),
            keys,
            rewrite=self.rewrite,
            broadcast=self.broadcast,
        )
