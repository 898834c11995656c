"""The Spark jobs of a table alone: one write into the stage, whichever way was decided."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from anabranch.delta.closure import as_written, root_recursion
from anabranch.delta.maintenance import ByRows, Combine, Replace
from anabranch.lake.footers import counts
from anabranch.lake.version import TableVersion
from anabranch.model import ColumnRanges, Columns, RefreshMode, Written
from anabranch.names import TableName, quote
from anabranch.plan.nodes import Join, Node, Parameter
from anabranch.plan.walk import walk
from anabranch.refresh.decide import Decision, Layout, rewrites
from anabranch.refresh.definition import Definition
from anabranch.refresh.execute.run import judge
from anabranch.refresh.execute.scans import Scans
from anabranch.refresh.inputs import from_stored
from anabranch.refresh.maintained import MaintainedTable, hidden_of
from anabranch.refresh.sources import BROADCAST_ROWS, Sources
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
from anabranch.spark.sorting import in_ranges
from anabranch.spark.write import evaluate, write
from anabranch.sql.lower.recursion import is_beyond_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_FILE = 1_000_000
ROWS_PER_RANGE = 250_000  # of a table whose rows lie in order
ONE_TASK_ROWS = 200_000  # up to here a single task recomputes a table fastest


@dataclass
class TableWork:
    """A table alone: its jobs write into the stage."""

    written: ClassVar[str] = "the query as it was written, because our plan of it failed"
    runtime: Runtime
    tx: Transaction
    table: MaintainedTable
    sources: Sources
    cuts: tuple[int, ...]  # where the table will stand

    @property
    def name(self) -> TableName:
        return self.table.name

    @property
    def strict(self) -> bool:
        return self.table.mode is RefreshMode.DIFFERENTIAL

    @property
    def is_planned(self) -> bool:
        return self.table.definition.kept is not None

    @property
    def is_beyond_spark(self) -> bool:
        return is_beyond_spark(self.table.definition.query)

    def from_changes(self, decision: Decision) -> None:
        self._incremental(self.sources, decision)

    def carefully(self, decision: Decision) -> bool:
        if self.sources.insert_only:
            return False
        self._incremental(by_states(self.sources), decision)
        return True

    def in_full(self, decision: Decision) -> None:
        self._full(self.table.definition, decision)

    def as_written(self, decision: Decision) -> None:
        definition = self.table.definition
        hidden = (
            definition.hidden if isinstance(definition.kept, ByRows) else ()
        )  # others take a plan
        self._full(replace(definition, kept=None, hidden=hidden), decision)

    def judged(self, error: Exception, *, of_changes: bool) -> Exception:
        # What Spark cannot read as it was written is computed from nothing by our plan of it.
        trial = (
            self.run_query if not self.is_beyond_spark else self.run_plan if of_changes else None
        )
        return judge(self.name, error, trial)

    def run_query(self) -> None:
        """The query as it was written, with nobody looking at its rows."""
        bounds = self.table.bounds(self.runtime.settings)
        with self.runtime.spark.tuned(max(self.sources.rows, 1), levels=bounds.rounds):
            rows = self.tx.world.sql(self.table.definition.query)
            evaluate(rows, self.tx.world.version(self.name).columns)

    def run_plan(self) -> None:
        session, kept = self.runtime.spark.session, self.table.definition.kept
        assert kept is not None  # else nothing was planned
        try:
            with Inputs(session) as inputs, self.runtime.spark.tuned(max(self.sources.rows, 1)):
                bounds = self.table.bounds(self.runtime.settings)
                scans = Scans(
                    session, self.sources, inputs, self.name, bounds, hints=False, afresh=True
                )
                evaluate(scans.run(kept.full), self.tx.world.version(self.name).columns)
        except Exception as error:
            raise judge(self.name, error, None) from error

    def _incremental(self, sources: Sources, decision: Decision) -> None:
        table, definition = self.table, self.table.definition
        told = summary(definition, sources, decision, self.cuts)
        incremental_job(self.runtime, self.tx, table, definition, sources, told)

    def _full(self, definition: Definition, decision: Decision) -> None:
        told = summary(definition, self.sources, decision, self.cuts)
        table, compare = self.table, not decision.afresh
        full_job(self.runtime, self.tx, table, definition, self.sources, told, compare=compare)


def summary(
    definition: Definition, sources: Sources, decision: Decision, stands_at: tuple[int, ...]
) -> dict[str, str]:
    """What the snapshot says of itself."""
    snapshots = {str(name): version.snapshot_id for name, version in sources.versions.items()}
    return {
        "anabranch.cut": ",".join(map(str, stands_at)),
        "anabranch.fingerprint": definition.fingerprint,
        "anabranch.tables": json.dumps(snapshots, sort_keys=True),
        "anabranch.mode": decision.action.value,
        **({"anabranch.moment": str(definition.moment)} if definition.moment else {}),
    }


def by_states(sources: Sources) -> Sources:
    """The same changes without the rows that came and went."""
    found = {
        name: sources.versions[name].delta(sources.before[name], by_states=True)
        for name in sources.deltas
    }
    return replace(
        sources, deltas={name: delta for name, delta in found.items() if not delta.empty}
    )


def full_job(
    runtime: Runtime,
    tx: Transaction,
    table: MaintainedTable,
    definition: Definition,
    sources: Sources,
    summary: Mapping[str, str],
    *,
    compare: bool = True,
) -> TableVersion:
    """All rows from scratch.  A small table that was filled before gets only the difference, unless
    the stored rows are not to be looked at (`compare`), or are to lie in order."""
    session, name = runtime.spark.session, table.name
    stored = tx.world.version(name)
    visible, hidden = stored.columns, hidden_of(table.mode, definition)
    compare = compare and not hidden and not table.order and small(runtime, stored)
    bounds = table.bounds(runtime.settings)
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
        if table.order:  # each task has a range
            rows = in_ranges(rows, table.order, max(1, -(-sources.rows // ROWS_PER_RANGE)))
            files = None
        written = write(rows, tx.stage.directory(name), (*visible, *hidden), files)
    return tx.stage.commit_rows(
        name, written, rewrite=compare, replace_all=not compare, hidden=hidden, summary=summary
    )


def incremental_job(
    runtime: Runtime,
    tx: Transaction,
    table: MaintainedTable,
    definition: Definition,
    sources: Sources,
    summary: Mapping[str, str],
) -> TableVersion:
    """Only what the changes of the sources touch.  A table whose rows lie in order is never rewritten
    on the way: that is a matter of `full_job`."""
    session, name = runtime.spark.session, table.name
    stored = tx.world.version(name)
    few_changes = sources.delta_rows <= 10 * runtime.settings.small_table_rows
    rewrite = not table.order and few_changes and small(runtime, stored)
    rescans = rescan_needed(definition, sources)
    size = sources.delta_rows + (stored.rows if rewrite else 0)
    bounds = table.bounds(runtime.settings)
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
            written = write(job.all_rows(), tx.stage.directory(name), columns, files)
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

    def all_rows(self) -> DataFrame:
        """The rows recomputed, against those stored."""
        kept = self.definition.kept
        assert isinstance(kept, Replace)
        rows = self.scans.run(kept.recompute(None))
        return replace_all(self.visible_rows, rows, self.stored.columns, rewrite=self.rewrite)

    @property
    def visible_rows(self) -> Stored:
        return reader(self.scans.session, self.stored, ())
