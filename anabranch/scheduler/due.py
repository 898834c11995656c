"""Which consistency groups a tick has to look at, and why the others wait: catalog rows only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from anabranch.catalog.groups import Group
from anabranch.graph.effective import Schedules, effective_schedules
from anabranch.graph.policies import SchedulePolicy, group_policy, is_group_due
from anabranch.names import TableName
from anabranch.refresh.failures import hindrance
from anabranch.refresh.look import Look
from anabranch.schedules import EVERY_TICK, Schedule, ScheduleKind

NOT_DUE = "not due"
BY_HAND = "refreshed by hand only"


@dataclass(frozen=True)
class Agenda:
    """What there is to do at a moment."""

    seen: Look
    now: datetime
    policy: SchedulePolicy = SchedulePolicy.FASTEST  # of convergence points that say nothing

    @cached_property
    def groups(self) -> list[Group]:
        return self.seen.groups

    @cached_property
    def schedules(self) -> Mapping[TableName, Schedules]:
        """How often each table is to be refreshed; nothing for one that is refreshed by hand."""
        own = {name: Schedule.parse(each.schedule) for name, each in self.seen.streams.items()}
        reads = {name: self.seen.reads.get(name, ()) for name in self.seen.streams}
        return effective_schedules(reads, own, self.groups, EVERY_TICK)

    def waits(self, group: Group) -> str | None:
        """Why a group is left alone in this tick; None when it is due and nothing hinders it."""
        due = {name: self.is_due(name) for name in group.members if self.schedules[name]}
        if not due:
            return BY_HAND
        policy = self.policy_of(group)
        if not is_group_due(group, policy, due):
            late = [name for name, each in due.items() if not each]
            return NOT_DUE if len(late) == len(due) else f"{NOT_DUE}: waits for {late[0]}"
        hindrances = (hindrance(self.seen, name, self.now) for name in group.members)
        return next(filter(None, hindrances), None)

    def policy_of(self, group: Group) -> SchedulePolicy:
        said = {
            name: SchedulePolicy(self.seen.streams[name].diamond_schedule_policy)
            for name in group.convergence_points
        }
        return group_policy(group, said, self.policy)

    def is_due(self, name: TableName) -> bool:
        """A table that was never filled, or had an error, is due at once."""
        last = self.seen.streams[name].last_refresh_at
        if last is None or not self.seen.streams[name].populated:
            return True
        return any(each.next_after(last) <= self.now for each in self.schedules[name])

    def interval(self, group: Group) -> float | None:
        """The shortest time between two refreshes that the group's schedules ask for."""
        every = [
            each.seconds
            for name in group.members
            for each in self.schedules[name]
            if each.kind is ScheduleKind.EVERY and each.seconds
        ]
        return min(every, default=None)
