"""Which consistency groups a tick has to look at, and why the others wait: catalog rows only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

from anabranch.catalog.groups import Group
from anabranch.graph.effective import Schedules, effective_schedules
from anabranch.graph.policies import SchedulePolicy, group_policy, is_group_due, said_policy
from anabranch.model import WaitCode
from anabranch.names import TableName
from anabranch.refresh.failures import busy, hindrance
from anabranch.refresh.observe import CatalogState
from anabranch.schedules import EVERY_TICK, Schedule, ScheduleKind

NOT_DUE = "not due"
BY_HAND = "refreshed by hand only"
SKEW = timedelta(seconds=5)  # by which clocks may differ


@dataclass(frozen=True)
class Wait:
    """Why a group is left alone, and for which table, if it is one's fault."""

    code: WaitCode
    reason: str
    by: TableName | None = None

    @classmethod
    def until_due(cls, late: TableName | None = None) -> Wait:
        reason = NOT_DUE if late is None else f"{NOT_DUE}: waits for {late}"
        return cls(WaitCode.NOT_DUE, reason, late)


@dataclass(frozen=True)
class Plan:
    """What becomes of each group in a tick; `work` and `pulled` in order, upstreams first.

    `pulled` are groups that nobody asked for but a table that reads them and has to stand at one cut.
    """

    waits: Mapping[Group, Wait]
    work: tuple[Group, ...]
    pulled: frozenset[Group]


@dataclass(frozen=True)
class Agenda:
    """What there is to do at a moment."""

    state: CatalogState
    now: datetime
    policy: SchedulePolicy = SchedulePolicy.FASTEST  # of tables that say nothing
    leased: frozenset[TableName] = frozenset()  # for listings; a tick finds out when it tries

    @cached_property
    def groups(self) -> list[Group]:
        return self.state.groups

    @cached_property
    def home(self) -> Mapping[TableName, Group]:
        return {name: group for group in self.groups for name in group.members}

    @cached_property
    def schedules(self) -> Mapping[TableName, Schedules]:
        """How often each table is to be refreshed; nothing for one that is refreshed by hand."""
        own = {name: Schedule.parse(each.schedule) for name, each in self.state.streams.items()}
        reads = {name: self.state.reads.get(name, ()) for name in self.state.streams}
        return effective_schedules(reads, own, self.groups, EVERY_TICK)

    @cached_property
    def lagging(self) -> frozenset[TableName]:
        """Tables that do not stand at the cut of the state."""
        state = self.state
        order = [name for name in state.order() if name not in state.boundaries]
        return frozenset(state.lagging(order))

    @property
    def something_to_do(self) -> bool:
        always = (each.options.get("always") for each in self.state.streams.values())
        return bool(self.lagging) or any(always)

    @cached_property
    def plan(self) -> Plan:
        """Groups that are due and not held up, and what they need to stand at one cut."""
        waits = {group: wait for group in self.groups if (wait := self.wait(group)) is not None}
        going = [group for group in self.groups if group not in waits]
        needed = {each for group in going for each in self.needs(group)}
        pulled = frozenset(needed.difference(going))
        work = tuple(group for group in self.groups if group in pulled or group not in waits)
        left = {group: wait for group, wait in waits.items() if group not in pulled}
        return Plan(left, work, pulled)

    def waits(self, group: Group) -> str | None:
        """Why a group is left alone in this tick; None when it is due and nothing hinders it."""
        found = self.wait(group)
        return found.reason if found is not None else None

    def wait(self, group: Group) -> Wait | None:
        due = {name: self.is_due(name) for name in group.members if self.schedules[name]}
        if not due:
            return Wait(WaitCode.BY_HAND, BY_HAND)
        policy = self.policy_of(group)
        if not is_group_due(group, policy, due):
            late = [name for name, each in due.items() if not each]
            if len(late) == len(due):
                return Wait.until_due()
            return Wait.until_due(late[0])
        return self.held_up(group, policy)

    def held_up(self, group: Group, policy: SchedulePolicy | None = None) -> Wait | None:
        """Whom a group that is due has to wait for: a member, or a table that it reads."""
        if found := self._hindrance(group):
            return found
        if boundary := self._unfit(group):
            return boundary
        refreshing = self.leased.issuperset(group.members)  # all of it is leased: right now
        if not refreshing and (found := self._leased(group)):
            return found
        for above in self.needs(group):
            if boundary := self._unfit(above):
                return boundary
            if hindered := self._hindrance(above) or self._leased(above):
                return replace(hindered, reason=f"waits for {hindered.by}: {hindered.reason}")
            if policy is SchedulePolicy.SLOWEST and not self.is_group_due(above):
                late = next(name for name in above.members if name in self.lagging)
                return Wait.until_due(late)
        return None

    def needs(self, group: Group) -> list[Group]:
        """Groups that must be brought to the cut before this one, upstreams first; whole groups."""
        found: dict[Group, None] = {}
        waiting = [group] if self.lagging else []
        while waiting:
            for name in self.state.needed(waiting.pop().members):
                above = self.home[name]
                if above is not group and above not in found and name in self.lagging:
                    found[above] = None
                    waiting.append(above)
        return [each for each in self.groups if each in found] if found else []

    def _hindrance(self, group: Group) -> Wait | None:
        for name in group.members:
            if found := hindrance(self.state, name, self.now):
                return Wait(*found, name)
        return None

    def _leased(self, group: Group) -> Wait | None:
        for name in group.members:
            if name in self.leased:
                return Wait(*busy(name), name)
        return None

    def _unfit(self, group: Group) -> Wait | None:
        found = self.state.unfit_above(group.members, group.members)
        if found is None:
            return None
        return Wait(WaitCode.BEHIND, f"waits for {found[0]}: {found[1]}", found[0])

    def is_group_due(self, group: Group) -> bool:
        due = {name: self.is_due(name) for name in group.members if self.schedules[name]}
        return is_group_due(group, self.policy_of(group), due)

    def policy_of(self, group: Group) -> SchedulePolicy:
        known = self.state.streams
        said = {name: said_policy(known[name].diamond_schedule_policy) for name in group.members}
        return group_policy(group, said, self.policy)

    def is_due(self, name: TableName) -> bool:
        """A table that was never filled, or had an error, is due at once."""
        last = self.state.streams[name].last_refresh_at
        if last is None or not self.state.streams[name].populated:
            return True
        if last > self.now + SKEW:  # of a clock that was ahead: nobody waits for that time
            return True
        return any(each <= self.now + self.state.ahead for each in self.next_times(name, last))

    def next_times(self, name: TableName, last: datetime) -> list[datetime]:
        """By the clock on the wall, which cron texts mean; when it is set, so is `last`."""
        return [each.next_after(last + self.state.ahead) for each in self.schedules[name]]

    def interval(self, group: Group) -> float | None:
        """The shortest time between two refreshes that the group's schedules ask for."""
        every = [
            each.seconds
            for name in group.members
            for each in self.schedules[name]
            if each.kind is ScheduleKind.EVERY and each.seconds
        ]
        return min(every, default=None)
