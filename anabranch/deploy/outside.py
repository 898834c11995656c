"""Stream tables outside of a project that read it, and what a deployment makes of each: found offline.

Columns come from the project's statements and from the catalog, and a reader's query is resolved over
them as `anabranch compile` would.  What cannot be known without Spark is taken to work; promote looks
again, with Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.deploy.readers import FAILS, FOLLOWS, REBUILT, REFRESHED, STOPPED, WAITS, Reader
from anabranch.deploy.snapshot import ObjectKey, Snapshot, SnapshotObject
from anabranch.errors import AnabranchError
from anabranch.graph.order import closure, dependants
from anabranch.model import Status
from anabranch.names import TableName
from anabranch.refresh.look import Look
from anabranch.runtime import Runtime
from anabranch.sql.outline import Known, Outline, outline
from anabranch.sql.statement_records import CreateView
from anabranch.sql.statements import parse_statement
from anabranch.sql.tables import tables_of


def outside_readers(
    runtime: Runtime,
    seen: Look,
    new: Snapshot,
    moved: Collection[ObjectKey],
    inside: Collection[ObjectKey],
    staged: tuple[str, ...],
) -> tuple[Reader, ...]:
    """The readers of what a deployment moves; `inside` are the objects of the project."""
    moving = {key.table for key in moved}
    columns = Columns(
        runtime,
        seen,
        moving,
        frozenset(key.table for key in new.objects),
        lambda name, columns: declared(new.objects[ObjectKey.of(name)], columns),
    )
    return readers(seen, columns, {key.table for key in inside}, staged)


def readers_after_rollback(
    runtime: Runtime,
    seen: Look,
    undo: Mapping[str, Any],
    inside: Collection[TableName],
    staged: tuple[str, ...],
) -> tuple[Reader, ...]:
    """The readers of what a roll-back brings back or takes away."""
    places = {TableName.parse(name): at for name, at in undo["pointers"].items()}
    views = {TableName.parse(row["name"]): row["query"] for row in undo["rows"]["views"]}

    def returned(name: TableName, columns: Columns) -> Outline:
        if name in views:
            return columns.given(views[name])
        version = runtime.lake.version(name, places[name] or "")
        return tuple(Known(column.name, column.type) for column in version.columns)

    there = frozenset({*views, *(name for name, at in places.items() if at)})
    columns = Columns(runtime, seen, {*places, *views}, there, returned)
    return readers(seen, columns, inside, staged)


def readers(
    seen: Look, columns: Columns, inside: Collection[TableName], staged: tuple[str, ...]
) -> tuple[Reader, ...]:
    """Every reader of what moves, upstreams first."""
    moving = columns.moving
    own = set(inside)
    below = closure(moving, dependants(seen.reads))
    found: dict[TableName, Reader] = {}
    for name in seen.order():
        if name not in below or name in own or name.namespace[-1:][0].endswith(staged or ("\0",)):
            continue
        reads = tuple(each for each in seen.reads[name] if each in moving or each in found)
        if reads:
            found[name] = _reader(seen, columns, name, reads, moving, found)
    return (*found.values(), *_views(seen, columns, own))


def _views(seen: Look, columns: Columns, own: Collection[TableName]) -> Iterator[Reader]:
    """Views outside over what moves: nothing becomes of them, but they may stop to work."""
    for name, text in sorted(seen.views.items()):
        if name in own or name in columns.moving:
            continue
        named = (each.find_in(columns.moving) for each in tables_of(text) if not each.is_system)
        reads = tuple(sorted(each for each in named if each is not None))
        if reads:
            error = columns.broken_view(name)
            yield Reader(name, reads, FAILS if error else FOLLOWS, error, "view")


def _reader(
    seen: Look,
    columns: Columns,
    name: TableName,
    reads: tuple[TableName, ...],
    moving: set[TableName],
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
    return Reader(name, reads, REBUILT if moving & {*reads} else REFRESHED)


@dataclass
class Columns:
    """The columns of everything as it would be, where they can be told.

    `there` are the tables and views among those that move that are there then; `moved` says which
    columns such a one has.
    """

    runtime: Runtime
    seen: Look
    moving: set[TableName]
    there: frozenset[TableName]
    moved: Callable[[TableName, Columns], Outline]
    known: dict[TableName, Outline] = field(default_factory=dict)
    under_way: set[TableName] = field(default_factory=set)
    views: dict[TableName, str | None] = field(default_factory=dict)  # what is wrong with them

    def mistake(self, query: str) -> str | None:
        """What is surely wrong with a query."""
        names = self._names()
        try:
            for name in tables_of(query):
                if name.is_system:
                    continue
                table = name.find_in(names)
                if table is None:
                    return f"there is no table {name}"
                if error := self.broken_view(table):
                    return f"view {table} fails: {error}"
            _, findings = outline(query, self.of)
        except AnabranchError:
            return None  # promote asks Spark
        return findings[0].message if findings else None

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

    def of(self, name: TableName) -> Outline:
        found = name.find_in(self._names())
        if found is None or found in self.under_way:
            return None
        if found not in self.known:
            self.under_way.add(found)
            self.known[found] = self._columns(found)
            self.under_way.discard(found)
        return self.known[found]

    def _columns(self, name: TableName) -> Outline:
        if name in self.moving:
            return self.moved(name, self)
        if name in self.seen.views:
            return self.given(self.seen.views[name])
        if name not in self.seen.pointers:
            return None
        version = self.runtime.lake.version(name, self.seen.pointers[name])
        return tuple(Known(column.name, column.type) for column in version.columns)

    def given(self, query: str) -> Outline:
        try:
            return outline(query, self.of)[0]
        except AnabranchError:
            return None


def declared(each: SnapshotObject, columns: Columns) -> Outline:
    """The columns of an object of the project."""
    if each.kind == "table":
        return tuple(Known(name) for name, _ in each.columns) or None
    statement = parse_statement(each.sql)
    if isinstance(statement, CreateView) and statement.columns:
        return tuple(Known(name) for name in statement.columns)
    return columns.given(each.query)
