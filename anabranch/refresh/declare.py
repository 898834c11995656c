"""Stream tables as declarations: create, alter, drop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anabranch.catalog import streams
from anabranch.catalog.store import Connection
from anabranch.catalog.streams import StreamTable
from anabranch.errors import AlreadyExists, InvalidValue, Refused
from anabranch.graph.order import Cycle, closure, dependants, topological
from anabranch.model import RefreshMode, Status
from anabranch.names import TableName
from anabranch.refresh.columns import exactly, relaxed
from anabranch.refresh.definition import Definition, check_mode, define, understood
from anabranch.refresh.look import Look
from anabranch.refresh.run import (
    alike,
    look_now,
    refuse_suspended,
    resolve,
    stage_part,
    write_lines,
)
from anabranch.runtime import Runtime, Transaction, check_new_name
from anabranch.settings import Settings
from anabranch.sql.tables import tables_of

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
    diamond_schedule_policy: str = "fastest"
    initialize: bool = True


def create(
    runtime: Runtime,
    declared: Declaration,
    *,
    if_not_exists: bool = False,
    or_replace: bool = False,
) -> None:
    """Make a stream table and, unless told not to, fill it: all in one publish."""
    refuse_in_transaction(runtime, "created")
    there = alike(declared.name, look_now(runtime).streams)
    if there is None:
        create_all(runtime, [declared])
    elif or_replace:
        alter(
            runtime,
            there,
            {
                "query": declared.query,
                "schedule": declared.schedule,
                "refresh_mode": declared.refresh_mode,
                "diamond_consistency": declared.diamond_consistency,
                "diamond_schedule_policy": declared.diamond_schedule_policy,
            },
        )
    elif not if_not_exists:
        raise AlreadyExists(
            f"stream table {there} exists already",
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

    def act(tx: Transaction) -> None:
        made: dict[TableName, StreamTable] = {}
        reads: dict[TableName, tuple[TableName, ...]] = {}
        for each in in_order(declared):
            check_new_name(tx.world, each.name)
            definition = define(tx.world, each.query)
            check_mode(each.name, each.refresh_mode, definition)
            tx.stage.create(each.name, definition.columns)
            made[each.name] = _stream(each, definition)
            reads[each.name] = tuple(sorted(definition.sources | definition.views))

        def rows(c: Connection, cut_id: int | None) -> None:
            streams.add(c, made.values())
            streams.set_dependencies(c, reads)

        tx.later(rows)
        wanted = [each.name for each in declared if each.initialize]
        if wanted:
            fill(runtime, tx, made, reads, wanted, CREATE)

    runtime.write("create stream table", act)


def in_order(declared: Sequence[Declaration]) -> list[Declaration]:
    """Those that are read by others of the batch first."""
    by_name = {each.name: each for each in declared}
    if len(by_name) != len(declared):
        raise AlreadyExists("the batch names a table twice")
    try:
        order = topological({each.name: sorted(tables_of(each.query)) for each in declared})
    except Cycle as cycle:
        raise Refused(
            f"stream tables read each other in a circle: {cycle}",
            hint="break the cycle; cycles are not supported yet",
        ) from cycle
    return [by_name[name] for name in order]


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
    )


def fill(
    runtime: Runtime,
    tx: Transaction,
    made: Mapping[TableName, StreamTable],
    reads: Mapping[TableName, tuple[TableName, ...]],
    wanted: Sequence[TableName],
    initiated_by: str,
) -> None:
    """Refresh tables in the same stage, after whatever they read that is out of date."""
    now = replace(look_now(runtime), pointers=tx.world.pointers, views=tx.world.views)
    seen = replace(now, streams={**now.streams, **made}, reads={**now.reads, **reads})
    order = seen.order(wanted)
    refuse_suspended(seen, [name for name in order if name not in wanted])
    stale = set(seen.stale(order)).union(wanted)
    done, failure = stage_part(runtime, tx, [name for name in order if name in stale], seen)
    if failure is not None:
        raise failure.error

    def rows(c: Connection, cut_id: int | None) -> None:
        write_lines(c, cut_id, tx, done, initiated_by)

    tx.later(rows)


def alter(runtime: Runtime, name: TableName, changes: Mapping[str, Any]) -> None:
    """Set schedule, mode, query or options.

    A new query refills the table and brings those that read it along, in the same publish.
    """
    refuse_in_transaction(runtime, "altered")
    name = resolve(runtime, name)

    def act(tx: Transaction) -> None:
        seen = look_now(runtime)
        stream = replace(seen.streams[name], **changes)
        tx.later(lambda c, cut_id: (streams.change(c, name, **changes), None)[1])
        if not changes.keys() & {"query", "refresh_mode"}:
            return
        definition = define(tx.world, stream.query)
        check_mode(name, stream.refresh_mode, definition)
        if "query" in changes:
            requery(runtime, tx, seen, stream, definition)

    runtime.write("alter stream table", act)


def requery(
    runtime: Runtime, tx: Transaction, seen: Look, stream: StreamTable, definition: Definition
) -> None:
    """Another query: other columns perhaps, other sources, and all rows anew."""
    name, options = stream.name, definition.options
    reads = tuple(sorted(definition.sources | definition.views))
    check_no_cycle(seen, name, reads)
    fit_columns(tx, name, definition)

    def rows(c: Connection, cut_id: int | None) -> None:
        streams.change(c, name, options=options)
        streams.set_dependencies(c, {name: reads})

    tx.later(rows)
    if not stream.populated:
        return
    changed = replace(stream, options=options)
    readers = closure([name], dependants(seen.reads)) - {name}
    wanted = [name]
    for reader in seen.order():
        if reader in readers:
            fit_columns(tx, reader, understood(tx.world, reader, seen.streams[reader].query))
            wanted += [reader] if seen.streams[reader].populated else []
    fill(runtime, tx, {name: changed}, {name: reads}, wanted, ALTER)


def fit_columns(tx: Transaction, name: TableName, definition: Definition) -> None:
    stored = tx.world.version(name).columns
    wanted = relaxed(stored, definition.columns)
    if not exactly(stored, wanted):
        tx.stage.set_columns(name, wanted)


def check_no_cycle(seen: Look, name: TableName, reads: tuple[TableName, ...]) -> None:
    try:
        topological({**seen.reads, name: reads})
    except Cycle as cycle:
        raise Refused(f"{name} would read itself: {cycle}", hint="break the cycle") from cycle


def mode(text: str | RefreshMode) -> RefreshMode:
    try:
        return RefreshMode(text.upper())
    except ValueError:
        raise InvalidValue(
            f"{text!r} is not a refresh mode", hint="use AUTO, DIFFERENTIAL or FULL"
        ) from None


def option(name: str, value: str | None, settings: Settings) -> str:
    """An option of the table, checked like the setting that is its default."""
    return str(settings[name] if value is None else settings.with_(name, value)[name])


def set_status(runtime: Runtime, name: TableName, wanted: str) -> None:
    """SUSPENDED leaves the table out of refreshes; ACTIVE takes it in again."""
    if wanted.upper() not in (Status.ACTIVE.value, Status.SUSPENDED.value):
        raise InvalidValue(f"{wanted!r} cannot be set", hint="use ACTIVE or SUSPENDED")
    status = Status(wanted.upper())
    name = resolve(runtime, name)
    with runtime.store.writing() as c:
        stream = streams.get(c, name)
        assert stream is not None
        unfilled = status is Status.ACTIVE and not stream.populated
        streams.change(
            c,
            name,
            status=Status.INITIALIZING if unfilled else status,
            consecutive_errors=0,
            last_error=None,
        )


def drop(
    runtime: Runtime, name: TableName, *, cascade: bool = False, if_exists: bool = False
) -> None:
    """Remove a stream table; with `cascade` also every stream table that reads it."""
    refuse_in_transaction(runtime, "dropped")
    seen = look_now(runtime)
    if if_exists and alike(name, seen.streams) is None:
        return
    name = resolve(runtime, name)

    def act(tx: Transaction) -> None:
        readers = closure([name], dependants(look_now(runtime).reads)) - {name}
        if readers and not cascade:
            listed = ", ".join(str(reader) for reader in sorted(readers))
            raise Refused(f"{name} is read by {listed}", hint="CASCADE drops those too")
        for each in sorted({name, *readers}):
            if tx.stage.exists(each):  # another program may have dropped it
                tx.stage.drop(each)
            tx.later(lambda c, cut_id, each=each: (streams.remove(c, each), None)[1])  # type: ignore[misc]

    runtime.write("drop stream table", act)
