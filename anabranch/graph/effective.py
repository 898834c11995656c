"""Effective schedules: how often a table is refreshed whose schedule is calculated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from anabranch.graph.components import Component
from anabranch.graph.groups import ConsistencyGroup
from anabranch.graph.order import T, dependants
from anabranch.schedules import Schedule, ScheduleKind

# A table is due when one of its schedules says so; by hand: none.
Schedules = tuple[Schedule, ...]
OWN = (ScheduleKind.EVERY, ScheduleKind.CRON)


def effective_schedules(
    reads: Mapping[T, Iterable[T]],
    schedules: Mapping[T, Schedule],
    groups: Sequence[ConsistencyGroup[T]],
    fallback: Schedule,
) -> dict[T, Schedules]:
    """A schedule of its own stays.  A calculated one is the least of

    - the effective schedules of the tables that read it, and in a cycle the members' own ones;
    - if nobody asks: of the other members of its consistency group, which it follows;
    - if nobody there has one: the fallback.

    A table that is refreshed by hand asks nothing of its upstreams.
    """
    readers = dependants(reads)
    found: dict[T, Schedules] = {}
    for group in reversed(groups):
        for part in reversed(group.components):
            asked = least([*_own(part, schedules), *_asked(part, readers, found)])
            found |= {name: _effective(schedules[name], asked) for name in part.members}
        together = least(each for name in group.members for each in found[name])
        for name in group.members:
            if schedules[name].kind is ScheduleKind.CALCULATED and not found[name]:
                found[name] = together or (fallback,)
    return {name: found[name] for name in reads}


def least(schedules: Iterable[Schedule]) -> Schedules:
    """The shortest interval and every cron text: due as soon as any of the schedules is."""
    given = set(schedules)
    every = [each for each in given if each.kind is ScheduleKind.EVERY]
    crons = [each for each in given if each.kind is ScheduleKind.CRON]
    shortest = [min(every, key=lambda each: each.seconds)] if every else []
    return (*shortest, *sorted(crons, key=lambda each: each.cron))


def _effective(schedule: Schedule, asked: Schedules) -> Schedules:
    if schedule.kind is ScheduleKind.CALCULATED:
        return asked
    return (schedule,) if schedule.kind in OWN else ()


def _own(part: Component[T], schedules: Mapping[T, Schedule]) -> list[Schedule]:
    return [schedules[name] for name in part.members if schedules[name].kind in OWN]


def _asked(
    part: Component[T], readers: Mapping[T, Iterable[T]], found: Mapping[T, Schedules]
) -> list[Schedule]:
    return [
        each
        for name in part.members
        for reader in readers.get(name, ())
        for each in found.get(reader, ())  # readers inside the component are not there yet
    ]
