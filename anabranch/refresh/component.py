"""One refresh of one component: observe what it reads, decide how, execute, say what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from anabranch.catalog.events import FALLBACK, REINITIALIZED, Event
from anabranch.catalog.streams import MIXED_CUTS, Input
from anabranch.delta.fixpoint import Converged
from anabranch.graph.components import Component
from anabranch.lake.changes import net_rows
from anabranch.lake.version import TableVersion
from anabranch.model import Action
from anabranch.names import TableName
from anabranch.refresh.cost_history import CostHistory, event_of
from anabranch.refresh.decide import (
    Code,
    Decision,
    DecisionInputs,
    Reason,
    decide,
    rebuilding,
    settled,
    without_effect,
)
from anabranch.refresh.definition import Definition
from anabranch.refresh.editions import confirmed
from anabranch.refresh.execute.fixpoint import CycleWork, rounds_text
from anabranch.refresh.execute.run import execute
from anabranch.refresh.execute.table import TableWork
from anabranch.refresh.inputs import (
    check_readable_now,
    decision_inputs,
    gather,
    in_full,
    only_now,
    remember,
)
from anabranch.refresh.members import Members, MemberTable, understand
from anabranch.refresh.observe import CatalogState, view_mark
from anabranch.refresh.rebuild import all_rows
from anabranch.refresh.sources import Sources
from anabranch.runtime import Runtime, Transaction
from anabranch.sql.analyze.lineage import UNKNOWN, Lineage


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


@dataclass(frozen=True)
class Standing:
    """What the tables of a component will stand on."""

    cuts: tuple[int, ...]
    frontier: Mapping[TableName, int | None]
    options: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        tx: Transaction,
        state: CatalogState,
        done: Mapping[TableName, Outcome],
        sources: Sources,
    ) -> Standing:
        cuts = cuts_read(tx, state, done, sources)
        options = {**mixed(state, done, sources), **marked(cuts)}
        return cls(cuts, frontier_now(state, done, sources), options)


def refresh_component(
    runtime: Runtime,
    tx: Transaction,
    state: CatalogState,
    part: Component[TableName],
    done: Mapping[TableName, Outcome],
    *,
    full: Reason | None = None,
) -> list[Outcome]:
    """Stage all members; upstreams that were refreshed before are read as staged.

    `full`: why nothing that is stored is used.  What fails here by our own fault is recomputed by
    whoever asked: see `staging`.
    """
    streams = [state.streams[name] for name in part.members]
    members = understand(tx, state, streams, cyclic=part.cyclic, full=full is not None)
    definitions = {name: each.definition for name, each in members.items()}
    now, history = None, CostHistory()
    if full is not None:
        read = {source for each in definitions.values() for source in each.sources}
        outside, decision = only_now(tx.world, read - set(members)), rebuilding(full)
    else:
        outside = gather(tx.world, state, definitions)
        if outside.sources.lost is not None:
            check_readable_now(outside.sources)
        history = CostHistory() if part.cyclic else remember(runtime, tx, streams[0])
        known = None if part.cyclic else history
        now = decision_inputs(runtime, tx.world, state, members, outside, known)
        decision = decide(now)
    sources, standing = outside.sources, Standing.of(tx, state, done, outside.sources)
    before = {name: tx.world.version(name) for name in members}
    work = work_of(runtime, tx, members, sources, standing, cyclic=part.cyclic)
    decision = execute(work, decision, None if now is None or now.cyclic else now.full_ms)
    converged = work.converged if isinstance(work, CycleWork) else None
    if converged is not None:
        decision = settled(decision, converged)
    after = {name: tx.world.version(name) for name in members}
    outcomes = []
    for name, member in members.items():
        outcome = planned(tx, state, member, sources, decision, standing, after)
        outcome = staged(tx, state, outcome, before[name], after[name], whole=full is not None)
        if not part.cyclic:
            outcome = _of_table(outcome, member.definition, sources, now)
        event = event_after(outcome, member, now, history, full)
        outcomes.append(replace(outcome, event=event, **_rounds(converged)))
    return outcomes


def work_of(
    runtime: Runtime,
    tx: Transaction,
    members: Members,
    sources: Sources,
    standing: Standing,
    *,
    cyclic: bool,
) -> TableWork | CycleWork:
    if cyclic:
        return CycleWork(runtime, tx, members, sources, standing.cuts)
    (member,) = members.values()
    return TableWork(runtime, tx, member, sources, standing.cuts)


def planned(
    tx: Transaction,
    state: CatalogState,
    member: MemberTable,
    sources: Sources,
    decision: Decision,
    standing: Standing,
    after: Mapping[TableName, TableVersion],
) -> Outcome:
    """What the table stands on; other members of its component are read as they are `after`."""
    definition, name = member.definition, member.name
    inside = {each: after[each] for each in definition.sources if each in after}
    outer = {each: sources.versions[each] for each in definition.sources if each not in inside}
    return Outcome(
        table=name,
        decision=decision,
        fingerprint=definition.fingerprint,
        reads=tuple(sorted(definition.sources | definition.views)),
        inputs=inputs_now(tx, name, {**outer, **inside}, definition),
        frontier=standing.frontier,
        options={**definition.options, **standing.options},
        computed_from=confirmed(
            member.stream, definition.fingerprint, of_a_moment=definition.moment is not None
        ),
        lineage=definition.lineage,
        delta_rows=sources.delta_rows,
        source_rows=sources.rows,
        cuts=standing.cuts,
    )


def inputs_now(
    tx: Transaction,
    name: TableName,
    versions: Mapping[TableName, TableVersion],
    definition: Definition,
) -> dict[TableName, Input]:
    """What is read; the table itself is listed too, so that other writers are noticed."""
    tables = {**versions, name: tx.world.version(name)}
    read = {each: Input(version.location, version.snapshot_id) for each, version in tables.items()}
    views = {view: Input(view_mark(tx.world.views[view]), None) for view in definition.views}
    return {**read, **views}


def staged(
    tx: Transaction,
    state: CatalogState,
    outcome: Outcome,
    before: TableVersion,
    after: TableVersion,
    *,
    whole: bool = False,
) -> Outcome:
    """The outcome with what came and went; `whole`: every row was put in place again."""
    name = outcome.table
    if after.snapshot_id == before.snapshot_id:
        # Only our rows move: they must not overtake somebody who moved the table.
        if name not in tx.stage.changes:
            tx.stage.expect(name, state.pointers.get(name))
        return outcome
    inserted, deleted = (all_rows if whole else net_rows)(before, after)
    own = Input(after.location, after.snapshot_id)
    return replace(
        outcome,
        rows_inserted=inserted,
        rows_deleted=deleted,
        inputs={**outcome.inputs, name: own},
        changed=True,
    )


def _of_table(
    outcome: Outcome, definition: Definition, sources: Sources, now: DecisionInputs | None
) -> Outcome:
    """What is told of a table alone: rows that were scanned, and that nothing came of a change."""
    decision = outcome.decision
    if now is not None and not outcome.changed:
        decision = without_effect(decision, sources.delta_rows)
    if now is None:
        scanned = in_full(definition, sources)
    else:
        scanned = now.from_changes if decision.action is Action.DIFFERENTIAL else now.in_full
    return replace(outcome, decision=decision, scanned_rows=scanned.scanned_rows)


def _rounds(converged: Converged | None) -> dict[str, Any]:
    if converged is None:
        return {}
    return {"fixpoint_iterations": converged.rounds, "rounds": rounds_text(converged)}


def fell_back(name: TableName, decision: Decision) -> Event | None:
    """Whether the way that was decided on failed, and another one was taken."""
    if not decision.fallback:
        return None
    return Event(name, FALLBACK, f"recomputed after a failure: {decision.reason}")


def event_after(
    outcome: Outcome,
    member: MemberTable,
    now: DecisionInputs | None,
    history: CostHistory,
    full: Reason | None,
) -> Event | None:
    """What users should hear of."""
    name, decision = outcome.table, outcome.decision
    fallback = fell_back(name, decision)
    if now is None:
        lost = full.text if full is not None and full.code is Code.FILES_LOST else None
        why = member.replaced or lost
        built = f"rebuilt from nothing: {why}"
        return Event(name, REINITIALIZED, built) if why is not None else fallback
    if fallback is not None or not now.cyclic:
        return fallback or event_of(name, history, now, decision)
    if decision.action is not Action.REINITIALIZE:
        return None
    return Event(name, REINITIALIZED, f"rebuilt: {decision.reason}")


def cuts_read(
    tx: Transaction, state: CatalogState, done: Mapping[TableName, Outcome], sources: Sources
) -> tuple[int, ...]:
    """The cuts of all that is read: one, but for tables that opted out.  0: a cut not known.

    None where a boundary is read that the same publish puts in place without refreshing it, or that
    was refreshed past the state: no one cut shows it beside the rest so far, and the next one finds
    where the table stands.
    """
    cut_ids: set[int] = set()
    in_both = False  # what did not move since the state is part of either cut
    apart = tx.world.cut_id != state.cut_id
    for name, version in sources.versions.items():
        if name in state.boundaries and name in tx.stage.changes and name not in done:
            return ()
        if name in done:
            cut_ids.update(done[name].cuts)
        elif not state.is_source(name, version.location):
            cut_ids.update(state.streams[name].cuts or (0,))
        elif name in state.refreshed and not apart:
            return ()
        elif name in state.refreshed or tx.world.pointers.get(name) != state.pointers.get(name):
            cut_ids.add(tx.world.cut_id or 0)
        else:
            in_both = True
    if not cut_ids or (in_both and cut_ids.isdisjoint({state.cut_id, tx.world.cut_id})):
        cut_ids.add(state.cut_id)
    return tuple(sorted(cut_ids))


def marked(cuts: tuple[int, ...]) -> Mapping[str, Any]:
    return {MIXED_CUTS: list(cuts)} if len(cuts) > 1 else {}


def frontiers_read(
    state: CatalogState, done: Mapping[TableName, Outcome], sources: Sources
) -> list[Mapping[TableName, int | None]]:
    """Sources stand for themselves, stream tables for what they stand on.

    A boundary is a source, unless it is refreshed here too, or was before by the same run: the cut
    that all others are read at does not show its new snapshot, but it stands at that cut.
    """
    frontiers: list[Mapping[TableName, int | None]] = []
    for name, version in sources.versions.items():
        if name in done:
            frontiers.append(done[name].frontier)
        elif state.is_source(name, version.location):
            frontiers.append({name: version.snapshot_id})
        else:
            frontiers.append(state.frontiers.get(name, {}))
    return frontiers


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
