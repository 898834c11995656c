"""Stream tables and views outside of a project that read it, and what a deployment makes of each.

This is found out offline.

Columns come from the project's statements and from the catalog, and a reader's query is resolved over
them as `anabranch compile` would.  What cannot be known without Spark is taken to work; promote looks
again, with Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from anabranch.catalog.deployment_state import Undo
from anabranch.deploy.readers import (
    BROKEN,
    FAILS,
    FOLLOWS,
    REBUILT,
    REFRESHED,
    STOPPED,
    WAITS,
    Reader,
)
from anabranch.deploy.snapshot import ObjectKey, Snapshot, SnapshotObject
from anabranch.errors import AnabranchError
from anabranch.graph.order import closure, dependants
from anabranch.model import Status
from anabranch.names import TableName
from anabranch.refresh.observe import CatalogState
from anabranch.runtime import Runtime
from anabranch.sql.analyze.analysis import Column, analyze
from anabranch.sql.analyze.analysis import Columns as KnownColumns
from anabranch.sql.analyze.failures import spark_judges
from anabranch.sql.analyze.tables import tables_of
from anabranch.sql.statements.read import parse_statement
from anabranch.sql.statements.records import CreateView
from anabranch.types import Type


def outside_readers(
    runtime: Runtime,
    seen: CatalogState,
    new: Snapshot,
    moved: Collection[ObjectKey],
    altered: Collection[ObjectKey],
    inside: Collection[TableName],
    staged: tuple[str, ...],
) -> tuple[Reader, ...]:
    """The readers of what a deployment moves, and of source tables whose columns it alters.

    `inside` are the objects of the project.
    """
    columns = columns_after(runtime, seen, new, moved, altered)
    return readers(seen, columns, inside, staged)


def columns_after(
    runtime: Runtime,
    seen: CatalogState,
    new: Snapshot,
    moved: Collection[ObjectKey],
    altered: Collection[ObjectKey],
) -> Columns:
    """The columns of everything once a deployment is promoted."""
    return Columns(
        runtime,
        seen,
        {key.table for key in (*moved, *altered)},
        frozenset(key.table for key in new.objects),
        lambda name, columns: declared(new.objects[ObjectKey.of(name)], columns),
        {key.table for key in altered},
    )


def readers_after_rollback(
    runtime: Runtime,
    seen: CatalogState,
    undo: Undo,
    inside: Collection[TableName],
    staged: tuple[str, ...],
) -> tuple[Reader, ...]:
    """The readers of what a roll-back brings back or takes away."""
    places, views = dict(undo.pointers), undo.views
    for altered, (old, new) in undo.altered.items():
        if seen.pointers.get(altered) == new:  # else it keeps its columns
            places[altered] = old

    def returned(name: TableName, columns: Columns) -> KnownColumns:
        if name in views:
            return columns.given(views[name])
        version = runtime.lake.version(name, places[name] or "")
        return tuple(Column(column.name, Type.parse(column.type)) for column in version.columns)

    there = frozenset({*views, *(name for name, at in places.items() if at)})
    columns = Columns(runtime, seen, {*places, *views}, there, returned)
    return readers(seen, columns, inside, staged)


def readers(
    seen: CatalogState, columns: Columns, inside: Collection[TableName], staged: tuple[str, ...]
) -> tuple[Reader, ...]:
    """Every reader of what moves, upstreams first."""
    moving = columns.moving
    own = set(inside)
    below = closure(moving, dependants(seen.reads))
    found: dict[TableName, Reader] = {}
    for name in seen.order():
        if name not in below or name in own or is_staged(name, staged):
            continue
        reads = tuple(each for each in seen.reads[name] if each in moving or each in found)
        if reads:
            found[name] = _reader(seen, columns, name, reads, found)
            if found[name].outcome in (REBUILT, REFRESHED, FOLLOWS):
                columns.following.add(name)
    outside = {
        name: text
        for name, text in sorted(seen.views.items())
        if name not in own and name not in moving and not is_staged(name, staged)
    }
    return (*found.values(), *_views(columns, outside, found))


def is_staged(name: TableName, staged: tuple[str, ...]) -> bool:
    return bool(name.namespace) and name.namespace[-1].endswith(staged)


def _views(
    columns: Columns, views: Mapping[TableName, str], found: Collection[TableName]
) -> Iterator[Reader]:
    """Views over what moves, or over such views: nothing becomes of them, but they may break."""
    read = {name: reads_of(text, {*columns.moving, *found, *views}) for name, text in views.items()}
    touched = closure({*columns.moving, *found}, dependants(read))
    for name in sorted(touched & views.keys()):
        error = columns.broken_view(name)
        reads = tuple(each for each in read[name] if each in touched or each in columns.moving)
        if error:
            before = columns.as_it_is().broken_view(name)
            yield Reader(name, reads, BROKEN if before else FAILS, before or error, "view")
        elif not {*reads} <= {*found}:
            yield Reader(name, reads, FOLLOWS, None, "view")


def reads_of(query: str, known: Collection[TableName]) -> tuple[TableName, ...]:
    """What a query names among some tables and views."""
    named = (each.find_in(known) for each in tables_of(query) if not each.is_system)
    return tuple(sorted({each for each in named if each is not None}))


def _reader(
    seen: CatalogState,
    columns: Columns,
    name: TableName,
    reads: tuple[TableName, ...],
    found: Mapping[TableName, Reader],
) -> Reader:
    stream = seen.streams[name]
    if stream.status in (Status.SUSPENDED, Status.ERROR):
        return Reader(name, reads, STOPPED)
    if error := columns.mistake(stream.query):
        return Reader(name, reads, FAILS, error)
    above = {found[each].outcome for each in reads if each in found}
    if above & {FAILS, WAITS, STOPPED}:
        return Reader(name, reads, WAITS)
    if {*reads} & (columns.moving - columns.altered):
        return Reader(name, reads, REBUILT)
    return Reader(name, reads, REFRESHED if above & {REBUILT, REFRESHED} else FOLLOWS)


@dataclass
class Columns:
    """The columns of everything as it would be, where they can be told.

    `there` are the tables and views among those that move that are there then; `moved` says which
    columns such a one has.  `altered` move only in so far as their columns do.  `following` are readers
    that get the columns of their queries.
    """

    runtime: Runtime
    seen: CatalogState
    moving: set[TableName]
    there: frozenset[TableName]
    moved: Callable[[TableName, Columns], KnownColumns]
    altered: set[TableName] = field(default_factory=set)
    following: set[TableName] = field(default_factory=set)
    known: dict[TableName, KnownColumns] = field(default_factory=dict)
    under_way: set[TableName] = field(default_factory=set)
    views: dict[TableName, str | None] = field(default_factory=dict)  # what is wrong with them

    def as_it_is(self) -> Columns:
        """The same before anything moves."""
        return Columns(self.runtime, self.seen, set(), frozenset(), lambda name, columns: None)

    def mistake(self, query: str) -> str | None:
        """What is surely wrong with a query."""
        names = self._names()
        with suppress(AnabranchError), spark_judges("a query"):  # promote asks Spark
            for name in tables_of(query):
                if name.is_system:
                    continue
                table = name.find_in(names)
                if table is None:
                    return f"there is no table {name}"
                if error := self.broken_view(table):
                    return f"view {table} fails: {error}"
            findings = analyze(query, self.of).findings
            return findings[0].message if findings else None
        return None

    def broken_view(self, name: TableName) -> str | None:
        """What becomes wrong with a view that stays as it is."""
        if name in self.moving or name not in self.seen.views:
            return None
        if name not in self.views:
            self.views[name] = None  # a view that reads itself is none of ours
            self.views[name] = self.mistake(self.seen.views[name])
        return self.views[name]

    def _names(self) -> set[TableName]:
        return ({*self.seen.pointers, *self.seen.views} - self.moving) | self.there

    def of(self, name: TableName) -> KnownColumns:
        found = name.find_in(self._names())
        if found is None or found in self.under_way:
            return None
        if found not in self.known:
            self.under_way.add(found)
            self.known[found] = self._columns(found)
            self.under_way.discard(found)
        return self.known[found]

    def _columns(self, name: TableName) -> KnownColumns:
        if name in self.moving:
            return self.moved(name, self)
        if name in self.seen.views:
            return self.given(self.seen.views[name])
        if name not in self.seen.pointers:
            return None
        if name in self.following:
            return self.given(self.seen.streams[name].query)
        version = self.runtime.lake.version(name, self.seen.pointers[name])
        return tuple(Column(column.name, Type.parse(column.type)) for column in version.columns)

    def given(self, query: str) -> KnownColumns:
        with suppress(AnabranchError), spark_judges("a query"):
            return analyze(query, self.of).columns
        return None


def declared(each: SnapshotObject, columns: Columns) -> KnownColumns:
    """The columns of an object of the project."""
    if each.kind == "table":
        return tuple(Column(name) for name, _ in each.columns) or None
    statement = parse_statement(each.sql)
    if isinstance(statement, CreateView) and statement.columns:
        return tuple(Column(name) for name in statement.columns)
    return columns.given(each.query)
