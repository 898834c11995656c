"""What a refresh leaves in the catalog, written in the transaction that publishes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anabranch.catalog import cuts, events, history, streams, tables
from anabranch.catalog.groups import Group
from anabranch.catalog.history import COMPLETED, FAILED, SKIPPED, Refresh
from anabranch.catalog.lineage import set_lineage
from anabranch.catalog.store import Connection
from anabranch.catalog.streams import StreamTable
from anabranch.model import Action, Status
from anabranch.names import TableName
from anabranch.refresh.apply import Outcome
from anabranch.refresh.choose import ASKED
from anabranch.refresh.failures import FORGIVEN, Failure
from anabranch.refresh.look import Look

MANUAL = "manual"
SCHEDULER = "scheduler"


@dataclass(frozen=True)
class Occasion:
    """Why a refresh happens: who asked, and in a tick the cut it may not read past."""

    initiated_by: str = MANUAL
    watermark: int | None = None

    def line(self, table: TableName, action: Action, status: str, **facts: Any) -> Refresh:
        return Refresh(
            table,
            action,
            status,
            started_at=history.began(facts.get("duration_ms", 0)),
            initiated_by=self.initiated_by,
            tick_watermark=self.watermark,
            **facts,
        )

    def no_data(self, table: TableName, seen: Look) -> Refresh:
        reason, stands_at = "no change in the sources", seen.streams[table].cut_id
        return self.line(table, Action.NO_DATA, COMPLETED, reason=reason, stands_at=stands_at)

    def skipped(self, table: TableName, reason: str) -> Refresh:
        return self.line(table, Action.SKIP, SKIPPED, reason=reason)

    def failed(self, table: TableName, failure: Failure) -> Refresh:
        """The failed table says why; the others of its set say whom they wait for."""
        if table not in failure.failed:
            return self.skipped(table, f"{failure.table} failed")
        return self.line(
            table, Action.SKIP, FAILED, error=str(failure.error), duration_ms=failure.duration_ms
        )


def write_lines(
    c: Connection,
    cut_id: int | None,
    done: Sequence[Outcome],
    occasion: Occasion,
    groups: Sequence[Group] = (),
) -> list[Refresh]:
    """Every outcome into the catalog; groups of which a table changed reach their next epoch."""
    epochs = advance_epochs(c, groups, done) if cut_id is not None else {}
    lines = []
    for outcome in done:
        write_outcome(c, outcome, epochs.get(outcome.table))
        line = outcome.line(cut_id, occasion.initiated_by)
        lines.append(
            replace(line, tick_watermark=occasion.watermark, epoch=epochs.get(outcome.table))
        )
    history.add(c, lines)
    events.add(c, [outcome.event for outcome in done if outcome.event is not None])
    return lines


def advance_epochs(
    c: Connection, groups: Sequence[Group], done: Sequence[Outcome]
) -> dict[TableName, int]:
    """The new epoch of every member of a group that is published."""
    moved = {outcome.table for outcome in done if outcome.changed}
    published = [group for group in groups if moved.intersection(group.members)]
    known = streams.epochs(c)
    found: dict[TableName, int] = {}
    for group in published:
        epoch = 1 + max(known.get(name) or 0 for name in group.members)
        found |= dict.fromkeys(group.members, epoch)
    streams.set_epochs(c, found)
    return found


def stays_suspended(stream: StreamTable, outcome: Outcome) -> bool:
    """A table that somebody suspended stays so; one that failed too often is well again after a full
    refresh that was asked for."""
    given_up = stream.consecutive_errors > 0
    return stream.status is Status.SUSPENDED and not (given_up and outcome.choice.reason == ASKED)


def note_cuts(c: Connection, seen: Look, noted: Look) -> None:
    """Tables that did not change stand at a newer cut now, unless they were refreshed meanwhile."""
    moved = [name for name, each in noted.streams.items() if each is not seen.streams.get(name)]
    if not moved:
        return
    cuts.hold(c)  # nobody publishes between the question and the answer
    stand = streams.standing(c)
    same = [
        name
        for name in moved
        if stand.get(name) == streams.standing_of(seen.streams[name])
        and noted.cut_id > _known(seen.streams[name].cut_id)
    ]
    streams.note_cut(c, noted.cut_id, {name: noted.frontiers[name] for name in same})
    for name in same:
        if noted.streams[name].options != seen.streams[name].options:
            streams.change(c, name, options=noted.streams[name].options)


def _known(cut_id: int | None) -> int:
    return -1 if cut_id is None else cut_id


def write_outcome(c: Connection, outcome: Outcome, epoch: int | None) -> None:
    """What the table has read, where it stands, and that it is well."""
    name = outcome.table
    stream = streams.get(c, name)
    stays = stream is not None and stays_suspended(stream, outcome)
    streams.set_inputs(c, {name: outcome.inputs})
    streams.set_frontiers(c, {name: outcome.frontier})
    streams.set_dependencies(c, {name: outcome.reads})
    if stream is not None and stream.fingerprint != outcome.fingerprint:
        set_lineage(c, {name: outcome.lineage.record()})
    values: Mapping[str, Any] = {} if epoch is None else {"epoch": epoch}
    at = outcome.stands_at
    held = {} if at is None else cuts.commit_times(c, at, outcome.frontier)
    streams.change(
        c,
        name,
        populated=True,
        status=Status.SUSPENDED if stays else Status.ACTIVE,
        fingerprint=outcome.fingerprint,
        computed_from=outcome.computed_from,
        options=outcome.options,
        last_refresh_at=tables.now(c),
        cut_id=at,
        data_at=max(held.values(), default=None),
        **FORGIVEN,
        **values,
    )
