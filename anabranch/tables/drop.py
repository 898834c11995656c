"""DROP TABLE, DROP VIEW and DROP STREAM TABLE: what is read does not go without its readers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from functools import partial

from anabranch.catalog import streams
from anabranch.catalog import views as view_rows
from anabranch.catalog.groups import Reads
from anabranch.catalog.read_set import ReadSet, readers_of, tokens_of
from anabranch.catalog.store import Connection
from anabranch.catalog.streams import StreamTable
from anabranch.errors import Refused, UnknownName
from anabranch.names import TableName
from anabranch.refresh.cycles import component_of
from anabranch.refresh.observe import CatalogState, observe_now
from anabranch.refresh.run import resolve
from anabranch.runtime import Runtime, Transaction
from anabranch.tables.dependants import Dependants, below, check_unread
from anabranch.tables.indexes import check_source
from anabranch.tables.stream_tables import forget, gone, refuse_in_transaction
from anabranch.tables.writing import Names, write_tables


class Kind(Enum):
    TABLE = "table"
    VIEW = "view"
    STREAM = "stream table"


def drop(
    runtime: Runtime, name: TableName, kind: Kind, *, cascade: bool = False, if_exists: bool = False
) -> Dependants:
    """Remove a table, view or stream table; what is dropped with it: nothing without `cascade`.

    What others read stays.  With `cascade` all stream tables and views that read it, directly or not,
    go in the same publish.
    """
    runtime.lake.attached.refuse_write(name)
    verb = f"drop {kind.value}"
    if kind is not Kind.STREAM and not cascade:
        runtime.write(verb, lambda tx: _act(runtime, tx, name, kind, if_exists))
        return Dependants()
    refuse_in_transaction(runtime, "dropped")
    if kind is Kind.STREAM:
        if if_exists and name.find_in(observe_now(runtime).streams) is None:
            return Dependants()
        name = resolve(runtime, name)
    with_it = Dependants()

    def act(tx: Transaction, seen: CatalogState) -> Names:
        nonlocal with_it
        found = _found(runtime, tx, seen.streams, name, kind, if_exists)
        if found is None:
            return ()
        with_it = _drop(tx, seen.streams, seen.reads, found, kind, cascade=cascade)
        own = (found,) if kind is Kind.STREAM else ()
        written = (*own, *with_it.streams)
        tx.used.add(ReadSet(tokens_of(seen.streams, written)))
        return written

    write_tables(runtime, verb, act)
    return with_it


def drop_in(runtime: Runtime, tx: Transaction, name: TableName, kind: Kind) -> None:
    """Drop a source table or a view as part of a transaction; refused while anything reads it."""
    _act(runtime, tx, name, kind, if_exists=False)


def _act(runtime: Runtime, tx: Transaction, name: TableName, kind: Kind, if_exists: bool) -> None:
    with runtime.store.reading() as c:
        known, reads = streams.all_streams(c), streams.dependencies(c)
    found = _found(runtime, tx, known, name, kind, if_exists)
    if found is not None:
        _drop(tx, known, reads, found, kind, cascade=False)


def _found(
    runtime: Runtime,
    tx: Transaction,
    known: Mapping[TableName, StreamTable],
    name: TableName,
    kind: Kind,
    if_exists: bool,
) -> TableName | None:
    if kind is Kind.STREAM:
        if name not in known:
            raise gone(name)
        return name
    found = tx.world.find(name)
    if found is None and if_exists:
        return None
    if kind is Kind.VIEW:
        if found is None or found not in tx.world.views:
            views = [str(view) for view in tx.world.views]
            raise UnknownName(f"there is no view {name}", name=str(name), known=views)
        return found
    found = tx.world.resolve(name)
    if found in tx.world.views:
        raise Refused(f"{found} is a view", hint=f"DROP VIEW {found}")
    check_source(runtime, found)
    return found


def _drop(
    tx: Transaction,
    known: Mapping[TableName, StreamTable],
    reads: Reads,
    name: TableName,
    kind: Kind,
    *,
    cascade: bool,
) -> Dependants:
    by = below(tx.world, known, reads, [name]).without(name)
    if by and not cascade:
        raise _still_read(name, by, component_of(reads, name))
    tx.used.readers[name] = readers_of(name, reads)
    going = by
    if kind is Kind.STREAM:
        going = Dependants((name, *by.streams), by.views)
    elif kind is Kind.VIEW:
        going = Dependants(by.streams, (name, *by.views))
    drop_all(tx, going)
    if kind is Kind.TABLE:
        tx.stage.drop(name)
    tx.later(lambda c, cut_id: check_unread(c, [name, *by.streams, *by.views]))
    return by


def drop_all(tx: Transaction, going: Dependants) -> None:
    """Views first: what is left must not lead to tables that are gone."""
    expect_views(tx, going.views)
    tx.world.views = {v: text for v, text in tx.world.views.items() if v not in going.views}
    for view in going.views:
        tx.later(partial(_forget_view, view))
    for stream in going.streams:
        if tx.stage.exists(stream):  # another program may have dropped it
            tx.stage.drop(stream)
        tx.later(partial(forget, stream))
    if going.streams or going.views:
        tx.later(lambda c, cut_id: check_unread(c, (*going.streams, *going.views)))


def expect_views(tx: Transaction, views: Iterable[TableName]) -> None:
    """Publish only if these views still are what the transaction found when it first used them."""
    for view in views:
        tx.used.views.setdefault(view, tx.world.views.get(view))


def _forget_view(view: TableName, c: Connection, cut_id: int | None) -> None:
    view_rows.remove(c, view)


def _still_read(
    name: TableName, by: Dependants, component: Collection[TableName] | None
) -> Refused:
    hint = "CASCADE drops those too"
    if component is not None and len(component) > 1:
        listed = ", ".join(str(each) for each in by.streams)
        hint += f"; to keep {listed}, first break the cycle: ALTER STREAM TABLE … AS a query "
        hint += f"that does not read {name}"
    return Refused(f"{name} is read by {by.names()}", hint=hint)
