"""Who reads what: asked by every statement that takes something away from those who read it.

    drops a column           is refused, or with CASCADE drops whoever reads it (`taken`, `meanings`)
    drops a table or view    the same (`below`)
    gives another query      is refused if a reader could not follow (`Readers`)

A reader depends on a column when its query means something else without it, or nothing.  The
fingerprint of its definition tells, which names every column that is looked at.  `SELECT *` looks at
all of them, and so does a query that has no plan.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from anabranch.catalog import streams as stream_rows
from anabranch.catalog import views as view_rows
from anabranch.catalog.groups import Reads
from anabranch.catalog.indexes import Index
from anabranch.catalog.store import Connection
from anabranch.catalog.streams import StreamTable
from anabranch.cut_view import CutView
from anabranch.errors import AnabranchError, PublishConflict, Refused, UnknownName
from anabranch.graph.order import closure, dependants
from anabranch.lake.schemas import DropColumn, RenameColumn, SchemaChange
from anabranch.names import TableName, fold, shown
from anabranch.refresh.columns import carried
from anabranch.refresh.definition import check_mode, define, given_columns, reach
from anabranch.sql.analyze.tables import tables_of
from anabranch.sql.text.column_names import only_columns

BEFORE = "_ab_before"  # what stands for a table or view as it was, in its own schema


@dataclass(frozen=True)
class Dependants:
    """What reads a column, table or view: by its own query, or because it reads what does."""

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

    def without(self, name: TableName) -> Dependants:
        return replace(
            self,
            streams=tuple(each for each in self.streams if each != name),
            views=tuple(each for each in self.views if each != name),
        )

    def names(self) -> str:
        """In short: only views say what they are."""
        return ", ".join([*map(str, self.streams), *(f"view {name}" for name in self.views)])


def taken(changes: Sequence[SchemaChange]) -> dict[str, SchemaChange]:
    """The columns that are gone afterwards under their names."""
    return {
        change.name: change for change in changes if isinstance(change, (DropColumn, RenameColumn))
    }


def readers(
    world: CutView, streams: Mapping[TableName, str], table: TableName
) -> dict[TableName, str]:
    """The queries of stream tables and views that read a table, directly or through views."""
    return {name: query for name, (query, read) in _reads(world, streams).items() if table in read}


def _reads(
    world: CutView, streams: Mapping[TableName, str]
) -> dict[TableName, tuple[str, frozenset[TableName]]]:
    """The queries of stream tables and views, with all tables and views that they lead to."""
    found = {}
    for name, query in {**streams, **world.views}.items():
        try:
            tables, through = reach(world, query)
        except AnabranchError:  # it is broken already
            continue
        found[name] = query, tables | through
    return found


def meanings(world: CutView, queries: Mapping[TableName, str]) -> dict[TableName, str | None]:
    """What each query means here; None: nothing."""
    return {name: _meaning(world, query) for name, query in queries.items()}


def _meaning(world: CutView, query: str) -> str | None:
    try:
        return define(world, query).fingerprint
    except AnabranchError:
        pass
    try:  # a view may have columns that no table could
        return str(world.schema(query))
    except AnabranchError:
        return None


def below(
    world: CutView, streams: Collection[TableName], reads: Reads, changed: Collection[TableName]
) -> Dependants:
    """The stream tables and views among some, and all that read them, directly or not."""
    of_views = {view: _sources(world, text) for view, text in world.views.items()}
    found = closure(sorted(changed), dependants({**of_views, **reads}))
    return Dependants(tuple(sorted(found & set(streams))), tuple(sorted(found & set(world.views))))


def _sources(world: CutView, text: str) -> tuple[TableName, ...]:
    try:
        tables, views = reach(world, text)
    except AnabranchError:
        return ()
    return tuple(tables | views)


def check_views(c: Connection, dropped: Collection[TableName]) -> None:
    """Refuse when somebody else made a view over what is dropped meanwhile."""
    gone = {name.folded for name in dropped}
    for view, text in sorted(view_rows.all_views(c).items()):
        for name in sorted(tables_of(text)):
            if name.folded in gone:
                raise PublishConflict(f"view {view} reads {name} now", hint="run it again")


def check_unread(c: Connection, dropped: Collection[TableName]) -> None:
    """Refuse when somebody else made a reader of what is dropped meanwhile."""
    for reader, reads in sorted(stream_rows.dependencies(c).items()):
        for name in sorted(set(reads).intersection(dropped)):
            raise PublishConflict(f"{reader} reads {name} now", hint="run it again")
    check_views(c, dropped)


def refused(table: TableName, columns: Sequence[str], by: Dependants, *, renames: bool) -> Refused:
    which = ", ".join(shown(name) for name in columns)
    word = "column" if len(columns) == 1 else "columns"
    if renames:
        cure = "add a column of the new name instead, and let their queries use it"
    else:
        cure = "CASCADE drops them too, with all that reads them; or change their queries first"
    return Refused(f"{word} {which} of {table}: read by {by}", hint=cure)


# -- a table or view that gets another query, and so other columns --------------------------------


@dataclass(frozen=True)
class Standing:
    """What a reader is now: its meaning, None if it could not be refreshed or read; its columns."""

    meaning: str | None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Readers:
    """Those who read a table or view by their own queries, as they stand before it changes."""

    table: TableName
    columns: tuple[str, ...]
    streams: Mapping[TableName, StreamTable]
    queries: Mapping[TableName, str]
    world: CutView  # before the change
    before: Mapping[TableName, Standing]
    cyclic: frozenset[TableName]  # their columns are settled together, when they are refreshed

    @classmethod
    def of(
        cls,
        world: CutView,
        streams: Mapping[TableName, StreamTable],
        reads: Reads,
        tables: Collection[TableName],
    ) -> list[Readers]:
        """The readers of each table, which may itself be one."""
        world = replace(world, pointers=dict(world.pointers), views=dict(world.views))
        found = _reads(world, {name: each.query for name, each in streams.items()})
        back = dependants(reads)
        return [cls._of_one(world, streams, found, back, table) for table in sorted(tables)]

    @classmethod
    def _of_one(
        cls,
        world: CutView,
        streams: Mapping[TableName, StreamTable],
        found: Mapping[TableName, tuple[str, frozenset[TableName]]],
        back: Mapping[TableName, Collection[TableName]],
        table: TableName,
    ) -> Readers:
        queries = {
            name: query for name, (query, read) in found.items() if table in read and name != table
        }
        cyclic = {name for name in queries if name in closure(back.get(name, ()), back)}
        try:
            columns = _columns(world, table)
        except AnabranchError:  # it is broken already, and so are they
            columns, queries = (), {}
        before = {name: standing(world, streams, name, query) for name, query in queries.items()}
        return cls(table, columns, streams, queries, world, before, frozenset(cyclic))

    def hurt(self, world: CutView) -> Dependants:
        """Those who cannot follow to what the table or view is in this world."""
        if not self.queries:
            return Dependants()
        there = {fold(name) for name in _columns(world, self.table)}
        kept = [name for name in self.columns if fold(name) in there]
        found = {name for name in self.queries if self._breaks(world, name)}
        if len(kept) < len(self.columns):
            found |= self._changed_without(kept, self.queries.keys() - found)
        named = sorted(found)
        return Dependants(
            tuple(name for name in named if name in self.streams),
            tuple(name for name in named if name not in self.streams),
        )

    def refuse(self, world: CutView, *, cure: str) -> None:
        if found := self.hurt(world):
            there = {fold(name) for name in _columns(world, self.table)}
            gone = [shown(name) for name in self.columns if fold(name) not in there]
            what = f" would lose {', '.join(gone)}, and" if gone else ""
            raise Refused(
                f"{self.table}{what} is read by {found}, which could not follow", hint=cure
            )

    def _breaks(self, world: CutView, name: TableName) -> bool:
        if self.before[name].meaning is None:
            return False
        if name not in self.cyclic:
            return standing(world, self.streams, name, self.queries[name]).meaning is None
        try:
            define(world, self.queries[name])
        except UnknownName:
            return True
        except AnabranchError:
            pass
        return False

    def _changed_without(self, kept: Sequence[str], names: Collection[TableName]) -> set[TableName]:
        """Those to whom a column that goes has a meaning though none misses it: without it, its name
        is another table's."""
        known = self.table in self.world.views or self.table in self.world.pointers
        if not kept or not known:  # a table of this very transaction
            return set()
        whole, less = (self._with(columns) for columns in (self.columns, kept))
        found = set()
        for name in names:
            one, other = (standing(world, {}, name, self.queries[name]) for world in (whole, less))
            if one.meaning and one.meaning != other.meaning and one.columns == other.columns:
                found.add(name)
        return found

    def _with(self, columns: Sequence[str]) -> CutView:
        """The world before the change, in which the table or view has some of its columns."""
        stand_in = TableName(self.table.namespace, BEFORE)
        shown_by = {**self.world.views, self.table: only_columns(columns, stand_in)}
        if self.table in self.world.views:
            shown_by[stand_in] = self.world.views[self.table]
            return replace(self.world, views=shown_by)
        pointers = {**self.world.pointers, stand_in: self.world.pointers[self.table]}
        del pointers[self.table]
        return replace(self.world, views=shown_by, pointers=pointers)


def standing(
    world: CutView, streams: Mapping[TableName, StreamTable], name: TableName, query: str
) -> Standing:
    """What a stream table or view would be here, for the next who refreshes or reads it."""
    stream = streams.get(name)
    try:
        found = define(world, query)
        if stream is not None:
            check_mode(name, stream.refresh_mode, found)
            if not carried(world.version(name).columns, found.columns):
                return Standing(None)
        return Standing(found.fingerprint, tuple(each.name for each in found.columns))
    except AnabranchError:
        if stream is not None:
            return Standing(None)
    try:  # a view may have columns that no table could
        schema = world.schema(query)
    except AnabranchError:
        return Standing(None)
    return Standing(str(schema), tuple(schema.names))


def _columns(world: CutView, name: TableName) -> tuple[str, ...]:
    name = world.resolve(name)  # made again, it may be written with other letters
    if name in world.views:
        return tuple(each.name for each in given_columns(world, world.views[name]))
    return tuple(each.name for each in world.version(name).columns)
