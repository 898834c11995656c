"""Refresh by hand: stream tables brought up to date now, because somebody asked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from anabranch.catalog import history, streams
from anabranch.catalog.history import Refresh
from anabranch.errors import Refused, UnknownName
from anabranch.graph.order import closure, connected, dependants, reads_among
from anabranch.model import Status
from anabranch.names import TableName
from anabranch.refresh.failures import Failure
from anabranch.refresh.lines import MANUAL, Occasion
from anabranch.refresh.look import Look, look_around
from anabranch.refresh.unit import Pass, Result, Unit, asked_for
from anabranch.runtime import Runtime


def refresh(
    runtime: Runtime,
    names: Iterable[TableName] | None = None,
    initiated_by: str = MANUAL,
    *,
    full: bool = False,
) -> list[dict[str, Any]]:
    """Bring stream tables up to date: all, or the given ones with their groups and all they read.

    Tables that read each other become one cut.  If one of all tables fails, its consistency group
    stays as it was, the other groups are published each for itself, and the failure is raised.
    `full`: the groups of the given tables, or all groups, are recomputed whatever is stored; what
    they read from other groups is brought up to date as usual.
    """
    if runtime.transaction is not None:
        raise Refused("a refresh cannot run inside a transaction", hint="refresh after it")
    runtime.lake.fence.refuse_copies()
    occasion = Occasion(initiated_by)
    seen = look_around(runtime, asked_for=True)
    chosen = None if names is None else [found_in(seen.streams, name) for name in names]
    work = Pass(runtime, occasion, patient=True, seen=seen, executor=runtime.workers.members)
    if full:
        work.full = frozenset(seen.streams if chosen is None else chosen)
    waiting: Mapping[TableName, TableName] = {}
    if chosen is None:
        waiting = blocked(seen)
        still = {*waiting, *(name for name in seen.streams if suspended(seen, name))}
        units = together(seen, still)
    else:
        units = [asked_for(seen, chosen)]
        rebuilt = work.in_full(units[0])
        moving = {*chosen, *seen.stale(units[0].members)}.difference(rebuilt)
        refuse_suspended(seen, [name for name in units[0].members if name in moving])
    results = record(
        runtime,
        [occasion.skipped(name, f"{by} is suspended") for name, by in sorted(waiting.items())],
    )
    stale = set(seen.stale([name for unit in units for name in unit.members]))
    stale |= {name for unit in units for name in work.in_full(unit)}
    idle = [unit for unit in units if not stale.intersection(unit.members)]
    results += work.idle([name for unit in idle for name in unit.members])
    failures: list[Failure] = []
    for unit in units:
        if stale.intersection(unit.members):
            for found in tried(work, unit):
                results += found.lines or record(runtime, waiting_lines(occasion, found))
                failures += [found.failure] if found.failure else []
    if failures:
        error = failures[0].error
        error.table = str(failures[0].table)
        raise error
    place = {name: at for at, name in enumerate(seen.order())}
    results.sort(key=lambda line: place.get(line.table, 0))
    return [shown(line) for line in results]


def together(seen: Look, without: Collection[TableName] = ()) -> list[Unit]:
    """All groups but those of some tables; groups that read each other are one unit."""
    left_out = set(without)
    groups = [group for group in seen.groups if not left_out.intersection(group.members)]
    parts = connected(groups, reads_among(groups, seen.reads))
    return [Unit(tuple(part), trial=len(part) > 1) for part in parts]


def tried(work: Pass, unit: Unit) -> list[Result]:
    """The unit as a whole, or if that fails every group of it."""
    found = work.refresh(unit)
    if found.failure is None or not unit.trial:
        return [found]
    work.look_again()
    return [work.refresh(Unit((group,))) for group in unit.groups]


def waiting_lines(occasion: Occasion, found: Result) -> list[Refresh]:
    """A group that has to wait for a table outside says so in its history."""
    if found.waits_for is None:
        return []
    return [occasion.skipped(name, found.reason or "") for name in found.unit.members]


def resolve(runtime: Runtime, name: TableName) -> TableName:
    """The name of a stream table as it is kept."""
    with runtime.store.reading() as c:
        return found_in(streams.all_streams(c), name)


def found_in(known: Collection[TableName], name: TableName) -> TableName:
    found = name.find_in(known)
    if found is None:
        raise UnknownName(
            f"there is no stream table {name}", name=str(name), known=[str(each) for each in known]
        )
    return found


def suspended(seen: Look, name: TableName) -> bool:
    return seen.streams[name].status is Status.SUSPENDED


def refuse_suspended(seen: Look, order: Sequence[TableName]) -> None:
    for name in order:
        if suspended(seen, name):
            raise Refused(f"{name} is suspended", hint=f"ALTER STREAM TABLE {name} RESUME")


def blocked(seen: Look) -> dict[TableName, TableName]:
    """Tables that wait for a suspended one, and which: its group, and whatever reads it.

    Those that read a boundary take it as it is, if it is fit to be read, and do not wait.
    """
    stopped = [name for name in seen.order() if suspended(seen, name)]
    if not stopped:
        return {}
    readers = dependants(
        {
            name: [each for each in reads if each not in seen.boundaries or seen.unfit(each)]
            for name, reads in seen.reads.items()
        }
    )
    home = {name: group for group in seen.groups for name in group.members}
    return {
        other: name
        for name in stopped
        for other in closure(home[name].members, readers)
        if other in seen.streams and not suspended(seen, other)
    }


def record(runtime: Runtime, lines: list[Refresh]) -> list[Refresh]:
    if lines:
        with runtime.store.writing() as c:
            history.add(c, lines)
    return lines


def shown(line: Refresh) -> dict[str, Any]:
    return {**vars(line), "table": str(line.table), "action": line.action.value}
