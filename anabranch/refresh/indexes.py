"""Indexes as maintained tables: the rows of a table, in files that are ranges of its columns.

An index is kept by rows, as a stream table `SELECT * FROM table` is, and by the same steps:

    observe   the table as it is staged against the version of it that the index notes
    decide    nothing to do, from changes, or sorted again
    execute   into the stage of the table, so that one publish shows both
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from anabranch.catalog import events
from anabranch.catalog.bounds import bounds_of
from anabranch.catalog.history import COMPLETED, Refresh, began
from anabranch.catalog.indexes import Index
from anabranch.clusters import cluster_there, on_cluster
from anabranch.cut_view import CutView
from anabranch.delta.maintenance import ByRows
from anabranch.errors import FileMissing
from anabranch.lake.indexes import (
    SNAPSHOT,
    SORTED_BY,
    UUID,
    check_columns,
    is_current,
    noted,
    readable,
    shape,
)
from anabranch.lake.version import TableVersion
from anabranch.model import FixpointBounds, RefreshMode, TableKind
from anabranch.names import TableName, quote, shown
from anabranch.plan.nodes import Scan
from anabranch.refresh.component import fell_back
from anabranch.refresh.decide import Code, Decision, Reason, decide, lost, rebuilding
from anabranch.refresh.definition import Definition
from anabranch.refresh.execute.run import execute
from anabranch.refresh.execute.table import TableWork
from anabranch.refresh.inputs import changes, observed, only_now
from anabranch.refresh.members import tampered
from anabranch.refresh.rebuild import all_rows, make_room
from anabranch.refresh.sources import Sources
from anabranch.runtime import Runtime, Transaction
from anabranch.spark.identity import hidden_hashes


@dataclass(frozen=True)
class IndexTable:
    """An index, and why its stored rows do not follow its table."""

    index: Index
    definition: Definition
    populated: bool
    redefined: Reason | None = None
    tampered: Reason | None = None
    kind: ClassVar[TableKind] = TableKind.INDEX
    mode: ClassVar[RefreshMode] = RefreshMode.AUTO

    @property
    def name(self) -> TableName:
        return self.index.copy

    @property
    def order(self) -> tuple[str, ...]:
        return self.index.columns

    def bounds(self, settings: Mapping[str, Any]) -> FixpointBounds:
        return bounds_of((), settings)


@dataclass(frozen=True)
class Observed:
    """An index, and what changed in its table since the version that the index notes.

    `lost`: why nothing of what was stored can be read.
    """

    member: IndexTable
    sources: Sources
    lost: Reason | None = None

    def decide(self) -> Decision:
        if self.lost is not None:
            return rebuilding(self.lost)
        return decide(observed({self.member.name: self.member}, self.sources))


def keep_index(runtime: Runtime, tx: Transaction, index: Index) -> None:
    """Stage an index as it must be for its table as it is staged."""
    start, stage = time.perf_counter(), tx.stage
    check_columns(index, stage.version(index.table).columns)
    if is_current(stage, index):
        return
    found = observe_index(tx.world, index, there=stage.exists(index.copy))
    make_room(tx, index.copy, found.member.definition.columns)
    before = stage.version(index.copy)
    cluster = cluster_there(runtime, index.cluster)
    with on_cluster(runtime, tx, index.copy, cluster) as (where, here):
        work = TableWork(where, here, found.member, found.sources, ())
        decision = execute(work, found.decide())
    stage.set_properties(index.copy, noted(stage.version(index.table), index))
    if decision.strategy is not None:
        tx.kept[index.copy] = _line(decision, found, before, stage.version(index.copy), start)
    if event := fell_back(index.copy, decision):
        tx.later(lambda c, cut_id: events.add(c, [event]))


def observe_index(world: CutView, index: Index, *, there: bool) -> Observed:
    """What is stored of an index against its table as it is; `there`: whether anything is."""
    table, definition = world.version(index.table), _definition(index, world.version(index.table))
    now = only_now(world, [index.table]).sources
    try:
        copy = readable(world.version(index.copy)) if there else None
    except FileMissing as error:
        return Observed(IndexTable(index, definition, True), now, lost(error))
    since = None if copy is None else copy.properties.get(SNAPSHOT)
    if copy is None or since is None:
        return Observed(IndexTable(index, definition, False), now)
    why = _redefined(copy, table, index)
    member = IndexTable(index, definition, True, why, tampered(copy, definition.hidden, None))
    if why is not None:
        return Observed(member, now)
    base = int(since) if since else None
    return Observed(member, changes({table.name: table}, {table.name: base}))


def _definition(index: Index, table: TableVersion) -> Definition:
    columns = tuple(
        replace(column, field_id=0, nested={}, ambiguous=False) for column in table.columns
    )
    rows = Scan(index.table, tuple(column.name for column in columns))
    hidden = hidden_hashes(columns)
    return Definition(
        query=f"SELECT * FROM {'.'.join(map(quote, index.table.parts))}",
        columns=columns,
        sources=frozenset({index.table}),
        views=frozenset(),
        plan=rows,
        obstacles=(),
        kept=ByRows(rows, "an index has the rows of its table", hidden),
        hidden=hidden,
        fingerprint=f"sorted by {', '.join(map(shown, index.columns))}",
    )


def _redefined(copy: TableVersion, table: TableVersion, index: Index) -> Reason | None:
    wanted = noted(table, index)
    if copy.properties.get(UUID) != wanted[UUID]:
        return Reason(Code.REDEFINED, f"{table.name} is another table than before")
    if copy.properties.get(SORTED_BY) != wanted[SORTED_BY]:
        return Reason(Code.REDEFINED, "it was sorted by other columns")
    if shape(copy.columns) != shape(table.columns):
        return Reason(Code.REDEFINED, f"the columns of {table.name} changed")
    return None


def _line(
    decision: Decision, found: Observed, before: TableVersion, after: TableVersion, start: float
) -> Refresh:
    """What history says of it."""
    inserted, deleted = all_rows(before, after)
    duration = round((time.perf_counter() - start) * 1000)
    return Refresh(
        table=found.member.name,
        action=decision.action,
        status=COMPLETED,
        reason=decision.reason.text,
        reason_code=decision.reason.code.value,
        rows_inserted=inserted,
        rows_deleted=deleted,
        delta_rows=found.sources.delta_rows,
        duration_ms=duration,
        started_at=began(duration),
        source_rows=found.sources.rows,
    )
