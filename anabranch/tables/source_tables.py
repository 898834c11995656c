"""Source tables and views: CREATE, ALTER and DROP."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from anabranch.catalog import cuts, streams
from anabranch.catalog import views as view_rows
from anabranch.catalog.lineage import set_lineage
from anabranch.catalog.read_set import ReadSet, readers_of, tokens_of
from anabranch.catalog.store import Connection
from anabranch.catalog.views import View
from anabranch.errors import AnabranchError, PublishConflict, Refused, UnknownName
from anabranch.lake import view_metadata
from anabranch.lake.comments import Comments
from anabranch.lake.places import table_root
from anabranch.lake.schemas import RenameColumn, SchemaChange
from anabranch.model import Column, Columns
from anabranch.names import TableName
from anabranch.refresh.cycles import cyclic_components, path
from anabranch.refresh.definition import lineage, reach
from anabranch.refresh.observe import CatalogState
from anabranch.runtime import Runtime, Transaction, check_new_name
from anabranch.spark.types import columns_of
from anabranch.sql.text.column_names import with_column_names
from anabranch.tables.dependants import (
    Dependants,
    Readers,
    below,
    meanings,
    readers,
    refused,
    taken,
)
from anabranch.tables.dml import append_frame
from anabranch.tables.drop import drop_all, expect_views
from anabranch.tables.indexes import check_source, guard, indexes_of, set_indexes
from anabranch.tables.stream_tables import refuse_in_transaction
from anabranch.tables.writing import Names, write_tables

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KEEP_COLUMNS = "keep the columns and types that they use, or change their queries first"
NO_COMMENTS: Mapping[str, str] = {}


def create_table(
    runtime: Runtime,
    name: TableName,
    columns: Columns,
    *,
    if_not_exists: bool = False,
    or_replace: bool = False,
    query: str | None = None,
    comments: Comments = NO_COMMENTS,
) -> None:
    """Make an empty source table, or one filled by a query."""

    def act(tx: Transaction) -> None:
        found = tx.world.find(name)
        if found is not None and if_not_exists:
            return
        frame = tx.world.sql(query) if query is not None else None
        made = columns_of(frame.schema) if frame is not None else columns
        before: Sequence[Readers] = ()
        if found is not None and or_replace and found not in tx.world.views:
            check_source(runtime, found)
            refuse_if_read(runtime, tx, found)
            before = Readers.of(tx.world, {}, {}, [found])
            tx.stage.drop(found)
            if found != name:
                tx.used.names.add(name)
        else:
            check_new_name(tx, name)
        tx.stage.create(name, made)
        for each in before:
            each.refuse(tx.world, cure=KEEP_COLUMNS)
        tx.stage.comment(name, comments)
        if frame is not None:
            append_frame(runtime, tx, name, frame)

    runtime.write("create table", act)


def alter_table(
    runtime: Runtime, name: TableName, changes: Sequence[SchemaChange], *, cascade: bool = False
) -> Dependants:
    """Change the columns; what is dropped with them, which is nothing without `cascade`.

    A column that a stream table, view or index depends on is not dropped or renamed.  With `cascade`
    they are dropped, and all that reads them, in the same publish.
    """
    if not cascade:
        runtime.write("alter table", lambda tx: _alter(runtime, tx, name, changes, cascade=False))
        return Dependants()
    refuse_in_transaction(runtime, "dropped")
    found = Dependants()

    def act(tx: Transaction, seen: CatalogState) -> Names:
        nonlocal found
        found = _alter(runtime, tx, name, changes, cascade=True)
        tx.used.add(ReadSet(tokens_of(seen.streams, found.streams)))
        return found.streams

    write_tables(runtime, "alter table", act)
    return found


def _alter(
    runtime: Runtime,
    tx: Transaction,
    name: TableName,
    changes: Sequence[SchemaChange],
    *,
    cascade: bool,
) -> Dependants:
    table = tx.world.resolve(name)
    if table in tx.world.views:
        raise Refused(f"{table} is a view", hint="CREATE OR REPLACE VIEW changes it")
    check_source(runtime, table)
    columns = taken(changes)
    with runtime.store.reading() as c:
        reads = streams.dependencies(c)
        queries = {each.name: each.query for each in streams.all_streams(c).values()}
    reading = readers(tx.world, queries, table) if columns else {}
    before = meanings(tx.world, reading)
    indexes = indexes_of(runtime, tx, table)
    tx.stage.alter(table, changes)
    if not columns:
        return Dependants()
    tx.used.readers[table] = readers_of(table, reads)
    after = meanings(tx.world, reading)
    changed = {each for each in reading if before[each] and before[each] != after[each]}
    over = tuple(
        index
        for index in indexes
        if {each.lower() for each in index.columns} & {each.lower() for each in columns}
    )
    renames = any(isinstance(each, RenameColumn) for each in columns.values())
    if (changed or over) and (renames or not cascade):
        direct = Dependants(
            tuple(sorted(changed & set(queries))), tuple(sorted(changed - set(queries))), over
        )
        raise refused(table, list(columns), direct, renames=renames)
    going = below(tx.world, queries, reads, changed)
    drop_all(tx, going)
    if over:
        guard(runtime, tx, table)
        set_indexes(tx, table, [index for index in indexes if index not in over])
    return replace(going, indexes=over)


def create_view(
    runtime: Runtime,
    name: TableName,
    query: str,
    *,
    columns: Sequence[str] | None = None,
    or_replace: bool = False,
    if_not_exists: bool = False,
) -> None:
    def act(tx: Transaction) -> None:
        found = tx.world.find(name)
        if found is not None and if_not_exists:
            return
        replaced = found is not None and or_replace and found in tx.world.views
        if not replaced:
            check_new_name(tx, name)
        target = found if replaced and found is not None else name
        text = query if columns is None else _renamed(tx, query, columns)
        sources, through = reach(tx.world, text)
        if target in through:
            raise Refused(f"view {target} would read itself")
        shape = tx.world.sql(text).schema  # Spark's analyser says what is wrong with it
        expect_views(tx, {target, *through})
        before = readers_of_view(runtime, tx, target) if replaced else []
        tx.world.views = {**tx.world.views, target: text}
        reads, lineages = readers_after(runtime, tx, target)
        for each in before:
            each.refuse(tx.world, cure=KEEP_COLUMNS)

        def rows(c: Connection, cut_id: int | None) -> None:
            before = view_rows.find(c, target)
            view_rows.remove(c, target)
            view_rows.add(c, target, text, _described(runtime, target, before, text, shape))
            streams.set_dependencies(c, reads)
            set_lineage(c, lineages)

        tx.later(rows)
        tx.later(partial(_check_there, target, sources))

    runtime.write("create view", act)


def _described(
    runtime: Runtime, name: TableName, before: View | None, text: str, shape: StructType
) -> dict[str, Any] | None:
    """The view as other engines read it; None if it has a column that no table could have."""
    try:
        columns = columns_of(shape)
    except AnabranchError:
        return None
    known = view_metadata.metadata_of(before) if before is not None else None
    place = table_root(runtime.lake.warehouse.location, name)
    return view_metadata.record_of(text, view_metadata.described(known, text, columns, place))


def readers_of_view(runtime: Runtime, tx: Transaction, view: TableName) -> list[Readers]:
    with runtime.store.reading() as c:
        known, reads = streams.all_streams(c), streams.dependencies(c)
    return Readers.of(tx.world, known, reads, [view])


def _check_there(
    view: TableName, sources: Collection[TableName], c: Connection, cut_id: int | None
) -> None:
    """Refuse when somebody else dropped meanwhile what the view reads."""
    there = cuts.newest(c)
    for name in sorted(sources):
        if name not in there:
            raise PublishConflict(
                f"{name}, which view {view} reads, was dropped", hint="run it again"
            )


def readers_after(
    runtime: Runtime, tx: Transaction, view: TableName
) -> tuple[dict[TableName, tuple[TableName, ...]], dict[TableName, Any]]:
    """What the stream tables that read a view read now, by which order refreshes go; and where their
    columns come from."""
    with runtime.store.reading() as c:
        known, queries = streams.dependencies(c), streams.all_streams(c)
    changed, lineages = {}, {}
    tx.used.readers[view] = readers_of(view, known)
    for name in sorted(tx.used.readers[view]):
        with suppress(UnknownName):  # another program dropped a table: its next refresh says so
            tables, views = reach(tx.world, queries[name].query)
            changed[name] = tuple(sorted(tables | views))
            own = tx.world.version(name).columns
            lineages[name] = lineage(tx.world, queries[name].query, own).record()
    after = {**known, **changed}
    before = cyclic_components(known)
    for component in cyclic_components(after):
        if component not in before:
            way = path(after, component)
            raise Refused(f"view {view} would make a stream table read itself: {way}")
    return changed, lineages


def _renamed(tx: Transaction, query: str, columns: Sequence[str]) -> str:
    given = tx.world.sql(query).columns
    if len(given) != len(columns):
        raise Refused(f"the view names {len(columns)} columns, its query gives {len(given)}")
    return with_column_names(query, columns)


def refuse_if_read(runtime: Runtime, tx: Transaction, name: TableName) -> None:
    """Refuse to drop what a stream table reads, now or when it is published."""
    with runtime.store.reading() as c:
        readers = tx.used.readers[name] = readers_of(name, streams.dependencies(c))
    if readers:
        listed = ", ".join(str(reader) for reader in sorted(readers))
        raise Refused(f"{name} is read by {listed}", hint="DROP TABLE … CASCADE drops them too")


def columns_from(definitions: Sequence[tuple[str, str, bool]]) -> Columns:
    return tuple(Column(name, type_, nullable) for name, type_, nullable in definitions)
