"""Indexes of source and stream tables: CREATE and DROP."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from anabranch.catalog import streams
from anabranch.catalog.indexes import Index, all_indexes
from anabranch.catalog.store import Connection
from anabranch.clusters import kept_on, known
from anabranch.errors import (
    AlreadyExists,
    FileMissing,
    PublishConflict,
    Refused,
    UnknownName,
    Unsupported,
)
from anabranch.lake.indexes import is_current
from anabranch.model import Columns
from anabranch.names import TableName, shown
from anabranch.runtime import Runtime, Transaction, check_new_name
from anabranch.sql.statements.records import CreateIndex, DropIndex


def create_index(runtime: Runtime, statement: CreateIndex) -> TableName:
    """Sort a copy of the table; from now on it is kept in every publish that changes the table."""
    cluster = known(runtime.store, statement.cluster)

    def act(tx: Transaction) -> TableName:
        table = tx.world.resolve(statement.table)
        runtime.lake.attached.refuse_write(table)
        before = indexes_of(runtime, tx, table)
        same = [each for each in before if each.name.lower() == statement.name.lower()]
        if same and statement.if_not_exists:
            return table
        if same:
            name = shown(same[0].name)
            raise AlreadyExists(
                f"index {name} of {table} already exists",
                hint=f"DROP INDEX {shown(name)} ON {table}",
            )
        if table in tx.world.views:
            raise Refused(f"{table} is a view: it has no rows to sort", hint="index a table")
        refuse_copy(runtime, table)
        columns = sortable(tx.world.version(table).columns, statement.columns, table)
        index = Index(table, statement.name, columns, cluster)
        check_new_name(tx, index.copy)
        kept_on(tx, cluster)
        guard(runtime, tx, table)
        set_indexes(tx, table, (*before, index))
        return table

    return runtime.write("create index", act)


def drop_index(runtime: Runtime, statement: DropIndex) -> TableName:
    def act(tx: Transaction) -> TableName:
        table = tx.world.resolve(statement.table)
        before = indexes_of(runtime, tx, table)
        left = [each for each in before if each.name.lower() != statement.name.lower()]
        if len(left) == len(before) and not statement.if_exists:
            names = [each.name for each in before]
            raise UnknownName(
                f"{table} has no index {shown(statement.name)}", name=statement.name, known=names
            )
        guard(runtime, tx, table)
        set_indexes(tx, table, left)
        return table

    return runtime.write("drop index", act)


def check_source(runtime: Runtime, name: TableName) -> None:
    """Stream tables change only by refreshes."""
    with runtime.store.reading() as c:
        found = streams.get(c, name)
    if found is not None:
        raise Refused(
            f"{name} is a stream table: only its query fills it",
            hint="write to its sources; ALTER or DROP STREAM TABLE changes the table",
        )
    refuse_copy(runtime, name)


def set_indexes(tx: Transaction, table: TableName, wanted: Sequence[Index]) -> None:
    """The indexes that a table shall have once the transaction is published: the rest is dropped."""
    tx.indexes[table] = tuple(wanted)
    if table not in tx.stage.changes:  # whoever changes it meanwhile would not know of them
        tx.stage.expect(table, tx.world.pointers.get(table))


def guard(runtime: Runtime, tx: Transaction, table: TableName) -> None:
    """Two who change the indexes of a table at once: the second looks again."""
    with runtime.store.reading() as c:
        before = all_indexes(c).get(table, ())

    def check(c: Connection, cut_id: int | None) -> None:
        if all_indexes(c).get(table, ()) != before:
            raise PublishConflict(
                f"the indexes of {table} were changed by another process", hint="run it again"
            )

    tx.later(check)


def catch_up(runtime: Runtime) -> None:
    """Bring indexes along that somebody left behind: another program, or upkeep of their table."""

    with runtime.store.reading() as c:
        known = list(all_indexes(c))

    for table in known:

        def act(tx: Transaction, table: TableName = table) -> None:
            indexes = indexes_of(runtime, tx, table)
            if table in tx.world.pointers and not all(
                is_current(tx.stage, each) for each in indexes
            ):
                set_indexes(tx, table, indexes)

        with suppress(FileMissing):  # of the table: there is nothing to sort until it is mended
            runtime.write("index", act)


def indexes_of(runtime: Runtime, tx: Transaction, table: TableName) -> tuple[Index, ...]:
    if table in tx.indexes:
        return tx.indexes[table]
    with runtime.store.reading() as c:
        return all_indexes(c).get(table, ())


def sortable(columns: Columns, names: Sequence[str], table: TableName) -> tuple[str, ...]:
    """The columns as the table names them."""
    by_name = {column.name.lower(): column for column in columns}
    for name in names:
        if name.lower() not in by_name:
            known_names = [column.name for column in columns]
            raise UnknownName(f"{table} has no column {shown(name)}", name=name, known=known_names)
        if "<" in by_name[name.lower()].type:
            kind = by_name[name.lower()].type
            raise Unsupported(f"column {shown(name)} is a {kind}: it cannot be sorted by")
    return tuple(by_name[name.lower()].name for name in names)


def refuse_copy(runtime: Runtime, name: TableName) -> None:
    """An index follows its table and nothing else."""
    with runtime.store.reading() as c:
        found = all_indexes(c)
    for index in (index for each in found.values() for index in each):
        if index.copy == name:
            raise Refused(
                f"{name} is index {shown(index.name)} of {index.table}",
                hint=f"DROP INDEX {shown(index.name)} ON {index.table}",
            )
