"""Which consistency groups a tick has to look at, and why the others wait: catalog rows only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from anabranch.catalog.groups import Group
from anabranch.graph.effective import Schedules, effective_schedules
from anabranch.graph.policies import SchedulePolicy, group_policy, is_group_due, said_policy
from anabranch.model import WaitCode
from anabranch.names import TableName
from anabranch.refresh.failures import busy, hindrance
from anabranch.refresh.waiting import Wait, Waiting
from anabranch.schedules import EVERY_TICK, Schedule, ScheduleKind

BY_HAND = "refreshed on request only"
SKEW = timedelta(seconds=5)  # by which clocks may differ


@dataclass(frozen=True)
class Plan:
    """What becomes of each group in a tick; `work` and `pulled` in order, upstreams first.

    `pulled` are groups that nobody asked for but a table that reads them and has to stand at one cut.
    """

    waits: Mapping[Group, Wait]
    work: tuple[Group, ...]
    pulled: frozenset[Group]


@dataclass(frozen=True)
class Agenda(Waiting):
    """What there is to do at a moment, for the scheduler.

    It also waits for tables that failed, whose time has not come, and that somebody else refreshes; and
    it takes boundaries as they are, or waits for somebody to make them fit.
    """

    now: datetime
    policy: SchedulePolicy = SchedulePolicy.FASTEST  # of tables that say nothing
    leased: frozenset[TableName] = frozenset()  # for listings; a tick finds out when it tries

    @cached_property
    def schedules(self) -> Mapping[TableName, Schedules]:
        """How often each table is to be refreshed; nothing for one that is refreshed by hand."""
        own = {name: Schedule.parse(each.schedule) for name, each in self.state.streams.items()}
        reads = {name: self.state.reads.get(name, ()) for name in self.state.streams}
        return effective_schedules(reads, own, self.groups, EVERY_TICK)

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
        if found := super().held_up(group):
            return found
        above = self.needs(group) if policy is SchedulePolicy.SLOWEST else []
        late = next((each for each in above if not self.is_group_due(each)), None)
        if late is None:
            return None
        return Wait.until_due(next(name for name in late.members if name in self.lagging))

    def of_members(self, group: Group) -> Wait | None:
        found = super().of_members(group) or self._unfit(group)
        if found is None and not self.leased.issuperset(group.members):
            return self._leased(group)  # all of it leased: it is being refreshed right now
        return found

    def of_needed(self, above: Group) -> Wait | None:
        if boundary := self._unfit(above):
            return boundary
        found = super().of_members(above) or self._leased(above)
        return found and found.passed_on()

    def hindrance(self, name: TableName) -> tuple[WaitCode, str] | None:
        return hindrance(self.state, name, self.now)

    def needed(self, names: tuple[TableName, ...]) -> list[TableName]:
        return self.behind(names)

    def _leased(self, group: Group) -> Wait | None:
        held = (name for name in group.members if name in self.leased)
        return next((Wait(*busy(name), name) for name in held), None)

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
