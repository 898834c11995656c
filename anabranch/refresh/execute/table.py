"""The Spark job of a refresh: one write into the stage, whichever way was chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.catalog.bounds import bounds_of
from anabranch.catalog.streams import StreamTable
from anabranch.delta.closure import as_written, root_recursion
from anabranch.delta.maintenance import ByRows, Combine, Replace
from anabranch.lake.footers import counts
from anabranch.lake.version import TableVersion
from anabranch.model import Action, ColumnRanges, Columns, RefreshMode, Written
from anabranch.names import TableName, quote
from anabranch.plan.nodes import Join, Node, Parameter
from anabranch.plan.walk import walk
from anabranch.refresh.decide import Layout, rewrites
from anabranch.refresh.definition import Definition
from anabranch.refresh.execute.scans import Scans
from anabranch.refresh.sources import BROADCAST_ROWS, Sources
from anabranch.refresh.work import from_stored
from anabranch.runtime import Runtime, Transaction
from anabranch.spark.groups import Groups, State, combine_groups, replace_groups
from anabranch.spark.merge import (
    Stored,
    add_all,
    apply_rows,
    replace_all,
    stored_rows,
)
from anabranch.spark.query import Inputs
from anabranch.spark.write import write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_FILE = 1_000_000
ONE_TASK_ROWS = 200_000  # up to here a single task recomputes a table fastest


def full_job(
    runtime: Runtime,
    tx: Transaction,
    stream: StreamTable,
    definition: Definition,
    sources: Sources,
    summary: Mapping[str, str],
    *,
    compare: bool = True,
) -> TableVersion:
    """All rows from scratch.  A small table that was filled before gets only the difference, unless
    the stored rows are not to be looked at (`compare`)."""
    session, name = runtime.spark.session, stream.name
    stored = tx.world.version(name)
    visible, hidden = stored.columns, hidden_of(stream, definition)
    compare = (
        compare
        and summary["anabranch.mode"] == Action.FULL.value
        and stream.populated
        and not hidden
        and small(runtime, stored)
    )
    bounds = bounds_of([stream], runtime.settings)
    tuned = runtime.spark.tuned(max(sources.rows, 1), levels=bounds.rounds)
    with Inputs(session) as inputs, tuned:
        scans = Scans(session, sources, inputs, name, bounds, hints=False, afresh=True)
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
    bounds = bounds_of([stream], runtime.settings)
    adaptive = True if rescans else None
    with (
        Inputs(session) as inputs,
        runtime.spark.tuned(size, adaptive=adaptive, levels=bounds.rounds),
    ):
        few = sources.delta_rows <= BROADCAST_ROWS
        scans = Scans(session, sources, inputs, name, bounds, hints=few)
        job = Job(scans, definition, stored, rewrite, few)
        rows = job.rows()
        if rows is None:
            return stored
        columns = (*stored.columns, *definition.hidden)
        # What is written comes out of a shuffle, so writing it in one task holds nothing up.
        files = 1 if size <= ROWS_PER_FILE else None
        written = write(rows, tx.stage.directory(name), columns, files)
        if job.lacks_rows(written):
            written = write(job.anew(), tx.stage.directory(name), columns, files)
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


def reader(
    session: SparkSession,
    stored: TableVersion,
    hidden: Columns,
    within: Sequence[ColumnRanges] = (),
) -> Stored:
    reading = stored.reading(within=within)
    return stored_rows(session, reading, (*stored.columns, *hidden))


@dataclass
class Job:
    """An incremental refresh as a frame of rows to add, remove and keep."""

    scans: Scans
    definition: Definition
    stored: TableVersion
    rewrite: bool
    broadcast: bool
    wanted_rows: int = 0  # fewer of them mean that others must be looked for

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

    def read(self, node: Node) -> Stored:
        """The stored rows; unless all of them are written anew, without files in which no row can
        be that the change reaches."""
        box: ColumnRanges = ()
        if not self.rewrite:
            limits = self.scans.sources.ranges(node)
            box = tuple((n, s) for n, s in limits.items() if self.stored.kind(n) == s.kind)
        return reader(
            self.scans.session, self.stored, self.definition.hidden, (box,) if box else ()
        )

    def by_rows(self, kept: ByRows) -> DataFrame | None:
        node = kept.delta(self.changed)
        if node is None:
            return None
        insert_only = kept.monotone and self.scans.sources.insert_only
        self.tell_recursion(kept)
        rows = self.scans.run(node)
        if insert_only:
            self.rewrite = False  # the delta is the new file
            if self.broadcast and any(isinstance(part, Join) for part in walk(node)):
                rows = rows.repartition(1)  # the scan of the join's other side stays parallel
        return apply_rows(
            self.read(node),
            rows,
            self.stored.columns,
            rewrite=self.rewrite,
            insert_only=insert_only,
            broadcast=self.broadcast,
        )

    def tell_recursion(self, kept: ByRows) -> None:
        """Where the stored rows are those of a recursion, it need not be computed as it was."""
        found = root_recursion(kept.full)
        if found is None:
            return
        recursion, names = found
        columns = self.stored.columns
        stored = self.visible_rows([each.name for each in columns])
        shown = {inner: name for name, inner in names.items()}
        items = [f"{quote(shown[each])} AS {quote(each)}" for each in recursion.columns]
        self.scans.recursions.stored[as_written(recursion)] = stored.selectExpr(*items)

    def combined(self, kept: Combine) -> DataFrame | None:
        node = kept.change(self.changed)
        if node is None:
            return None
        keys = tuple(key.name for key in kept.keys)
        groups = Groups(
            keys=keys,
            state=tuple(State(s.name, s.type, s.combine, s.deleted) for s in kept.state),
            outputs=tuple((item.name, item.expr.text) for item in kept.outputs),
        )
        rescan: Callable[[DataFrame], DataFrame] | None = None
        if rescan_needed(self.definition, self.scans.sources):
            given = Parameter("keys", keys or ("_ab_any",))
            limits = self.scans.sources.ranges(node)
            rescan = lambda found: self.scans.run(kept.rescan(given), found, limits)  # noqa: E731
        return combine_groups(
            self.read(node),
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
        first = self.first_rows(kept)
        if first is not None:
            return first
        keys = tuple(key.name for key in kept.keys)
        given = Parameter("keys", keys) if keys else None
        limits = self.scans.sources.ranges(node)
        return replace_groups(
            self.read(node),
            self.scans.run(node),
            lambda touched: self.scans.run(kept.recompute(given), touched, limits),
            (*self.stored.columns, *self.definition.hidden),
            keys,
            rewrite=self.rewrite,
            broadcast=self.broadcast,
        )

    def first_rows(self, kept: Replace) -> DataFrame | None:
        """The first rows from those stored; `lacks_rows` tells afterwards whether that was enough."""
        columns, count = self.stored.columns, self.stored.rows
        node = from_stored(kept, columns, self.scans.sources, count)
        if node is None or kept.first is None:
            return None
        self.wanted_rows = count if count == kept.first.limit else 0
        stored, names = self.visible_rows, [quote(each.name) for each in columns]
        return replace_all(
            stored,
            self.scans.run(node, stored([each.name for each in columns]).select(*names)),
            columns,
            rewrite=self.rewrite,
        )

    def lacks_rows(self, written: Written) -> bool:
        """Whether fewer of the first rows are left than are wanted: there may be others."""
        if not self.wanted_rows:
            return False
        io = self.stored.io
        added, removed, kept = (
            sum(rows for rows, _, _ in counts(io, paths).values())
            for paths in (written.add, written.remove, written.keep)
        )
        before = kept if self.rewrite else self.stored.rows - removed
        return before + added < self.wanted_rows

    def anew(self) -> DataFrame:
        """The rows recomputed, against those stored."""
        kept = self.definition.kept
        assert isinstance(kept, Replace)
        rows = self.scans.run(kept.recompute(None))
        return replace_all(self.visible_rows, rows, self.stored.columns, rewrite=self.rewrite)

    @property
    def visible_rows(self) -> Stored:
        return reader(self.scans.session, self.stored, ())
