"""Who depends on the columns of a source table: stream tables, views and indexes.

A reader depends on a column when its query means something else without it, or nothing.  The
fingerprint of its definition tells, which names every column that is looked at.  `SELECT *` looks at
all of them, and so does a query that has no plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.catalog.indexes import Index
from anabranch.errors import AnabranchError, Refused
from anabranch.graph.order import closure, dependants
from anabranch.lake.schemas import DropColumn, RenameColumn, SchemaChange
from anabranch.names import TableName, shown
from anabranch.refresh.definition import define, reach
from anabranch.world import World

Reads = Mapping[TableName, Sequence[TableName]]


@dataclass(frozen=True)
class Dependants:
    """What reads a column: by its own query, or because it reads such a table or view."""

    streams: tuple[TableName, ...] = ()
    views: tuple[TableName, ...] = ()
    indexes: tuple[Index, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.streams or self.views or self.indexes)

    def __str__(self) -> str:
        return ", ".join(
            [
                *(f"stream table {name}" for name in self.streams),
                *(f"view {name}" for name in self.views),
                *(f"index {shown(index.name)}" for index in self.indexes),
            ]
        )


def taken(changes: Sequence[SchemaChange]) -> dict[str, SchemaChange]:
    """The columns that are gone afterwards under their names."""
    return {
        change.name: change for change in changes if isinstance(change, (DropColumn, RenameColumn))
    }


def readers(
    world: World, streams: Mapping[TableName, str], table: TableName
) -> dict[TableName, str]:
    """The queries of stream tables and views that read a table, directly or through views."""
    found = {}
    for name, query in {**streams, **world.views}.items():
        try:
            tables, _ = reach(world, query)
        except AnabranchError:  # it is broken already
            continue
        if table in tables:
            found[name] = query
    return found


def meanings(world: World, queries: Mapping[TableName, str]) -> dict[TableName, str | None]:
    """What each query means here; None: nothing."""
    return {name: _meaning(world, query) for name, query in queries.items()}


def _meaning(world: World, query: str) -> str | None:
    try:
        return define(world, query).fingerprint
    except AnabranchError:
        pass
    try:  # a view may have columns that no table could
        return str(world.schema(query))
    except AnabranchError:
        return None


def with_their_readers(
    world: World, streams: Mapping[TableName, str], reads: Reads, changed: set[TableName]
) -> Dependants:
    """The same with everything that reads them, directly or not."""
    of_views = {view: _sources(world, text) for view, text in world.views.items()}
    found = closure(sorted(changed), dependants({**of_views, **reads}))
    return Dependants(tuple(sorted(found & set(streams))), tuple(sorted(found & set(world.views))))


def _sources(world: World, text: str) -> tuple[TableName, ...]:
    try:
        tables, views = reach(world, text)
    except AnabranchError:
        return ()
    return tuple(tables | views)


def refused(table: TableName, columns: Sequence[str], by: Dependants, *, renames: bool) -> Refused:
    which = ", ".join(shown(name) for name in columns)
    word = "column" if len(columns) == 1 else "columns"
    if renames:
        cure = "add a column of the new name instead, and let their queries use it"
    else:
        cure = "CASCADE drops them too, with all that reads them; or first give them other queries"
    return Refused(f"{word} {which} of {table}: read by {by}", hint=cure)
