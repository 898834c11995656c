"""Stream tables as declarations: create, alter, drop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from anabranch.catalog import cuts, events, history, streams
from anabranch.catalog.bounds import BOUNDS
from anabranch.catalog.events import Event
from anabranch.catalog.groups import Reads
from anabranch.catalog.lineage import set_lineage
from anabranch.catalog.read_set import ReadSet, tokens_of
from anabranch.catalog.store import Connection
from anabranch.catalog.streams import StreamTable
from anabranch.clusters import kept_on
from anabranch.errors import (
    AlreadyExists,
    AnabranchError,
    InvalidValue,
    NotConverged,
    Refused,
    UnknownName,
)
from anabranch.graph.components import components
from anabranch.graph.order import closure, dependants
from anabranch.model import RefreshMode, Status
from anabranch.names import TableName
from anabranch.refresh.component import Outcome
from anabranch.refresh.cycles import (
    check_allowed,
    check_component,
    check_member,
    component_of,
    define_component,
    define_with_component,
    growth,
)
from anabranch.refresh.definition import Definition, check_mode, define, definition_notices
from anabranch.refresh.failures import FORGIVEN
from anabranch.refresh.observe import CatalogState, observe, observe_now
from anabranch.refresh.publish_sets import asked_for
from anabranch.refresh.record import Trigger, note_cuts, record_outcomes
from anabranch.refresh.run import refuse_suspended, resolve, suspended
from anabranch.refresh.staging import stage_part
from anabranch.runtime import Runtime, Transaction, check_new_name
from anabranch.sql.analyze.tables import tables_of
from anabranch.tables.column_migration import fit_columns, fit_readers
from anabranch.tables.dependants import Readers
from anabranch.tables.refresh_groups import leave_groups, notices
from anabranch.tables.refusals import Declared, refuse_early
from anabranch.tables.writing import Backfill, Names, write_tables

CREATE = "create"
ALTER = "alter"


@dataclass(frozen=True)
class Declaration:
    """All that a user says about a stream table."""

    name: TableName
    query: str
    schedule: str | None = "calculated"
    refresh_mode: RefreshMode = RefreshMode.AUTO
    diamond_consistency: str = "atomic"
    diamond_schedule_policy: str = "default"
    initialize: bool = True
    cluster: str | None = None
    max_fixpoint_iterations: int | None = None
    max_fixpoint_rows: int | None = None
    max_fixpoint_time: float | None = None

    @property
    def bounds(self) -> dict[str, Any]:
        """Those of the cycle that the table is in, or may come to be in."""
        return {name: getattr(self, name) for name in BOUNDS}


@dataclass(frozen=True)
class Part:
    """Declarations of a batch that read each other, or a single one."""

    members: tuple[Declaration, ...]
    cyclic: bool
    reads: Reads


def create(
    runtime: Runtime,
    declared: Declaration,
    *,
    if_not_exists: bool = False,
    or_replace: bool = False,
) -> None:
    """Make a stream table and, unless told not to, fill it: all in one publish."""
    refuse_in_transaction(runtime, "created")
    there = declared.name.find_in(observe_now(runtime).streams)
    if there is None:
        try:
            create_all(runtime, [declared])
            return
        except AlreadyExists:  # perhaps since we looked
            there = declared.name.find_in(observe_now(runtime).streams)
            if there is None or not (or_replace or if_not_exists):
                raise
    if or_replace:
        alter(
            runtime,
            there,
            {
                "query": declared.query,
                "schedule": declared.schedule,
                "refresh_mode": declared.refresh_mode,
                "diamond_consistency": declared.diamond_consistency,
                "diamond_schedule_policy": declared.diamond_schedule_policy,
                "cluster": declared.cluster,
                **declared.bounds,
            },
            initialize=declared.initialize,
        )
    elif not if_not_exists:
        raise AlreadyExists(
            f"stream table {there} already exists",
            hint="CREATE OR REPLACE STREAM TABLE changes its query",
        )


def refuse_in_transaction(runtime: Runtime, verb: str) -> None:
    if runtime.transaction is not None:
        raise Refused(
            f"a stream table cannot be {verb} inside a transaction",
            hint="do it before or after; create_stream_tables makes several at once",
        )


def create_all(runtime: Runtime, declared: Sequence[Declaration]) -> None:
    """Make a batch of stream tables that may read each other: all of them or none."""
    refuse_in_transaction(runtime, "created")

    def act(tx: Transaction, seen: CatalogState) -> Names:
        made: dict[TableName, StreamTable] = {}
        reads: dict[TableName, tuple[TableName, ...]] = {}
        said: list[Event] = []
        lineage: dict[TableName, Any] = {}
        parts = in_order(declared)
        for part in parts:
            check_part(runtime, tx, part)
        refuse_early(tx.world, [Declared(e.name, e.query, e.refresh_mode) for e in declared])
        for part in parts:
            found = define_part(tx, part)
            for each in part.members:
                made[each.name] = _stream(each, found[each.name])
                reads[each.name] = found[each.name].reads
                lineage[each.name] = found[each.name].lineage.record()
                said += definition_notices(each.name, each.refresh_mode, found[each.name])
            said += growth(found) if part.cyclic else []

        said += notices(seen, made, {**seen.reads, **reads})
        tx.used.definitions.update(tokens_of({}, made))

        def rows(c: Connection, cut_id: int | None) -> None:
            streams.add(c, made.values())
            streams.set_dependencies(c, reads)
            set_lineage(c, lineage)
            events.add(c, said)

        tx.later(rows)
        for each in declared:
            kept_on(tx, each.cluster)
        wanted = [each.name for each in declared if each.initialize]
        if not wanted:
            return made
        return {*made, *fill(runtime, tx, seen.declaring(made, reads), wanted, CREATE)}

    write_tables(runtime, "create stream table", act)


def in_order(declared: Sequence[Declaration]) -> list[Part]:
    """Those that are read by others of the batch first; cycles together."""
    by_name = {each.name: each for each in declared}
    folded = {str(name).lower(): name for name in by_name}
    if len(folded) != len(declared):
        raise AlreadyExists("the batch names a table twice")
    reads = {
        each.name: tuple(folded.get(str(up).lower(), up) for up in sorted(tables_of(each.query)))
        for each in declared
    }
    return [
        Part(tuple(by_name[name] for name in part.members), part.cyclic, reads)
        for part in components(reads)
    ]


def check_part(runtime: Runtime, tx: Transaction, part: Part) -> None:
    names = [each.name for each in part.members]
    for name in names:
        check_new_name(tx, name)
    if part.cyclic:
        check_allowed(runtime.settings, part.reads, [frozenset(names)])


def define_part(tx: Transaction, part: Part) -> dict[TableName, Definition]:
    """Make the tables of a batch that read each other, or a single one."""
    queries = {each.name: each.query for each in part.members}
    if not part.cyclic:
        found = {name: define(tx.world, query) for name, query in queries.items()}
    else:
        found = define_component(tx, queries)
    for each in part.members:
        check_mode(each.name, each.refresh_mode, found[each.name])
        if part.cyclic:
            component = frozenset(queries)
            check_member(tx.world, each.name, each.refresh_mode, found[each.name], component)
        else:
            tx.stage.create(each.name, found[each.name].columns)
    return found


def _stream(declared: Declaration, definition: Definition) -> StreamTable:
    return StreamTable(
        name=declared.name,
        query=declared.query,
        fingerprint=definition.fingerprint,
        refresh_mode=declared.refresh_mode,
        schedule=declared.schedule,
        diamond_consistency=declared.diamond_consistency,
        diamond_schedule_policy=declared.diamond_schedule_policy,
        options=definition.options,
        cluster=declared.cluster,
        **declared.bounds,
    )


def fill(
    runtime: Runtime,
    tx: Transaction,
    seen: CatalogState,
    wanted: Sequence[TableName],
    initiated_by: str,
    backfill: Backfill | None = None,
    keep: Callable[[Outcome], None] = lambda outcome: None,
) -> Names:
    """Refresh tables in the same stage, with their groups and all they read that is out of date, as
    far as boundaries, which are sources for whoever reads them.

    Returns all tables of those groups.  `keep` sees each outcome; `backfill` is of a table whose rows
    were staged before, and are only brought up to date.
    """
    occasion, made = Trigger(initiated_by), seen.stored
    waiting = waiting_for_boundaries(seen, wanted)
    for name, why in waiting.items():
        if seen.streams[name].populated:  # it would show rows of another query than its own
            hint = f"fill what it waits for first; nothing of {name} was changed"
            raise Refused(f"{name} {why}", hint=hint)
    tx.later(
        lambda c, cut_id: history.add(
            c, [occasion.skipped(name, why) for name, why in waiting.items()]
        )
    )
    wanted = [name for name in wanted if name not in waiting]
    unit = asked_for(seen, wanted, seen.boundaries.difference(wanted))
    known, seen = seen, seen.noting([name for name in unit.members if name not in made])
    order = unit.members
    stale = set(seen.stale(order)).union(wanted)
    refuse_suspended(seen, [name for name in order if name in stale and name not in wanted])
    found, failure = stage_part(runtime, tx, [name for name in order if name in stale], seen)
    if failure is not None:
        raise unfilled(failure.error, initiated_by)
    done = [
        backfill.told(each) if backfill and each.table == backfill.outcome.table else each
        for each in found
    ]
    for outcome in done:
        keep(outcome)
    read = {outcome.table: outcome.reads for outcome in done}
    whole = asked_for(
        replace(seen, reads={**seen.reads, **read}), wanted, seen.boundaries.difference(wanted)
    )
    tx.used.groups_after |= {group.members for group in whole.groups}
    for name in order:
        if name not in read:  # a group is published whole: those that stay must be where they were
            tx.stage.expect(name, tx.world.pointers.get(name))

    def rows(c: Connection, cut_id: int | None) -> None:
        record_outcomes(c, cut_id, done, occasion, seen.groups, kept=tx.kept.values())
        note_cuts(c, known, seen)

    tx.later(rows)
    return order


def waiting_for_boundaries(seen: CatalogState, wanted: Sequence[TableName]) -> dict[TableName, str]:
    """Those of the tables that cannot be filled, because a boundary above them is not fit to be read,
    and why; their groups wait as well."""
    unit = asked_for(seen, wanted, seen.boundaries.difference(wanted))
    late: dict[TableName, str] = {}
    for group in unit.groups:
        reads = [up for name in group.members for up in seen.reads.get(name, ())]
        above = next((late[up] for up in reads if up in late), None)
        if above is None and (unfit := seen.unfit_above(group.members, unit.members)):
            above = f"waits for {unfit[0]}: {unfit[1]}"
        if above is not None:
            late |= dict.fromkeys(group.members, above)
    return {name: late[name] for name in wanted if name in late}


def unfilled(error: AnabranchError, initiated_by: str) -> AnabranchError:
    """What was declared is not there: there is nothing to resume."""
    if isinstance(error, NotConverged):
        created = initiated_by == CREATE
        error.message += f"; nothing was {'created' if created else 'changed'}"
        error.args = (error.message,)
        error.hint = error.cure_at_creation if created else error.cure
    return error


def alter(
    runtime: Runtime, name: TableName, changes: Mapping[str, Any], *, initialize: bool = False
) -> None:
    """Set schedule, mode, query or options.

    A new query refills the table and brings those that read it along, in the same publish.  A table
    that was never filled stays so, unless it is to be initialized.
    """
    refuse_in_transaction(runtime, "altered")
    name = resolve(runtime, name)
    values = dict(changes)
    if changes.keys() & streams.DECLARED:
        values["definition"] = streams.new_token()
    backfills: list[Backfill] = []  # the newest is the last

    def act(tx: Transaction, seen: CatalogState) -> Names:
        before = seen.streams.get(name)
        if before is None:
            raise gone(name)
        tx.used.add(ReadSet(tokens_of(seen.streams, [name])))
        stream = replace(before, **values)
        kept_on(tx, values.get("cluster"))
        tx.later(lambda c, cut_id: (streams.change(c, name, **values, failed_mark=None), None)[1])
        written = [name]
        if bounds := {key: value for key, value in changes.items() if key in BOUNDS}:
            written = sorted(component_of(seen.reads, name) or written)
            tx.later(partial(_bound_component, written, bounds))
        if not changes.keys() & {"query", "refresh_mode"}:
            return written
        refuse_early(tx.world, [Declared(name, stream.query, stream.refresh_mode)])
        found = define_with_component(runtime, tx, seen, stream)
        check_mode(name, stream.refresh_mode, found[name])
        said = check_component(tx.world, seen, stream, found)
        if "query" not in changes:
            return written
        said += definition_notices(name, stream.refresh_mode, found[name])
        return requery(runtime, tx, seen, stream, found, said, backfills, initialize=initialize)

    write_tables(runtime, "alter stream table", act)


def _bound_component(
    component: Collection[TableName], bounds: Mapping[str, Any], c: Connection, cut_id: int | None
) -> None:
    """A bound is the cycle's: whichever member it is set for, all of them say the same."""
    for member in sorted(component):
        streams.change(c, member, **bounds, failed_mark=None)


def gone(name: TableName) -> UnknownName:
    return UnknownName(f"stream table {name} was dropped by another process")


def requery(
    runtime: Runtime,
    tx: Transaction,
    seen: CatalogState,
    stream: StreamTable,
    found: Mapping[TableName, Definition],
    said: Sequence[Event],
    backfills: list[Backfill],
    *,
    initialize: bool,
) -> Names:
    """Another query: other columns perhaps, other sources, and all rows from scratch.

    `found` also holds those that are in a cycle with it.  Rows that were computed in an earlier
    attempt are used again, and brought up to date.
    """
    name, definition = stream.name, found[stream.name]
    options, reads = definition.options, definition.reads
    readers_before = readers_of(tx, seen, {name, *moving_readers(seen, name, seen.reads, ())})
    for member, fitting in found.items():
        fit_columns(tx, member, fitting)
    said = [*said, *notices(seen, {name: stream}, {**seen.reads, name: reads})]

    def rows(c: Connection, cut_id: int | None) -> None:
        streams.change(c, name, options=options)
        streams.set_dependencies(c, {name: reads})
        set_lineage(c, {each: one.lineage.record() for each, one in found.items()})
        events.add(c, said)

    tx.later(rows)
    after = {**seen.reads, name: reads}
    component = component_of(after, name)
    readers = moving_readers(seen, name, after, component or ())
    tx.used.add(_unfilled_as_seen(seen, {name, *readers}))
    if not stream.populated and not initialize:
        refuse_to_leave_behind(tx, readers_before)
        return [name]
    changed = replace(stream, options=options)
    wanted = [name]
    wanted += [each for each in seen.order() if each in readers and seen.streams[each].populated]
    following = [each for each in seen.order() if each in readers.difference(found)]
    fit_readers(tx, {each: seen.streams[each].query for each in following}, after)
    refuse_to_leave_behind(tx, readers_before)
    declared = seen.declaring({name: changed}, {name: reads})
    usable = backfills and component is None and backfills[-1].usable(tx, definition.fingerprint)
    backfill = backfills[-1] if usable else None
    if backfill is not None:
        declared = backfill.put(tx, declared, changed)

    def keep(outcome: Outcome) -> None:
        if outcome.table == name and component is None and (found := Backfill.of(tx, outcome)):
            backfills.append(found)

    return {name, *fill(runtime, tx, declared, wanted, ALTER, backfill, keep)}


def readers_of(tx: Transaction, seen: CatalogState, names: Collection[TableName]) -> list[Readers]:
    """Who reads some tables, before these change; whoever is suspended stays as it is."""
    active = {name: each for name, each in seen.streams.items() if not suspended(seen, name)}
    return Readers.of(tx.world, active, seen.reads, names)


def refuse_to_leave_behind(tx: Transaction, before: Collection[Readers]) -> None:
    """Stream tables that follow have their new columns by now; views must mean something still."""
    for each in before:
        each.refuse(tx.world, cure="keep the columns that they use, or change their queries first")


def moving_readers(
    seen: CatalogState,
    name: TableName,
    reads: Mapping[TableName, Collection[TableName]],
    component: Collection[TableName],
) -> set[TableName]:
    """All who read a table, directly or through others, but not past one that is suspended: it stays
    as it is until it is resumed, unless it is of one cycle with the table."""
    resting = {each for each in seen.streams if suspended(seen, each)}.difference(component, [name])
    back = {up: readers - resting for up, readers in dependants(reads).items()}
    return closure([name], back) - {name}


def _unfilled_as_seen(seen: CatalogState, names: Collection[TableName]) -> ReadSet:
    """Tables that get no rows because they have none: for the publish to compare, since a refresh that
    fills one meanwhile moves no pointer that this work has moved."""
    unfilled = [name for name in names if not seen.streams[name].populated]
    return ReadSet(inputs={name: seen.inputs.get(name, {}) for name in unfilled})


def set_status(runtime: Runtime, name: TableName, wanted: str) -> None:
    """SUSPENDED leaves the table out of refreshes, and so its group; ACTIVE takes the group in again.

    A group moves as one: one member that is out keeps all of them out.  So whoever takes one member
    in takes in all that are out, whether a failure put them out or somebody did.  No lease is waited
    for: a long refresh keeps nobody from suspending its table.  Instead it queues up with publishes,
    which read the status in their transactions.
    """
    refuse_in_transaction(runtime, "altered")
    status = read_status(wanted)
    name = resolve(runtime, name)
    with runtime.store.writing() as c:
        cuts.hold(c)
        if streams.get(c, name) is None:
            raise gone(name)
        if status is Status.ACTIVE:
            resume(c, observe(c, runtime.lake), name)
        else:
            streams.change(c, name, status=Status.SUSPENDED, **FORGIVEN)
            said = f"suspended by hand; ALTER STREAM TABLE {name} RESUME re-enables it"
            events.record(c, name, events.SUSPENDED, said)


def read_status(wanted: str) -> Status:
    """One that somebody may set."""
    if wanted.upper() not in (Status.ACTIVE.value, Status.SUSPENDED.value):
        raise InvalidValue(f"{wanted!r} cannot be set", hint="use ACTIVE or SUSPENDED")
    return Status(wanted.upper())


def resume(c: Connection, seen: CatalogState, name: TableName) -> None:
    """The table and all members of its group that are out, with their errors forgiven."""
    for member in together_with(seen, name):
        stream = seen.streams[member]
        status = Status.ACTIVE if stream.populated else Status.INITIALIZING
        streams.change(c, member, status=status, **FORGIVEN)
        if stream.status in (Status.SUSPENDED, Status.ERROR):
            why = "" if member == name else f" with {name}, which is in the same group"
            events.record(c, member, events.RESUMED, f"taken in again{why}")


def together_with(seen: CatalogState, name: TableName) -> tuple[TableName, ...]:
    return next((group.members for group in seen.groups if name in group.members), (name,))


def forget(name: TableName, c: Connection, cut_id: int | None) -> None:
    """Take a stream table out of the catalog."""
    streams.remove(c, name)
    leave_groups(c, name)
