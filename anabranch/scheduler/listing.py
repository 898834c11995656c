"""What the scheduler would say of groups and tables right now: the same rules, from the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from anabranch.catalog import cuts, events, history, leases, tables
from anabranch.catalog.groups import Group
from anabranch.catalog.store import Connection, Store
from anabranch.catalog.streams import StreamTable
from anabranch.graph.notices import diamonds_into
from anabranch.graph.policies import Isolation, SchedulePolicy
from anabranch.model import Status
from anabranch.names import TableName
from anabranch.refresh.observe import CatalogState, observe
from anabranch.refresh.waiting import Wait
from anabranch.scheduler.due import Agenda
from anabranch.settings import Settings

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Overview:
    """One look at the catalog, and what follows from it."""

    state: CatalogState
    agenda: Agenda
    committed: dict[TableName, datetime]  # the newest commit of each table
    changed: dict[TableName, int]  # the newest cut that changed each table
    then: dict[int, dict[TableName, datetime]] = field(default_factory=dict)  # the same, per cut
    waits: dict[Group, Wait] = field(default_factory=dict)
    stuck: dict[TableName, datetime] = field(default_factory=dict)

    def group(self, group: Group) -> dict[str, Any]:
        wait = self.waits.get(group)
        stands = {self.state.streams[name].cut_id for name in group.members}
        return {
            "group_id": str(group.id),
            "kind": kind(group),
            "why": "; ".join(why(self.state, group)) or None,
            "members": [str(name) for name in group.members],
            "policy": self.agenda.policy_of(group).value,
            "isolation": isolation(self.state, group).value,
            "next_due": self.next_due(group),
            "epoch": max(self.state.streams[name].epoch or 0 for name in group.members),
            "last_cut": max((self.changed.get(name, 0) for name in group.members), default=0)
            or None,
            "cut_id": stands.pop() if len(stands) == 1 else None,
            "blocked_by": str(wait.by) if wait else None,
            "blocked_reason": wait.reason if wait else None,
            "blocked_since": self.since(group, wait),
            "lag_seconds": self.lag(group),
        }

    def table(self, name: TableName) -> dict[str, Any]:
        """What `status` adds to a stream table: who holds it up, and where its chain ends."""
        group = self.agenda.home[name]
        wait = self.waits.get(group)
        held = wait is not None and wait.by != name
        read = self.state.boundaries.intersection(self.state.reads.get(name, ()))
        return {
            "blocked_by": str(wait.by) if wait and held else None,
            "blocked_reason": wait.reason if wait and held else None,
            "blocked_since": self.since(group, wait) if held else None,
            "boundary": name in self.state.boundaries,
            "boundaries": [str(each) for each in sorted(read)],
        }

    def next_due(self, group: Group) -> datetime | None:
        moments = [self._next(name) for name in group.members if self.agenda.schedules[name]]
        if not moments:
            return None
        slowest = self.agenda.policy_of(group) is SchedulePolicy.SLOWEST
        return max(moments) if slowest else min(moments)

    def _next(self, name: TableName) -> datetime:
        stream = self.state.streams[name]
        if stream.last_refresh_at is None or not stream.populated:
            return stream.created_at
        last = min(stream.last_refresh_at, self.agenda.now)  # no later than now, whoever wrote it
        return min(self.agenda.next_times(name, last))

    def since(self, group: Group, wait: Wait | None) -> datetime | None:
        """The first attempt that came to nothing since the last one that did not."""
        if wait is None or wait.by is None:
            return None
        return min(
            (self.stuck[name] for name in (*group.members, wait.by) if name in self.stuck),
            default=None,
        )

    def lag(self, group: Group) -> float | None:
        """Seconds from the newest commit that the data hold to the newest that the sources hold."""
        if not lagging(self.state, group):
            return 0.0
        lags = [self.lag_of(self.state.streams[name]) for name in group.members]
        known = [each for each in lags if each is not None]
        return max(known) if len(known) == len(lags) else None

    def lag_of(self, stream: StreamTable) -> float | None:
        """Of what the table stands on now: a boundary that got a schedule is no source any more."""
        held, read = [self.held(stream)], set(self.state.frontiers.get(stream.name, ()))
        former: set[TableName] = set()
        while passed := read.intersection(self.state.streams) - self.state.boundaries - former:
            former |= passed
            held += [self.held(self.state.streams[each]) for each in passed]
            read.update(*(self.state.frontiers.get(each, ()) for each in passed))
        new = [self.committed[each] for each in read - former if each in self.committed]
        known = [each for each in held if each is not None]
        if len(known) < len(held) or not new:
            return None
        return max(0.0, (max(new) - min(known)).total_seconds())

    def held(self, stream: StreamTable) -> datetime | None:
        """The newest commit that the data of a table hold; None while it mixes cuts."""
        if stream.cut_id is None or stream.data_at is not None:
            return stream.data_at if stream.cut_id is not None else None
        then = self.then.get(stream.cut_id, {})  # refreshed by an older version
        read = self.state.frontiers.get(stream.name, {})
        return max((then[each] for each in read if each in then), default=None)


def lagging(state: CatalogState, group: Group) -> bool:
    members = list(group.members)
    return bool(set(state.lagging([*state.above(members), *members])).intersection(members))


def overview(store: Store, settings: Settings) -> Overview:
    with store.reading() as c:
        state = observe(c)
        policy = SchedulePolicy(settings.diamond_schedule_policy)
        agenda = Agenda(state, tables.now(c), policy, leases.held(c, state.streams))
        waits = _waits(agenda)
        involved = {name for group, wait in waits.items() for name in (*group.members, wait.by)}
        return Overview(
            state,
            agenda,
            cuts.commit_times(c),
            cuts.last_changes(c),
            {each: cuts.commit_times(c, each) for each in _stands(state, agenda)},
            waits,
            _stuck(c, state, [name for name in involved if name], settings) if waits else {},
        )


def _stuck(
    c: Connection, state: CatalogState, names: Sequence[TableName], settings: Settings
) -> dict[TableName, datetime]:
    """Since when each of the tables does not move: a failure or a skipped refresh, or before any tick
    has tried, its suspension or its lease."""
    out = [name for name in names if state.streams[name].status is Status.SUSPENDED]
    found = [
        history.stuck_since(c, names),
        events.suspended_since(c, out) if out else {},
        leases.held_since(c, names, settings.lease_time),
    ]
    return {
        name: min(each[name] for each in found if name in each)
        for name in names
        if any(name in each for each in found)
    }


def _stands(state: CatalogState, agenda: Agenda) -> set[int]:
    """The cuts at which tables stand that are behind and do not tell how far."""
    late = set(state.lagging(state.order()))
    groups = [group for group in agenda.groups if late.intersection(group.members)]
    stands = [state.streams[name] for group in groups for name in group.members]
    return {each.cut_id for each in stands if each.cut_id is not None and each.data_at is None}


def groups(store: Store, settings: Settings) -> Rows:
    """Every consistency group, those of one table too, upstreams first."""
    found = overview(store, settings)
    return [found.group(group) for group in found.agenda.groups]


def _waits(agenda: Agenda) -> dict[Group, Wait]:
    """Groups that are held up by a table, whether they are due at this moment or not.

    A group that a reader brings along in the next tick is not held up.
    """
    found = {}
    for group in agenda.groups:
        if group in agenda.plan.pulled:
            continue
        wait = agenda.wait(group)
        if wait is None or wait.by is None:
            wait = agenda.held_up(group)
        if wait is not None and wait.by is not None:
            found[group] = wait
    return found


def kind(group: Group) -> str:
    if group.declared:
        return "declared"
    if group.convergence_points:
        return "diamond"
    return "component" if any(part.cyclic for part in group.components) else "single"


def why(state: CatalogState, group: Group) -> Iterable[str]:
    """What puts the members together."""
    for name in group.declared:
        listed = ", ".join(str(each) for each in state.declared[name].members)
        yield f"refresh group {name} declares {listed}"
    for point in group.convergence_points:
        for found in diamonds_into(point, state.reads):
            yield f"{found.shared_source} reaches {point} {found.ways}"
    for part in group.components:
        if part.cyclic:
            yield f"{', '.join(str(each) for each in part.members)} read each other"


def isolation(state: CatalogState, group: Group) -> Isolation:
    """In force: what the members read, not what somebody wished for."""
    loose = state.opted_out.issuperset(group.members)
    return Isolation.READ_COMMITTED if loose else Isolation.REPEATABLE_READ
