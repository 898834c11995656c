"""Refresh by hand: stream tables brought up to date now, because somebody asked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from anabranch.catalog import foreign, history, streams
from anabranch.catalog.groups import Group
from anabranch.catalog.history import Refresh
from anabranch.errors import Refused, UnknownName
from anabranch.graph.order import closure, connected, reads_among
from anabranch.lake.attached import silent_error, unreadable_error
from anabranch.model import Status
from anabranch.names import TableName
from anabranch.refresh.failures import Failure
from anabranch.refresh.observe import CatalogState, observe_everything
from anabranch.refresh.publish_sets import PublishSet, RefreshRun, Result, asked_for
from anabranch.refresh.record import MANUAL, Trigger
from anabranch.refresh.waiting import Wait, Waiting
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
    state = observe_everything(runtime, asked_for=True)
    lines, _ = refresh_upon(runtime, state, names, initiated_by, full=full)
    return [shown(line) for line in lines]


def refresh_upon(
    runtime: Runtime,
    state: CatalogState,
    names: Iterable[TableName] | None = None,
    initiated_by: str = MANUAL,
    *,
    full: bool = False,
) -> tuple[list[Refresh], CatalogState | None]:
    """The same, for who has just observed the catalog; and the state as it is now, unless there was
    something to refresh: others may have published meanwhile."""
    trigger = Trigger(initiated_by)
    chosen = None if names is None else [found_in(state.streams, name) for name in names]
    if chosen is not None:
        refuse_unobserved(runtime, state, closure(chosen, state.reads))
    work = RefreshRun(runtime, trigger, patient=True, state=state, executor=runtime.workers.members)
    if full:
        work.full = frozenset(state.streams if chosen is None else chosen)
    asked = None if chosen is None else asked_for(state, chosen)
    waiting = Waiting(state, recomputed=frozenset() if asked is None else work.in_full(asked))
    held_up = waiting.all_held_up(waiting.groups if asked is None else asked.groups)
    refuse_held_up(waiting, held_up, chosen or ())
    left_out = [name for group in held_up for name in group.members]
    publish_sets = together(state, left_out) if asked is None else [asked.without(held_up)]
    results = record(runtime, skipped(trigger, state, held_up))
    stale = set(state.stale([name for publish_set in publish_sets for name in publish_set.members]))
    stale |= {name for publish_set in publish_sets for name in work.in_full(publish_set)}
    idle = [
        publish_set for publish_set in publish_sets if not stale.intersection(publish_set.members)
    ]
    results += work.idle([name for publish_set in idle for name in publish_set.members])
    failures: list[Failure] = []
    for publish_set in publish_sets:
        if stale.intersection(publish_set.members):
            for found in tried(work, publish_set):
                results += found.records or record(runtime, waiting_rows(trigger, found))
                failures += [found.failure] if found.failure else []
    if failures:
        error = failures[0].error
        error.table = str(failures[0].table)
        raise error
    place = {name: at for at, name in enumerate(state.order())}
    results.sort(key=lambda line: place.get(line.table, 0))
    return results, None if stale else work.look()


def together(state: CatalogState, without: Collection[TableName] = ()) -> list[PublishSet]:
    """All groups but those of some tables; groups that read each other are one set."""
    left_out = set(without)
    groups = [group for group in state.groups if not left_out.intersection(group.members)]
    parts = connected(groups, reads_among(groups, state.reads))
    return [PublishSet(tuple(part), trial=len(part) > 1) for part in parts]


def tried(work: RefreshRun, publish_set: PublishSet) -> list[Result]:
    """The set as a whole, or if that fails every group of it."""
    found = work.refresh(publish_set)
    if found.failure is None or not publish_set.trial:
        return [found]
    work.look_again()
    return [work.refresh(PublishSet((group,))) for group in publish_set.groups]


def waiting_rows(trigger: Trigger, found: Result) -> list[Refresh]:
    """A group that has to wait for a table outside says so in its history."""
    if found.waits_for is None:
        return []
    return [trigger.skipped(name, found.reason or "") for name in found.publish_set.members]


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


def refuse_unobserved(runtime: Runtime, state: CatalogState, read: Collection[TableName]) -> None:
    """Whoever asks for tables by name is told that what they read could not be observed: they would
    come out as old as that."""
    ours = (state.pointers.keys() - state.foreign) | state.views.keys() | state.streams.keys()
    if not any(foreign.catalog_of(name) for name in read if name not in ours):
        return
    with runtime.store.reading() as c:
        catalogs, known = foreign.all_catalogs(c), foreign.all_tables(c)
    for name in sorted(read):
        catalog = catalogs.get(foreign.catalog_of(name) or "")
        if catalog is None:
            continue
        if catalog.problem is not None:
            raise silent_error(catalog.name, catalog.problem)
        if name in known and (problem := known[name].problem) is not None:
            raise unreadable_error(name, problem)


def suspended(state: CatalogState, name: TableName) -> bool:
    return state.streams[name].status is Status.SUSPENDED


def refuse_suspended(state: CatalogState, order: Sequence[TableName]) -> None:
    for name in order:
        if suspended(state, name):
            raise suspension(name)


def suspension(name: TableName) -> Refused:
    return Refused(f"{name} is suspended", hint=f"ALTER STREAM TABLE {name} RESUME")


def refuse_held_up(
    waiting: Waiting, held_up: Mapping[Group, Wait], asked: Iterable[TableName]
) -> None:
    """Whoever asks for tables by name is told for whom they wait."""
    for name in asked:
        wait = held_up.get(waiting.home[name])
        if wait is not None and wait.by is not None:
            raise suspension(wait.by)


def skipped(trigger: Trigger, state: CatalogState, held_up: Mapping[Group, Wait]) -> list[Refresh]:
    """A line of history for every table that waits for another one, which is suspended."""
    return [
        trigger.skipped(name, f"{wait.by} is suspended")
        for group, wait in held_up.items()
        for name in group.members
        if not suspended(state, name)
    ]


def record(runtime: Runtime, records: list[Refresh]) -> list[Refresh]:
    if records:
        with runtime.store.writing() as c:
            history.add(c, records)
    return records


def shown(line: Refresh) -> dict[str, Any]:
    return {**vars(line), "table": str(line.table), "action": line.action.value}
