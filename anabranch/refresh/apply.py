"""One refresh of one stream table: look at the sources, choose the way, run it into the stage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from anabranch.catalog.history import COMPLETED, Refresh
from anabranch.catalog.streams import Input, StreamTable
from anabranch.errors import BaseExpired, DataError, SchemaError, UnknownName, UserError
from anabranch.lake.changes import net_rows
from anabranch.lake.version import TableVersion
from anabranch.model import Action, Columns, Delta, RefreshMode
from anabranch.names import TableName
from anabranch.refresh.choose import Choice, Situation, choose
from anabranch.refresh.definition import Definition, check_columns, define
from anabranch.refresh.jobs import Sources, full_job, hidden_of, incremental_job
from anabranch.refresh.look import Look, view_mark
from anabranch.runtime import Runtime, Transaction


@dataclass(frozen=True)
class Outcome:
    """What a refresh did and what the table now stands on."""

    table: TableName
    choice: Choice
    fingerprint: str
    reads: tuple[TableName, ...]
    inputs: Mapping[TableName, Input]
    frontier: Mapping[TableName, int | None]
    rows_inserted: int = 0
    rows_deleted: int = 0
    delta_rows: int = 0
    duration_ms: int = 0
    changed: bool = False

    @property
    def action(self) -> Action:
        return self.choice.action

    def line(self, cut_id: int | None, initiated_by: str) -> Refresh:
        """The line of history."""
        return Refresh(
            table=self.table,
            action=self.action,
            status=COMPLETED,
            cut_id=cut_id,
            reason=self.choice.reason,
            rows_inserted=self.rows_inserted,
            rows_deleted=self.rows_deleted,
            delta_rows=self.delta_rows,
            duration_ms=self.duration_ms,
            initiated_by=initiated_by,
        )


def refresh_table(
    runtime: Runtime,
    tx: Transaction,
    seen: Look,
    stream: StreamTable,
    done: Mapping[TableName, Outcome],
) -> Outcome:
    """Stage one stream table; upstreams that were refreshed before it are read as staged."""
    definition = redefine(tx, stream)
    sources = gather(tx, seen, stream, definition)
    own = seen.inputs.get(stream.name, {}).get(stream.name)
    choice = choose(situation(runtime, tx, stream, definition, sources, own))
    reads = tuple(sorted(definition.sources | definition.views))
    outcome = Outcome(
        table=stream.name,
        choice=choice,
        fingerprint=definition.fingerprint,
        reads=reads,
        inputs=inputs_now(tx, stream.name, definition, sources),
        frontier=frontier_now(seen, done, sources),
        delta_rows=sources.delta_rows,
    )
    before = tx.world.version(stream.name)
    after, choice = run(runtime, tx, stream, definition, sources, choice)
    outcome = replace(outcome, choice=choice)
    if after.snapshot_id == before.snapshot_id:
        # Only our rows move: they must not overtake somebody who moved the table.
        tx.stage.expect(stream.name, seen.pointers.get(stream.name))
        return replace(outcome, choice=without_effect(choice, sources))
    inserted, deleted = net_rows(before, after)
    own = Input(after.location, after.snapshot_id)
    return replace(
        outcome,
        rows_inserted=inserted,
        rows_deleted=deleted,
        inputs={**outcome.inputs, stream.name: own},
        changed=True,
    )


def run(
    runtime: Runtime,
    tx: Transaction,
    stream: StreamTable,
    definition: Definition,
    sources: Sources,
    choice: Choice,
) -> tuple[TableVersion, Choice]:
    """The table after the chosen job, and the choice that held in the end.

    Rows that came and went since the last refresh, and pairs of old and new rows that a join delta
    meets on its way, were never in the result.  If one of them breaks the query, AUTO recomputes.
    Where rows only came, everything that is looked at is in the result, and the error is real.
    """
    if choice.action is Action.NO_DATA:
        return tx.world.version(stream.name), choice
    if choice.action is Action.DIFFERENTIAL:
        told = summary(definition, sources, choice)
        try:
            return incremental_job(runtime, tx, stream, definition, sources, told), choice
        except DataError as error:
            if stream.refresh_mode is not RefreshMode.AUTO or sources.insert_only:
                raise
            choice = Choice(Action.FULL, f"the changes cannot be computed: {error.message}")
    told = summary(definition, sources, choice)
    return full_job(runtime, tx, stream, definition, sources, told), choice


def without_effect(choice: Choice, sources: Sources) -> Choice:
    """The sources changed, the table did not."""
    if choice.action is not Action.DIFFERENTIAL:
        return choice
    reason = f"{sources.delta_rows} changed rows in the sources leave the table as it is"
    return Choice(Action.NO_DATA, reason)


def redefine(tx: Transaction, stream: StreamTable) -> Definition:
    """The definition over the sources as they are now, for the columns that the table has."""
    definition = understood(tx, stream)
    if not tx.stage.exists(stream.name):  # dropped by another program
        tx.stage.create(stream.name, definition.columns)
    check_columns(stream.name, tx.world.version(stream.name).columns, definition.columns)
    return definition


def understood(tx: Transaction, stream: StreamTable) -> Definition:
    """The definition over the sources as they are now; a source may no longer fit."""
    try:
        return define(tx.world, stream.query)
    except (UnknownName, UserError) as error:
        raise SchemaError(
            f"{stream.name}: its query no longer fits its sources: {error.message}",
            hint=error.hint or f"ALTER STREAM TABLE {stream.name} AS … gives it another query",
        ) from error


def gather(tx: Transaction, seen: Look, stream: StreamTable, definition: Definition) -> Sources:
    known = seen.inputs.get(stream.name, {})
    versions = {name: tx.world.version(name) for name in definition.sources}
    before = {name: known[name].snapshot_id for name in versions if name in known}
    deltas: dict[TableName, Delta] = {}
    expired = None
    for name, version in sorted(versions.items()):
        if name not in before or version.snapshot_id == before[name]:
            continue
        try:
            delta = version.delta(before[name])
        except BaseExpired:
            expired = str(name)
            continue
        if not delta.empty:
            deltas[name] = delta
    return Sources(versions, before, deltas, expired)


def situation(
    runtime: Runtime,
    tx: Transaction,
    stream: StreamTable,
    definition: Definition,
    sources: Sources,
    own: Input | None,
) -> Situation:
    return Situation(
        table=str(stream.name),
        mode=stream.refresh_mode,
        populated=stream.populated,
        redefined=stream.fingerprint != definition.fingerprint
        or set(sources.before) != set(sources.versions),
        tampered=tampered(tx.world.version(stream.name), hidden_of(stream, definition), own),
        obstacles=tuple(dict.fromkeys(obstacle.code for obstacle in definition.obstacles)),
        expired=sources.expired,
        always=bool(stream.options.get("always")),
        delta_rows=sources.delta_rows,
        changed=bool(sources.deltas),
        source_rows=sources.rows,
        threshold=runtime.settings.full_refresh_threshold,
    )


def tampered(stored: TableVersion, hidden: Columns, own: Input | None) -> str | None:
    """Whether somebody else wrote to the stream table since our last refresh."""
    if not stored.ours or not same_rows(stored, own):
        return "another program wrote to the table"
    if hidden and not stored.hidden_complete:
        return "files of another program lack the hidden columns"
    if stored.snapshot_id is not None and not {*stored.hidden} >= {*hidden}:
        return "the stored rows lack the hidden columns"
    return None


def same_rows(stored: TableVersion, own: Input | None) -> bool:
    """Whether nothing but upkeep happened since; a rollback shows an older snapshot of ours."""
    if own is None or own.snapshot_id == stored.snapshot_id:
        return True
    try:
        return stored.delta(own.snapshot_id).empty
    except BaseExpired:
        return False


def inputs_now(
    tx: Transaction, name: TableName, definition: Definition, sources: Sources
) -> dict[TableName, Input]:
    """What was read; the table itself is listed too, so that other writers are noticed."""
    tables = {**sources.versions, name: tx.world.version(name)}
    read = {
        source: Input(version.location, version.snapshot_id) for source, version in tables.items()
    }
    views = {view: Input(view_mark(tx.world.views[view]), None) for view in definition.views}
    return {**read, **views}


def frontier_now(
    seen: Look, done: Mapping[TableName, Outcome], sources: Sources
) -> dict[TableName, int | None]:
    """Base sources stand for themselves, stream tables for what they stand on."""
    frontier: dict[TableName, int | None] = {}
    for name, version in sources.versions.items():
        if name in done:
            frontier |= done[name].frontier
        elif name in seen.streams:
            frontier |= seen.frontiers.get(name, {})
        else:
            frontier[name] = version.snapshot_id
    return frontier


def summary(definition: Definition, sources: Sources, choice: Choice) -> dict[str, str]:
    snapshots = {str(name): version.snapshot_id for name, version in sources.versions.items()}
    return {
        "anabranch.fingerprint": definition.fingerprint,
        "anabranch.sources": json.dumps(snapshots, sort_keys=True),
        "anabranch.mode": choice.action.value,
    }
