"""What a refresh leaves in the catalog, written in the transaction that publishes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from anabranch.catalog import cuts, events, history, streams, tables, views
from anabranch.catalog.groups import Group
from anabranch.catalog.history import COMPLETED, FAILED, SKIPPED, Refresh
from anabranch.catalog.lineage import set_lineage
from anabranch.catalog.read_set import Present
from anabranch.catalog.store import Connection
from anabranch.catalog.streams import StreamTable
from anabranch.graph.order import closure
from anabranch.model import Action, Status
from anabranch.names import TableName
from anabranch.refresh.component import Outcome
from anabranch.refresh.decide import NO_CHANGE, Code
from anabranch.refresh.failures import FORGIVEN, Failure
from anabranch.refresh.observe import CatalogState

MANUAL = "manual"
SCHEDULER = "scheduler"


@dataclass(frozen=True)
class Trigger:
    """Why a refresh happens: who asked, and in a tick the cut it may not read past."""

    initiated_by: str = MANUAL
    watermark: int | None = None

    def row(self, table: TableName, action: Action, status: str, **facts: Any) -> Refresh:
        return Refresh(
            table,
            action,
            status,
            started_at=history.began(facts.get("duration_ms", 0)),
            initiated_by=self.initiated_by,
            tick_watermark=self.watermark,
            **facts,
        )

    def no_data(self, table: TableName, state: CatalogState) -> Refresh:
        return self.row(
            table,
            Action.NO_DATA,
            COMPLETED,
            reason=NO_CHANGE.text,
            reason_code=NO_CHANGE.code.value,
            stands_at=state.streams[table].cut_id,
        )

    def skipped(self, table: TableName, reason: str) -> Refresh:
        return self.row(table, Action.SKIP, SKIPPED, reason=reason)

    def failed(self, table: TableName, failure: Failure) -> Refresh:
        """The failed table says why; the others of its set say whom they wait for."""
        if table not in failure.failed:
            return self.skipped(table, f"{failure.table} failed")
        return self.row(
            table, Action.SKIP, FAILED, error=str(failure.error), duration_ms=failure.duration_ms
        )


def record_outcomes(
    c: Connection,
    cut_id: int | None,
    done: Sequence[Outcome],
    trigger: Trigger,
    groups: Sequence[Group] = (),
    state: CatalogState | None = None,
    found: Present | None = None,
    idle: Sequence[Refresh] = (),
    kept: Iterable[Refresh] = (),
) -> list[Refresh]:
    """Every outcome into the catalog; groups of which a table changed reach their next epoch.

    `seen` is what they were computed from, and `found` what the publish has compared, where that is
    known; `idle` are lines of tables of the same groups that had nothing to do, `kept` those of
    indexes: they are written down, and nobody asked for them.
    """
    now = found or Present(c, [each.table for each in done])
    epochs = next_epochs(now, groups, done) if cut_id is not None else {}
    write_outcomes(c, done, epochs, now, state)
    rows = [history_row(each, cut_id, trigger, epochs.get(each.table)) for each in done]
    beside = [
        replace(
            each,
            cut_id=cut_id,
            initiated_by=trigger.initiated_by,
            tick_watermark=trigger.watermark,
        )
        for each in kept
    ]
    history.add(c, [*beside, *rows, *idle])
    events.add(c, [outcome.event for outcome in done if outcome.event is not None])
    return [*rows, *idle]


def history_row(
    outcome: Outcome, cut_id: int | None, trigger: Trigger, epoch: int | None
) -> Refresh:
    measured = outcome.action is not Action.NO_DATA
    return Refresh(
        table=outcome.table,
        action=outcome.action,
        status=COMPLETED,
        cut_id=cut_id,
        reason=outcome.decision.reason.text,
        reason_code=outcome.decision.reason.code.value,
        rows_inserted=outcome.rows_inserted,
        rows_deleted=outcome.rows_deleted,
        delta_rows=outcome.delta_rows,
        duration_ms=outcome.duration_ms,
        started_at=history.began(outcome.duration_ms),
        initiated_by=trigger.initiated_by,
        tick_watermark=trigger.watermark,
        epoch=epoch,
        fixpoint_iterations=outcome.fixpoint_iterations,
        rounds=outcome.rounds,
        stands_at=outcome.stands_at,
        source_rows=outcome.source_rows if measured else None,
        scanned_rows=outcome.scanned_rows if measured else None,
        predicted_ms=outcome.decision.predicted_ms if measured else None,
        alternative_ms=outcome.decision.alternative_ms if measured else None,
    )


def next_epochs(
    now: Present, groups: Sequence[Group], done: Sequence[Outcome]
) -> dict[TableName, int]:
    """The new epoch of every member of a group that is published."""
    moved = {outcome.table for outcome in done if outcome.changed}
    found: dict[TableName, int] = {}
    for group in groups:
        if moved.intersection(group.members):
            known = [now.streams[name].epoch for name in group.members if name in now.streams]
            found |= dict.fromkeys(group.members, 1 + max((each or 0 for each in known), default=0))
    return found


def stays_suspended(stream: StreamTable, outcome: Outcome) -> bool:
    """A table that somebody suspended stays so; one that failed too often is well again after a full
    refresh that was asked for."""
    given_up = stream.consecutive_errors > 0
    asked = outcome.decision.reason.code is Code.ASKED
    return stream.status is Status.SUSPENDED and not (given_up and asked)


def note_cuts(
    c: Connection,
    state: CatalogState,
    noted: CatalogState,
    found: Present | None = None,
    done: Collection[TableName] = (),
) -> None:
    """Tables that did not change stand at a newer cut now, unless they were refreshed or a view above
    them got another meaning meanwhile, or they are among those `done` in the transaction, which
    `found` the others as they are."""
    moved = [name for name, each in noted.streams.items() if each is not state.streams.get(name)]
    if not moved:
        return
    cuts.hold(c)  # nobody publishes between the question and the answer
    there = streams.all_streams(c) if found is None else found.streams
    replaced = views_replaced(c, state, moved)
    same = [
        name
        for name in moved
        if name in there
        and name not in done
        and closure([name], state.reads).isdisjoint(replaced)
        and streams.standing_of(there[name]) == streams.standing_of(state.streams[name])
        and noted.cut_id > _known(state.streams[name].cut_id)
    ]
    frontiers = {name: noted.frontiers[name] for name in same}
    streams.note_cut(c, noted.cut_id, frontiers, state.frontiers)
    for name in same:
        if noted.streams[name].options != state.streams[name].options:
            streams.change(c, name, options=noted.streams[name].options)


def views_replaced(
    c: Connection, state: CatalogState, names: Collection[TableName]
) -> frozenset[TableName]:
    """Views above some tables that are not what they were: no cut shows the old text any more."""
    above = closure(names, state.reads) & state.views.keys()
    if not above:
        return frozenset()
    now = views.all_views(c)
    return frozenset(name for name in above if now.get(name) != state.views[name])


def _known(cut_id: int | None) -> int:
    return -1 if cut_id is None else cut_id


def write_outcomes(
    c: Connection,
    done: Sequence[Outcome],
    epochs: Mapping[TableName, int],
    now: Present,
    state: CatalogState | None,
) -> None:
    """What the tables have read, where they stand, and that they are well."""
    known = now.streams
    there = now.graph if all(now.has_read(each.table) for each in done) else None
    inputs, stands = (None, None) if there is None else (there.inputs, there.frontiers)
    streams.set_inputs(c, {each.table: each.inputs for each in done}, inputs)
    streams.set_frontiers(c, {each.table: each.frontier for each in done}, stands)
    reads = {each.table: each.reads for each in done}
    depends = now.graph.dependencies
    streams.set_dependencies(
        c, {name: read for name, read in reads.items() if {*depends.get(name, ())} != {*read}}
    )
    others = {
        each.table: each.lineage.record()
        for each in done
        if each.table in known and known[each.table].fingerprint != each.fingerprint
    }
    set_lineage(c, others)
    moment, held = tables.now(c), commit_times(c, done, state)
    states = {
        each.table: _state(each, known.get(each.table), moment, held, epochs.get(each.table))
        for each in done
    }
    streams.change_all(c, states)
    streams.set_epochs(c, {name: at for name, at in epochs.items() if name not in states})


def _state(
    outcome: Outcome,
    stream: StreamTable | None,
    moment: datetime,
    held: Mapping[int, Mapping[TableName, datetime | None]],
    epoch: int | None,
) -> dict[str, Any]:
    stays = stream is not None and stays_suspended(stream, outcome)
    at = outcome.stands_at
    times = {} if at is None else held[at]
    known = [time for name in outcome.frontier if (time := times.get(name)) is not None]
    return {
        "populated": True,
        "status": Status.SUSPENDED if stays else Status.ACTIVE,
        "fingerprint": outcome.fingerprint,
        "computed_from": outcome.computed_from,
        "options": outcome.options,
        "last_refresh_at": moment,
        "cut_id": at,
        "data_at": max(known, default=None),
        "epoch": epoch if epoch is not None or stream is None else stream.epoch,
        **FORGIVEN,
    }


def commit_times(
    c: Connection, done: Sequence[Outcome], state: CatalogState | None
) -> dict[int, Mapping[TableName, datetime | None]]:
    """When the sources were committed to, by the cuts that tables stand at; asked only where that was
    not seen already."""
    found: dict[int, Mapping[TableName, datetime | None]] = {}
    wanted: dict[int, set[TableName]] = {}
    for outcome in done:
        if outcome.stands_at is not None:
            wanted.setdefault(outcome.stands_at, set()).update(outcome.frontier)
    for at, names in wanted.items():
        told = state.committed if state is not None and at == state.cut_id else {}
        all_told = all(name in told and told[name] is not None for name in names)
        found[at] = told if all_told else cuts.commit_times(c, at, names)
    return found
