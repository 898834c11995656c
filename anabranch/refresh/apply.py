"""One refresh of one stream table: look at the sources, choose the way, run it into the stage."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from anabranch.catalog.events import FALLBACK, Event
from anabranch.catalog.history import COMPLETED, Refresh, began
from anabranch.catalog.streams import MIXED_CUTS, Input, StreamTable
from anabranch.delta.maintenance import ByRows
from anabranch.errors import FileMissing, PlanFailed
from anabranch.lake.changes import net_rows
from anabranch.lake.version import TableVersion
from anabranch.model import Action, Columns, RefreshMode
from anabranch.names import TableName
from anabranch.refresh.columns import exactly, fitted, same_columns
from anabranch.refresh.cost import Work
from anabranch.refresh.cost_history import event_of
from anabranch.refresh.decide import ASKED, Decision, DecisionInputs, decide
from anabranch.refresh.definition import Definition, check_mode, understood
from anabranch.refresh.execute.as_written import Trial, of_all_rows
from anabranch.refresh.execute.table import full_job, incremental_job
from anabranch.refresh.inputs import decision_inputs, gather, remember
from anabranch.refresh.observe import CatalogState
from anabranch.refresh.rebuild import (
    LOST,
    all_rows,
    inputs_of,
    make_room,
    not_from_changes,
    only_now,
    readable_columns,
    rebuilding,
    rebuilt_event,
    refuse_to_break_readers,
)
from anabranch.refresh.redefined import redefined
from anabranch.refresh.sources import Sources
from anabranch.refresh.work import in_full
from anabranch.runtime import Runtime, Transaction
from anabranch.spark.errors import Blame, as_written_failed, blame, said
from anabranch.sql.analyze.lineage import UNKNOWN, Lineage
from anabranch.sql.lower.recursion import is_beyond_spark


@dataclass(frozen=True)
class Outcome:
    """What a refresh did and what the table now stands on."""

    table: TableName
    decision: Decision
    fingerprint: str
    reads: tuple[TableName, ...]
    inputs: Mapping[TableName, Input]
    frontier: Mapping[TableName, int | None]
    options: Mapping[str, Any]
    computed_from: str | None = None
    lineage: Lineage = UNKNOWN
    rows_inserted: int = 0
    rows_deleted: int = 0
    delta_rows: int = 0
    source_rows: int = 0
    scanned_rows: int = 0
    duration_ms: int = 0
    changed: bool = False
    event: Event | None = None
    fixpoint_iterations: int | None = None  # for the members of a component
    rounds: str | None = None
    cuts: tuple[int, ...] = ()  # where the table stands: one cut, unless it opted out of that

    @property
    def stands_at(self) -> int | None:
        return self.cuts[0] if len(self.cuts) == 1 else None

    @property
    def action(self) -> Action:
        return self.decision.action

    def line(self, cut_id: int | None, initiated_by: str) -> Refresh:
        """The line of history."""
        measured = self.action is not Action.NO_DATA
        return Refresh(
            table=self.table,
            action=self.action,
            status=COMPLETED,
            cut_id=cut_id,
            reason=self.decision.reason,
            rows_inserted=self.rows_inserted,
            rows_deleted=self.rows_deleted,
            delta_rows=self.delta_rows,
            duration_ms=self.duration_ms,
            started_at=began(self.duration_ms),
            initiated_by=initiated_by,
            fixpoint_iterations=self.fixpoint_iterations,
            rounds=self.rounds,
            stands_at=self.stands_at,
            source_rows=self.source_rows if measured else None,
            scanned_rows=self.scanned_rows if measured else None,
            predicted_ms=self.decision.predicted_ms if measured else None,
            alternative_ms=self.decision.alternative_ms if measured else None,
        )


def refresh_table(
    runtime: Runtime,
    tx: Transaction,
    state: CatalogState,
    stream: StreamTable,
    done: Mapping[TableName, Outcome],
    *,
    full: str | None = None,
) -> Outcome:
    """Stage one stream table; upstreams that were refreshed before it are read as staged.

    What fails here by our own fault is recomputed by whoever asked: see `members`.
    `full`: why nothing that is stored is used.
    """
    if full is not None:
        return recompute(runtime, tx, state, stream, done, full)
    definition, why = redefine(tx, state, stream)
    sources = gather(tx.world, state, stream, definition)
    past = remember(runtime, tx, stream)
    now = decision_inputs(runtime, tx.world, state, stream, definition, sources, past)
    now = replace(now, redefined=why)
    decision = decide(now)
    read = inputs_now(tx, stream.name, definition, sources)
    outcome = planned(tx, state, stream, definition, sources, decision, done, read)
    before = tx.world.version(stream.name)
    after, decision = run(
        runtime, tx, stream, definition, sources, decision, now.full_ms, outcome.cuts
    )
    same = after.snapshot_id == before.snapshot_id
    decision = without_effect(decision, sources) if same else decision
    outcome = replace(
        outcome,
        decision=decision,
        scanned_rows=work_of(now, decision).scanned_rows,
        event=fallback_event(stream.name, decision) or event_of(stream.name, past, now, decision),
    )
    return staged(tx, state, outcome, before, after, net_rows)


def recompute(
    runtime: Runtime,
    tx: Transaction,
    state: CatalogState,
    stream: StreamTable,
    done: Mapping[TableName, Outcome],
    full: str,
) -> Outcome:
    """Stage all rows of the query, because somebody asked or files are lost."""
    name = stream.name
    definition = understood(tx.world, name, stream.query)
    columns = readable_columns(tx, [name])
    why = make_room(tx, name, definition.columns)
    refuse_to_break_readers(tx, state, columns, {name})
    sources = only_now(tx, definition.sources)
    decision = rebuilding(full)
    read = inputs_of(tx, name, sources, definition.views)
    outcome = planned(tx, state, stream, definition, sources, decision, done, read)
    before = tx.world.version(name)
    after, decision = in_full_job(runtime, tx, stream, definition, sources, decision, outcome.cuts)
    outcome = replace(
        outcome,
        decision=decision,
        scanned_rows=in_full(definition, sources).scanned_rows,
        event=rebuilt_event(name, why, full) or fallback_event(name, decision),
    )
    return staged(tx, state, outcome, before, after, all_rows)


def planned(
    tx: Transaction,
    state: CatalogState,
    stream: StreamTable,
    definition: Definition,
    sources: Sources,
    decision: Decision,
    done: Mapping[TableName, Outcome],
    read: Mapping[TableName, Input],
) -> Outcome:
    """What the table will stand on."""
    cuts = cuts_read(tx, state, done, sources)
    return Outcome(
        table=stream.name,
        decision=decision,
        fingerprint=definition.fingerprint,
        reads=tuple(sorted(definition.sources | definition.views)),
        inputs=read,
        frontier=frontier_now(state, done, sources),
        options={**definition.options, **mixed(state, done, sources), **marked(cuts)},
        lineage=definition.lineage,
        delta_rows=sources.delta_rows,
        source_rows=sources.rows,
        cuts=cuts,
    )


def staged(
    tx: Transaction,
    state: CatalogState,
    outcome: Outcome,
    before: TableVersion,
    after: TableVersion,
    counted: Callable[[TableVersion, TableVersion], tuple[int, int]],
) -> Outcome:
    """The outcome with what came and went."""
    name = outcome.table
    if after.snapshot_id == before.snapshot_id:
        # Only our rows move: they must not overtake somebody who moved the table.
        if name not in tx.stage.changes:
            tx.stage.expect(name, state.pointers.get(name))
        return outcome
    inserted, deleted = counted(before, after)
    own = Input(after.location, after.snapshot_id)
    return replace(
        outcome,
        rows_inserted=inserted,
        rows_deleted=deleted,
        inputs={**outcome.inputs, name: own},
        changed=True,
    )


def run(
    runtime: Runtime,
    tx: Transaction,
    stream: StreamTable,
    definition: Definition,
    sources: Sources,
    decision: Decision,
    full_ms: int,
    stands_at: tuple[int, ...],
) -> tuple[TableVersion, Decision]:
    """The table after the chosen job, and the choice that held in the end.

    If our plan of the change fails, or what it starts from cannot be read, AUTO recomputes;
    DIFFERENTIAL says whose fault it is.
    """
    if decision.action is Action.NO_DATA:
        return tx.world.version(stream.name), decision
    if decision.action is Action.DIFFERENTIAL:
        try:
            done = from_changes(runtime, tx, stream, definition, sources, decision, stands_at)
            return done, decision
        except Exception as error:
            recomputable = isinstance(error, (PlanFailed, FileMissing))
            if stream.refresh_mode is not RefreshMode.AUTO or not recomputable:
                raise
            decision = Decision(Action.FULL, not_from_changes(error), full_ms, fallback=True)
    return in_full_job(runtime, tx, stream, definition, sources, decision, stands_at)


def from_changes(
    runtime: Runtime,
    tx: Transaction,
    stream: StreamTable,
    definition: Definition,
    sources: Sources,
    decision: Decision,
    stands_at: tuple[int, ...],
) -> TableVersion:
    """The incremental job; if it fails, the query as it was written tells whose fault that is.

    Rows that came and went since the last refresh, and pairs of old and new rows that a join delta
    meets on its way, were never in the result: what breaks on them is our plan.  DIFFERENTIAL, which
    cannot recompute, tries it without rows that came and went.
    """
    told = summary(definition, sources, decision, stands_at)
    trial = Trial(runtime, tx, stream, definition, sources)
    try:
        return incremental_job(runtime, tx, stream, definition, sources, told)
    except Exception as error:
        failed = error
    strict = stream.refresh_mode is not RefreshMode.AUTO
    if strict and blame(failed) is Blame.OPEN and not sources.insert_only:
        try:
            net = by_states(sources)
            return incremental_job(runtime, tx, stream, definition, net, told)
        except Exception as error:
            failed = error
    raise trial.judge(failed, of_changes=True) from failed


def in_full_job(
    runtime: Runtime,
    tx: Transaction,
    stream: StreamTable,
    definition: Definition,
    sources: Sources,
    decision: Decision,
    stands_at: tuple[int, ...],
) -> tuple[TableVersion, Decision]:
    """All rows; if our plan of the query fails, by the query as it was written, which also tells
    whether the data is at fault.

    DIFFERENTIAL needs the plan, and says that it failed, unless somebody asked for the rows.
    """
    compare = not decision.fallback and not asked(decision)
    told = summary(definition, sources, decision, stands_at)
    try:
        done = full_job(runtime, tx, stream, definition, sources, told, compare=compare)
        return done, decision
    except Exception as error:
        if definition.kept is None:  # that was the query as it was written
            found = as_written_failed(stream.name, error)
            raise (found if compare else of_all_rows(found)) from error
        if blame(error) is Blame.WORLD:
            raise
        strict = stream.refresh_mode is RefreshMode.DIFFERENTIAL and not asked(decision)
        if strict or is_beyond_spark(definition.query):
            trial = Trial(runtime, tx, stream, definition, sources)
            found = trial.judge(error, of_changes=False)
            raise (found if compare else of_all_rows(found)) from error
        if decision.reason != ASKED:
            told_why = (
                f"by the query as it was written, because our plan of it failed: {said(error)}"
            )
            decision = replace(decision, reason=f"{decision.reason}; {told_why}")
        decision = replace(decision, fallback=True)
    told = summary(definition, sources, decision, stands_at)
    as_written = replace(definition, kept=None, hidden=plain_hidden(definition))
    try:
        done = full_job(runtime, tx, stream, as_written, sources, told, compare=False)
    except Exception as error:
        raise of_all_rows(as_written_failed(stream.name, error)) from error
    return done, decision


def asked(decision: Decision) -> bool:
    """Whether the rows are wanted whatever is stored, and by whatever plan."""
    return decision.reason == ASKED or decision.reason.startswith(LOST)


def plain_hidden(definition: Definition) -> Columns:
    """Hidden columns that follow from the visible ones; others take the plan."""
    return definition.hidden if isinstance(definition.kept, ByRows) else ()


def fallback_event(name: TableName, decision: Decision) -> Event | None:
    if not decision.fallback:
        return None
    return Event(name, FALLBACK, f"recomputed, because another way failed: {decision.reason}")


def by_states(sources: Sources) -> Sources:
    """The same changes without the rows that came and went."""
    found = {
        name: sources.versions[name].delta(sources.before[name], by_states=True)
        for name in sources.deltas
    }
    return replace(
        sources, deltas={name: delta for name, delta in found.items() if not delta.empty}
    )


def without_effect(decision: Decision, sources: Sources) -> Decision:
    """The sources changed, the table did not."""
    if decision.action is not Action.DIFFERENTIAL:
        return decision
    reason = f"{sources.delta_rows} changed rows in the sources leave the table as it is"
    return Decision(Action.NO_DATA, reason)


def redefine(
    tx: Transaction, state: CatalogState, stream: StreamTable
) -> tuple[Definition, str | None]:
    """The definition over the sources as they are now, and why the stored rows do not follow it.

    The table gets the columns of its query, as far as they can be carried over.
    """
    name, world = stream.name, tx.world
    definition = understood(world, name, stream.query)
    check_mode(name, stream.refresh_mode, definition)
    if not tx.stage.exists(name):  # dropped by another program
        tx.stage.create(name, definition.columns)
    why = redefined(world, stream, definition, state.inputs.get(name, {}))
    stored = world.version(name).columns
    wanted = fitted(name, stored, definition.columns)
    if not exactly(stored, wanted):
        tx.stage.set_columns(name, wanted)
    if not same_columns(stored, wanted):
        why = why or "another program changed the columns of the table"
    return definition, why


def work_of(now: DecisionInputs, decision: Decision) -> Work:
    return now.from_changes if decision.action is Action.DIFFERENTIAL else now.in_full


def inputs_now(
    tx: Transaction, name: TableName, definition: Definition, sources: Sources
) -> dict[TableName, Input]:
    return inputs_of(tx, name, sources, definition.views)


def frontiers_read(
    state: CatalogState, done: Mapping[TableName, Outcome], sources: Sources
) -> list[Mapping[TableName, int | None]]:
    """Sources stand for themselves, stream tables for what they stand on.

    A boundary is a source, unless it is refreshed here too, or was before by the same pass: the cut
    that all others are read at does not show its new snapshot, but it stands at that cut.
    """
    found: list[Mapping[TableName, int | None]] = []
    for name, version in sources.versions.items():
        if name in done:
            found.append(done[name].frontier)
        elif state.is_source(name, version.location):
            found.append({name: version.snapshot_id})
        else:
            found.append(state.frontiers.get(name, {}))
    return found


def cuts_read(
    tx: Transaction, state: CatalogState, done: Mapping[TableName, Outcome], sources: Sources
) -> tuple[int, ...]:
    """The cuts of all that is read: one, but for tables that opted out.  0: a cut not known.

    None where a boundary is read that the same publish puts in place without refreshing it, or that
    was refreshed past the look: no one cut shows it beside the rest so far, and the next look finds
    where the table stands.
    """
    found: set[int] = set()
    in_both = False  # what did not move since the look is part of either cut
    apart = tx.world.cut_id != state.cut_id
    for name, version in sources.versions.items():
        if name in state.boundaries and name in tx.stage.changes and name not in done:
            return ()
        if name in done:
            found.update(done[name].cuts)
        elif not state.is_source(name, version.location):
            found.update(state.streams[name].cuts or (0,))
        elif name in state.refreshed and not apart:
            return ()
        elif name in state.refreshed or tx.world.pointers.get(name) != state.pointers.get(name):
            found.add(tx.world.cut_id or 0)
        else:
            in_both = True
    if not found or (in_both and found.isdisjoint({state.cut_id, tx.world.cut_id})):
        found.add(state.cut_id)
    return tuple(sorted(found))


def marked(cuts: tuple[int, ...]) -> Mapping[str, Any]:
    return {MIXED_CUTS: list(cuts)} if len(cuts) > 1 else {}


def frontier_now(
    state: CatalogState, done: Mapping[TableName, Outcome], sources: Sources
) -> dict[TableName, int | None]:
    frontier: dict[TableName, int | None] = {}
    for each in frontiers_read(state, done, sources):
        frontier |= each
    return frontier


def mixed(
    state: CatalogState, done: Mapping[TableName, Outcome], sources: Sources
) -> Mapping[str, Any]:
    """Marks a table of which no single frontier says what it is.

    It met a source in two versions, which happens without diamond consistency only, or reads a table
    of the current time.  Such a table is checked against the tables it read.
    """
    frontier = frontier_now(state, done, sources)
    two = any(
        frontier[source] != snapshot
        for each in frontiers_read(state, done, sources)
        for source, snapshot in each.items()
    )
    options = [
        done[name].options if name in done else state.streams[name].options
        for name in sources.versions
        if name in state.streams
    ]
    above = any(each.get("mixed") or each.get("moment") for each in options)
    return {"mixed": True} if two or above else {}


def summary(
    definition: Definition, sources: Sources, decision: Decision, stands_at: tuple[int, ...]
) -> dict[str, str]:
    snapshots = {str(name): version.snapshot_id for name, version in sources.versions.items()}
    return {
        "anabranch.cut": ",".join(map(str, stands_at)),
        "anabranch.fingerprint": definition.fingerprint,
        "anabranch.tables": json.dumps(snapshots, sort_keys=True),
        "anabranch.mode": decision.action.value,
        **({"anabranch.moment": str(definition.moment)} if definition.moment else {}),
    }
