"""What a transaction read and wrote in the catalog, row by row: transactions that did not meet commute.

Reads come from the statements: a table, narrowed to the values of one column where the condition is a
plain comparison.  Writes come from the tables themselves, compared before and after, so that what was
rolled back or changed nothing is no write.  Files are rows of one more table: what is listed, read and
deleted.  Random names are replaced by who made them, as which one, so that events of two runs compare.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from anabranch.catalog import tables

FILES, UNDER = "files", "under"
Row = tuple[Any, ...]
_COMPARED = re.compile(r"(?:\w+\.)?(\w+) (?:=|IN) (\?|\(\?(?:, \?)*\))")
_RANDOM = re.compile(r"[0-9a-f]{8}(?:(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12})?")
_SNAPSHOT = re.compile(r"(?<![0-9a-f])\d{15,20}(?![0-9a-f])")
_SNAPSHOTS = 10**14  # numbers from here on are random ones of snapshots
_SHAPE = re.compile(r"[0-9a-f]{40}")
_CHECKSUM = re.compile(r"-[0-9a-f]{8}(?=\.\w)")  # of a file that holds random names
_NAMES = frozenset(tables.metadata.tables) | {"iceberg_tables", "iceberg_namespace_properties"}


@dataclass(frozen=True)
class Read:
    """Rows of a table: all, or those with one of these values in a column."""

    table: str
    column: str | None = None
    values: frozenset[Any] = frozenset()

    def meets(self, changed: Changed) -> bool:
        if self.column is None:
            return True
        if self.column == UNDER:
            return any(row["path"].startswith(*self.values) for row in changed.rows)
        return any(row.get(self.column) in self.values for row in changed.rows)


@dataclass(frozen=True)
class Changed:
    """Rows of a table that a transaction changed: keys, and what they were and are."""

    keys: frozenset[Any]
    rows: tuple[dict[str, Any], ...]


@dataclass
class Event:
    """One transaction of an actor, and what it did with files until the next."""

    actor: int = -1
    reads: set[Read] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)  # tables that it may have written
    writes: dict[str, Changed] = field(default_factory=dict)

    def depends(self, other: Event) -> bool:
        """Whether the order of the two can matter."""
        if self.actor == other.actor:
            return True
        return (
            any(changed.keys & other.writes[name].keys for name, changed in self.both(other))
            or self.sees(other)
            or other.sees(self)
        )

    def unlike(self, other: Event) -> list[object]:
        """What only one of two read or changed; files may come out of a cache."""

        def rows(event: Event) -> set[object]:
            reads = {read for read in event.reads if read.table != FILES}
            written = event.writes.items()
            return reads | {(name, key) for name, changed in written for key in changed.keys}

        return sorted(rows(self) ^ rows(other), key=str)

    def both(self, other: Event) -> Iterator[tuple[str, Changed]]:
        return ((name, found) for name, found in self.writes.items() if name in other.writes)

    def sees(self, other: Event) -> bool:
        """Whether it reads what the other one changes."""
        return any(
            read.table in other.writes and read.meets(other.writes[read.table])
            for read in self.reads
        )


# -- statements ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shape:
    written: str | None
    read: tuple[str, ...]
    column: str | None
    places: tuple[int, ...]


@lru_cache(maxsize=10_000)
def _shape(statement: str) -> _Shape:
    text = " ".join(statement.split())
    named = tuple(sorted(_NAMES.intersection(re.findall(r"\w+", text))))
    verb = text.split(" ", 1)[0].upper()
    written = None
    if verb in ("INSERT", "UPDATE", "DELETE"):
        written = next(name for name in re.findall(r"\w+", text) if name in _NAMES)
    if verb == "INSERT" and " SELECT " not in text:
        return _Shape(written, (), None, ())
    if len(named) == 1 and text.count("SELECT ") <= 1:
        return _Shape(written, named, *_narrowed(text))
    return _Shape(written, named, None, ())


def _narrowed(text: str) -> tuple[str | None, tuple[int, ...]]:
    """The first plain comparison of a condition, and which parameters it compares with."""
    before, _, condition = text.partition(" WHERE ")
    condition = re.split(r" (?:ORDER BY|GROUP BY|LIMIT|RETURNING) ", condition)[0]
    if " OR " in condition or "(" in condition.replace("IN (?", ""):
        return None, ()
    at = before.count("?")
    for part in condition.split(" AND "):
        if found := _COMPARED.fullmatch(part):
            count = found[2].count("?")
            return found[1], tuple(range(at, at + count))
        at += part.count("?")
    return None, ()


# -- recording -----------------------------------------------------------------------------------


class Recorder:
    """Events of one run; `image` is the catalog as of the last event."""

    def __init__(self, catalog: Path) -> None:
        self._catalog = sqlite3.connect(catalog, check_same_thread=False)
        self._image = {name: self._dump(name) for name in self._tables()}
        self._made: dict[str, str] = {}  # random names, by their first letters
        self.event = Event()

    def close(self) -> None:
        self._catalog.close()

    def statement(self, statement: str, parameters: Any, many: bool) -> None:
        shape = _shape(statement)
        if shape.written is not None:
            self.event.touched.add(shape.written)
        for given in parameters if many else [parameters]:
            values = frozenset(self._plain(given[at]) for at in shape.places)
            self.event.reads.update(Read(name, shape.column, values) for name in shape.read)

    def made(self, name: uuid.UUID, actor: int, event: int) -> None:
        """An actor made a random name: its first, second, … in that event.

        Not of the whole run: what came out of a cache in an earlier event made no name there.
        """
        maker = f"<{actor}.{event}."
        count = sum(known.startswith(maker) for known in self._made.values())
        self._made[name.hex[:8]] = f"{maker}{count}>"

    def _plain(self, value: Any) -> Any:
        if isinstance(value, int) and value >= _SNAPSHOTS:
            return "#"
        if not isinstance(value, str):
            return value
        if _SHAPE.fullmatch(value):  # a hash of metadata that may hold random names
            return "shape"
        value = _SNAPSHOT.sub("#", value)
        plain = _RANDOM.sub(lambda found: self._made.get(found[0][:8], found[0]), value)
        return value if plain == value else _CHECKSUM.sub("-*", plain)

    def read_file(self, path: str) -> None:
        self.event.reads.add(Read(FILES, "path", frozenset({self._plain(path)})))

    def list_files(self, folder: str) -> None:
        self.event.reads.add(Read(FILES, UNDER, frozenset({self._plain(folder)})))

    def change_file(self, path: str) -> None:
        path = self._plain(path)
        known = self.event.writes.get(FILES, Changed(frozenset(), ()))
        self.event.writes[FILES] = Changed(known.keys | {path}, (*known.rows, {"path": path}))

    def end(self, actor: int) -> Event:
        """The event that is over; another one begins."""
        ended, self.event = self.event, Event()
        ended.actor = actor
        for name in ended.touched & self._image.keys():
            before, after = self._image[name], self._dump(name)
            self._image[name] = after
            keys = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
            if keys:
                there = (side[k] for k in keys for side in (before, after) if k in side)
                ended.writes[name] = Changed(
                    frozenset(tuple(map(self._plain, key)) for key in keys),
                    tuple(
                        dict(zip(self._columns(name), map(self._plain, row), strict=True))
                        for row in there
                    ),
                )
        return ended

    def _tables(self) -> list[str]:
        found = self._catalog.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return [name for (name,) in found if name in _NAMES]

    def _dump(self, name: str) -> dict[Row, Row]:
        keys = self._keys(name)
        rows = self._catalog.execute(f"SELECT * FROM {name}").fetchall()
        return {tuple(row[at] for at in keys): row for row in rows}

    def _columns(self, name: str) -> tuple[str, ...]:
        return tuple(each[1] for each in self._info(name))

    def _keys(self, name: str) -> tuple[int, ...]:
        found = tuple(each[0] for each in self._info(name) if each[5])
        return found or tuple(range(len(self._columns(name))))

    @cache  # noqa: B019 - a recorder lives as long as one run
    def _info(self, name: str) -> Sequence[Row]:
        return self._catalog.execute(f"PRAGMA table_info({name})").fetchall()


_quiet = threading.local()


@contextmanager
def unseen() -> Iterator[None]:
    """Inside, this thread neither switches nor records."""
    _quiet.depth = getattr(_quiet, "depth", 0) + 1
    try:
        yield
    finally:
        _quiet.depth -= 1


def is_unseen() -> bool:
    return bool(getattr(_quiet, "depth", 0))
