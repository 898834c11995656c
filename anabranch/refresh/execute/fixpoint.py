"""A cycle of tables, refreshed to its least fixed point: rounds by our plans, or by the queries.

What the rounds found becomes one change of each member's table.  Rows that only came are in files
already: those are the change.  Otherwise the difference between the stored rows and the new ones is
worked out once, so that whoever reads the table reads that and no more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from anabranch import failpoints
from anabranch.catalog import events
from anabranch.catalog.bounds import bounds_of, past
from anabranch.delta.fixpoint import Converged, Counts, NoFixedPoint, follow, from_empty
from anabranch.errors import NotConverged, NotIncremental, RowsLost
from anabranch.lake.commit import check_rows
from anabranch.lake.places import same_form
from anabranch.model import Columns, FixpointBounds, Reading, RefreshMode, Written
from anabranch.names import TableName
from anabranch.plan.monotone import not_monotone
from anabranch.plan.nodes import Scan, Version
from anabranch.refresh.decide import TOO_MANY, Decision, settled
from anabranch.refresh.execute.backend import Batch, Rows, SparkBackend, paths
from anabranch.refresh.execute.queries import AsWritten
from anabranch.refresh.execute.run import judge
from anabranch.refresh.execute.scans import Scans
from anabranch.refresh.execute.table import ROWS_PER_FILE, reader, small, summary
from anabranch.refresh.members import Members
from anabranch.refresh.sources import Sources
from anabranch.runtime import Runtime, Transaction
from anabranch.spark.merge import apply_rows
from anabranch.spark.query import Inputs
from anabranch.spark.rounds import BROADCAST_ROWS, change, netted, present
from anabranch.spark.scan import frame
from anabranch.spark.write import write
from anabranch.sql.lower.recursion import is_beyond_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEW = 100  # rows that a cycle may lose without counting
MANY_FILES = 16  # then they are put together


@dataclass
class CycleWork:
    """`converged` is what the rounds came to, once they did."""

    written: ClassVar[str] = "the queries as they were written, because our plan of them failed"
    runtime: Runtime
    tx: Transaction
    members: Members
    sources: Sources
    cuts: tuple[int, ...]  # where the tables will stand
    converged: Converged | None = None

    def __post_init__(self) -> None:
        self.unstaged = {name: self.tx.stage.changes.get(name) for name in self.members}
        world, stage = self.tx.world, self.tx.stage
        self.rows = {
            name: Rows(world.version(name), each.definition.hidden, stage.directory(name))
            for name, each in self.members.items()
        }
        self.rules = [each.rule for each in self.members.values() if each.rule is not None]
        self.tried = False  # a way that was given up
        self.rounds_run = 0

    @property
    def name(self) -> TableName:
        modes = {name: each.stream.refresh_mode for name, each in self.members.items()}
        strict = (name for name, mode in modes.items() if mode is RefreshMode.DIFFERENTIAL)
        return next(strict, next(iter(self.members)))

    @property
    def strict(self) -> bool:
        modes = [each.stream.refresh_mode for each in self.members.values()]
        return RefreshMode.DIFFERENTIAL in modes

    @property
    def is_planned(self) -> bool:
        return len(self.rules) == len(self.members)

    @property
    def is_beyond_spark(self) -> bool:
        return any(is_beyond_spark(each.definition.query) for each in self.members.values())

    @cached_property
    def bounds(self) -> FixpointBounds:
        streams = [each.stream for each in self.members.values()]
        return bounds_of(streams, self.runtime.settings)

    @cached_property
    def started(self) -> float:
        """Whatever is tried one after the other shares the time of one refresh."""
        return time.monotonic()

    # -- the ways --------------------------------------------------------------------------------

    def from_changes(self, decision: Decision) -> None:
        self._settle(decision, lambda: self.follow(careful=False))

    def carefully(self, decision: Decision) -> bool:
        if self.only_gains:
            return False
        self._settle(decision, lambda: self.follow(careful=True))
        return True

    def in_full(self, decision: Decision) -> None:
        self._settle(decision, self.from_empty)

    def as_written(self, decision: Decision) -> None:
        self._settle(decision, self.by_queries)

    def judged(self, error: Exception, *, of_changes: bool) -> Exception:
        trial = None if self.is_beyond_spark else self.queries().run
        return judge(self.name, error, trial)

    def _settle(self, decision: Decision, rounds: Callable[[], Converged]) -> None:
        """Run rounds and stage what they found; what another way has left behind is put aside."""
        self.tx.stage.put_back(self.unstaged)
        _ = self.started
        try:
            self.converged = rounds()
        except NoFixedPoint as error:
            raise not_converged(error, list(self.members), self.bounds) from error
        self.stage(decision)

    # -- rounds ----------------------------------------------------------------------------------

    @property
    def only_gains(self) -> bool:
        """Whether no member can lose a row by what changed."""
        changed = frozenset(self.sources.deltas)
        return self.sources.insert_only and not any(
            list(not_monotone(rule.plan, changed)) for rule in self.rules
        )

    def follow(self, *, careful: bool) -> Converged:
        stored = sum(rows.version.rows for rows in self.rows.values())
        with self.backend() as backend:
            return follow(
                backend,
                self.rules,
                frozenset(self.sources.deltas),
                only_gains=self.only_gains,
                give_up=None if self.strict else max(FEW, TOO_MANY * stored),
                bounds=self.bounds,
                watch=self.watch,
                careful=careful,
                started=self.started,
            )

    def from_empty(self) -> Converged:
        with self.backend() as backend:
            return from_empty(backend, self.rules, self.bounds, self.watch, started=self.started)

    def by_queries(self) -> Converged:
        """By the queries as they were written."""
        if self.is_beyond_spark:
            raise NotIncremental(f"{self.name}: Spark cannot run its query as it was written")
        with self.backend() as backend:
            queries = self.queries()
            found = queries.settle()
            queries.keep(backend)
            return found

    def queries(self) -> AsWritten:
        return AsWritten(
            self.runtime,
            self.tx.world,
            {name: each.definition.query for name, each in self.members.items()},
            {name: each.columns for name, each in self.rows.items()},
            self.sources,
            self.bounds,
            self.watch,
            self.started,
        )

    @contextmanager
    def backend(self) -> Iterator[SparkBackend]:
        session, name = self.runtime.spark.session, next(iter(self.members))
        with Inputs(session) as inputs:
            views = SourceViews(Scans(session, self.sources, inputs, name, self.bounds, hints=True))
            rows = (self.sources.rows, self.sources.delta_rows)
            found = SparkBackend(self.runtime.spark, self.rows, views.view, inputs, *rows)
            if self.tried:
                found.restart()
            self.tried = True
            try:
                yield found
            except RowsLost as error:
                with self.runtime.store.writing() as c:
                    said_so = f"rows lost and refused: {error.message}"
                    events.record(c, name, events.ROWS_LOST, said_so)
                raise

    def watch(self, found: Counts) -> None:
        self.rounds_run += 1
        rows = {str(name): count for name, count in found.items()}
        self.runtime.progress("round", {"round": self.rounds_run, "rows": rows})
        failpoints.hit(f"{failpoints.ROUND}{self.rounds_run}")

    # -- what they found -------------------------------------------------------------------------

    def stage(self, decision: Decision) -> None:
        assert self.converged is not None
        decision = settled(decision, self.converged)
        for name, each in self.members.items():
            told = summary(each.definition, self.sources, decision, self.cuts)
            rows, afresh = self.rows[name], decision.afresh
            stage_rows(self.runtime, self.tx, name, rows, told, afresh=afresh)


@dataclass
class SourceViews:
    """Sources as temporary views; of a change only what it comes to in the columns that are read."""

    scans: Scans
    names: dict[tuple[TableName, tuple[str, ...]], str] = field(default_factory=dict)

    def view(self, scan: Scan) -> str:
        delta = self.scans.sources.deltas.get(scan.table)
        if scan.version is not Version.DELTA or delta is None or not delta.minus:
            return self.scans.view(scan)
        key = (scan.table, scan.names)
        if key not in self.names:
            whole = self.scans.read(scan.table, Version.DELTA, ())
            self.names[key] = self.scans.inputs.keep(netted(whole, scan.names), str(scan.table))
        return self.names[key]


def stage_rows(
    runtime: Runtime,
    tx: Transaction,
    name: TableName,
    rows: Rows,
    summary: Mapping[str, str],
    *,
    afresh: bool,
) -> None:
    """`afresh`: the table becomes what was found, whatever it was."""
    if afresh or (rows.base and not rows.lost):
        written = added(runtime, tx, rows)
        tx.stage.commit_rows(name, written, replace_all=afresh, hidden=rows.hidden, summary=summary)
        discard(tx, rows, [*rows.lost, *rows.waste])
        return
    rewrite = small(runtime, rows.version)
    size = sum(batch.rows for batch in rows.added)
    size += rows.lost_rows if rows.base else rows.version.rows
    size += rows.version.rows if rewrite else 0
    with runtime.spark.tuned(max(size, 1)) as session:
        delta = apply_rows(
            reader(session, rows.version, rows.hidden),
            _delta(runtime, rows),
            rows.columns,
            rewrite=rewrite,
            broadcast=size <= BROADCAST_ROWS,
        )
        files = 1 if size <= ROWS_PER_FILE else None
        written = write(delta, rows.directory, rows.physical, files)
    tx.stage.commit_rows(name, written, rewrite=rewrite, hidden=rows.hidden, summary=summary)
    discard(tx, rows, [*rows.added, *rows.lost, *rows.waste])


def _delta(runtime: Runtime, rows: Rows) -> DataFrame:
    session = runtime.spark.session
    plus = frame(session, Reading(paths(rows.added)), rows.columns) if rows.added else None
    reading = rows.version.reading()
    if not rows.base:
        return change(plus, frame(session, reading, rows.columns), rows.columns)
    lost = frame(session, Reading(paths(rows.lost)), rows.columns)
    few = rows.lost_rows <= BROADCAST_ROWS
    gone = present(session, reading, lost, rows.columns, rows.hidden, few=few)
    return change(plus, gone, rows.columns)


def added(runtime: Runtime, tx: Transaction, rows: Rows) -> Written:
    """The files of what was found; many small ones are written again as few."""
    files, count = paths(rows.added), sum(batch.rows for batch in rows.added)
    if len(files) <= MANY_FILES:
        return Written(add=files, rows=count)
    columns: Columns = rows.physical
    with runtime.spark.tuned(count) as session:
        whole = frame(session, Reading(files), columns)
        if count <= ROWS_PER_FILE:
            whole = whole.repartition(1)
        written = write(whole, rows.directory, columns)
    check_rows(rows.version.name, count, written.rows)
    discard(tx, rows, rows.added)
    return written


def discard(tx: Transaction, rows: Rows, batches: list[Batch]) -> None:
    """Every write has a folder of its own, which goes with all that Spark left in it."""
    warehouse = tx.stage.lake.warehouse
    folders = {same_form(path, rows.version.root).rpartition("/")[0] for path in paths(batches)}
    for folder in folders:
        for path in warehouse.listing(folder):
            warehouse.delete(path, own=True)
        warehouse.delete_empty_folders(folder)


def rounds_text(done: Converged) -> str:
    """Rows per round, for history."""
    sides = (("lost", done.over_deleted), ("added", done.derived))
    return json.dumps({side: [_named(each) for each in rounds] for side, rounds in sides if rounds})


def _named(counts: Counts) -> dict[str, int]:
    return {str(name): rows for name, rows in sorted(counts.items())}


def not_converged(
    error: NoFixedPoint, members: Sequence[TableName], bounds: FixpointBounds
) -> NotConverged:
    """How far it got, at which bound it stopped, and who was still changing."""
    verb = "lost" if error.down else "grew by"
    growing = ", ".join(
        f"{name} still {verb} {rows:,} row{'s' if rows > 1 else ''}"
        for name, rows in sorted(error.growing.items())
        if rows
    )
    total = sum(sum(each.values()) for each in error.rounds)
    joined = " and ".join(str(name) for name in members)
    setting = f"({error.bound.value} = …)"
    mend = f"bound the values that grow, keep rows once with UNION, or raise {error.bound.value}"
    cure = f"{mend}: ALTER STREAM TABLE {members[0]} SET {setting}"
    return NotConverged(
        f"{joined}: no fixed point after {len(error.rounds)} rounds, which "
        f"{'took away' if error.down else 'added'} {total:,} rows{past(error.bound, bounds)}: "
        f"{growing}",
        members=members,
        hint=f"{cure}; then ALTER STREAM TABLE … RESUME or refresh",
        cure=cure,
        cure_at_creation=f"{mend}: CREATE STREAM TABLE … WITH {setting}",
    )
