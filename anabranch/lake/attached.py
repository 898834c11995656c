"""Attached catalogs, asked where their tables are.

PyIceberg's catalogs do the speaking.  A SQL catalog tells all pointers in one SELECT; a REST catalog is
asked for each table, with the ETag of its last answer, so that an unchanged table costs a 304 without a
body; any other catalog loads each table.  Whoever asks waits for a bounded time: what has not answered
by then has a problem, and its table stays as it was observed last.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError
from pyiceberg.catalog import Catalog as IcebergCatalog
from pyiceberg.catalog import CatalogType, load_catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from requests import RequestException, Response
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from anabranch.catalog import foreign
from anabranch.catalog.foreign import Catalog
from anabranch.catalog.store import Store
from anabranch.errors import AnabranchError, InvalidValue, Refused, Unreachable
from anabranch.lake.private import SIDE_BY_SIDE, PatientRest
from anabranch.names import TableName, shown
from anabranch.redaction import is_secret, remember, remember_all, remember_secrets
from anabranch.values import resolved

TYPES = tuple(each.value for each in CatalogType if each is not CatalogType.IN_MEMORY)
SECONDS = 5.0
FIRST_REST, LONGEST_REST = 1.0, 60.0  # seconds for which a silent catalog is not asked by ticks
AGAIN = 1.0  # seconds after which it is asked again whether somebody attached a catalog
_NAME = "catalog_name"  # property: what a SQL catalog calls itself in its rows
K = TypeVar("K")
V = TypeVar("V")


class Silent(Exception):
    """The whole catalog is at fault, and not one table of it."""


@dataclass(frozen=True)
class Pointer:
    """Where a table is; no location: it is gone.  `load` is what the answer itself told."""

    location: str | None
    load: Callable[[], TableMetadata] | None = field(default=None, compare=False, repr=False)
    io: FileIO | None = field(default=None, compare=False, repr=False)


Answer = Pointer | str  # a text says why there is no pointer


class Attached:
    """One attached catalog, connected to when it is first asked."""

    def __init__(self, catalog: Catalog, seconds: float) -> None:
        self.catalog = catalog
        self.seconds = seconds
        self.rest_until = 0.0
        self._rest = FIRST_REST
        self._tags: dict[TableName, tuple[str, str]] = {}
        self._ios: dict[TableName, FileIO] = {}
        self._lock = threading.Lock()

    @cached_property
    def properties(self) -> dict[str, str]:
        """With the secrets that they refer to, which are never shown from here on."""
        found = {}
        for name, value in self.catalog.properties.items():
            found[name] = resolved(value, address="://" in value)
            if found[name] != value and is_secret(name):
                remember(found[name])
            remember_all(found[name])
        return found

    def iceberg(self) -> IcebergCatalog:
        """PyIceberg's catalog; one at a time connects."""
        with self._lock:
            return self._connected

    @cached_property
    def _connected(self) -> IcebergCatalog:
        given = dict(self.properties)
        name = given.pop(_NAME, self.catalog.name)
        if self.catalog.type == CatalogType.REST.value:
            return PatientRest(self.seconds, name, **given)
        if self.catalog.type == CatalogType.SQL.value:
            _refuse_missing_file(given.get("uri", ""))
            given["init_catalog_tables"] = "false"  # nothing is ever written there
        return load_catalog(name, type=self.catalog.type, **given)

    def io(self, name: TableName, location: str) -> FileIO:
        """What reads the files of a table: with the rights that the catalog lent for it, if it did."""
        if name not in self._ios:
            with self._lock:
                self._ios.setdefault(name, load_file_io(dict(self.properties), location))
        return self._ios[name]

    def told(self, name: TableName, pointer: Pointer) -> None:
        if pointer.io is not None:
            self._ios[name] = pointer.io

    def questions(
        self, names: Collection[TableName]
    ) -> list[tuple[tuple[TableName, ...], Callable[[], Mapping[TableName, Answer]]]]:
        """What to ask, each for some tables, side by side."""
        if self.catalog.type == CatalogType.SQL.value:
            some = tuple(sorted(names))
            return [(some, lambda: self._selected(some))]
        return [((name,), lambda name=name: {name: self._asked(name)}) for name in sorted(names)]  # type: ignore[misc]

    def _selected(self, names: Collection[TableName]) -> Mapping[TableName, Answer]:
        """All pointers in one SELECT, which is one moment."""
        catalog = self.iceberg()
        assert isinstance(catalog, SqlCatalog)
        table = IcebergTables
        statement = select(table.table_namespace, table.table_name, table.metadata_location)
        statement = statement.where(table.catalog_name == catalog.name)
        with catalog.engine.connect() as c:
            rows = {(space, name): location for space, name, location in c.execute(statement)}
        return {each: Pointer(rows.get((each.namespace[1], each.name))) for each in names}

    def _asked(self, name: TableName) -> Answer:
        catalog = self.iceberg()
        if isinstance(catalog, PatientRest):
            tag, known = self._tags.get(name, ("", ""))
            if (response := catalog.ask(name.parts[1:], tag)) is not None:
                return self._rest_pointer(catalog, name, response, known)
        try:
            table = catalog.load_table(name.parts[1:])
        except (NoSuchTableError, NoSuchNamespaceError):
            return Pointer(None)
        except FileNotFoundError as error:
            return f"its metadata file is missing: {said(error)}"
        except (ForbiddenError, BadRequestError) as error:
            return said(error)
        except ValidationError:
            return "the answer is not that of an Iceberg catalog"
        remember_secrets(table.io.properties)  # it may lend some
        return Pointer(table.metadata_location, lambda: table.metadata, table.io)

    def _rest_pointer(
        self, catalog: PatientRest, name: TableName, response: Response, known: str
    ) -> Answer:
        if response.status_code == 304 and known:
            return Pointer(known)
        if response.status_code == 404:
            self._tags.pop(name, None)
            return Pointer(None)
        if response.status_code == 401 or response.status_code >= 500:
            raise Silent(_refusal(response))
        if response.status_code != 200:
            return _refusal(response)
        try:
            answer = json.loads(response.content)
            location, metadata = answer["metadata-location"], answer["metadata"]
        except (ValueError, TypeError, KeyError):
            kind = response.headers.get("Content-Type", "no type")
            return f"the answer is not that of an Iceberg catalog ({kind})"
        if made := response.headers.get("ETag"):
            self._tags[name] = made, location
        if location == known:
            return Pointer(location)
        io = catalog.io_for(metadata, answer, location)
        return Pointer(location, lambda: TableMetadataUtil.parse_obj(metadata), io)

    def failed(self) -> None:
        """Ticks leave it alone for a while, longer each time."""
        self.rest_until = time.monotonic() + self._rest
        self._rest = min(2 * self._rest, LONGEST_REST)

    def answered(self) -> None:
        self.rest_until, self._rest = 0.0, FIRST_REST


def _refuse_missing_file(uri: str) -> None:
    """SQLite would make an empty file."""
    place = uri.removeprefix("sqlite:///")
    if place != uri and place and not Path(place).exists():
        raise Silent(f"there is no file {place}")


def _refusal(response: Response) -> str:
    try:
        told = str(response.json()["error"]["message"])
    except (ValueError, TypeError, KeyError):
        told = response.reason or ""
    return f"it answers {response.status_code} {first_line(told)}".rstrip()


class Connections:
    """The attached catalogs of a home, as its rows have them."""

    def __init__(self, store: Store, seconds: float = SECONDS) -> None:
        self.store = store
        self.seconds = seconds
        self._known: dict[str, Attached] = {}
        self._read_at = -AGAIN

    def read(self) -> dict[str, Attached]:
        """What is attached now; one SELECT."""
        with self.store.reading() as c:
            rows = foreign.all_catalogs(c)
        self._read_at = time.monotonic()
        before = self._known
        self._known = {
            name: before[name]
            if name in before and foreign.same(row, before[name].catalog)
            else Attached(row, self.seconds)
            for name, row in rows.items()
        }
        return self._known

    def of(self, name: TableName) -> Attached | None:
        """The catalog that a table belongs to; None: it is one of our own."""
        catalog = foreign.catalog_of(name)
        if catalog is None:
            return None
        if catalog not in self._known and time.monotonic() - self._read_at > AGAIN:
            self.read()
        return self._known.get(catalog)

    def refuse_write(self, name: TableName) -> None:
        """Nothing of ours writes to an attached catalog."""
        attached = self.of(name)
        if attached is not None:
            raise Refused(
                f"{name} belongs to the attached catalog {shown(attached.catalog.name)}, which is "
                "only read",
                hint="write it with the program that owns it, or choose a name outside that catalog",
            )

    def io(self, name: TableName, location: str, own: FileIO) -> FileIO:
        attached = self.of(name)
        return attached.io(name, location) if attached is not None else own


# -- asking side by side -----------------------------------------------------------------------


class SideBySide(Generic[K, V]):
    """Calls in threads that nobody waits for longer than said: a server may never answer."""

    def __init__(self, calls: Iterable[tuple[K, Callable[[], V]]]) -> None:
        self._calls = deque(calls)
        self._left = len(self._calls)
        self._done = threading.Condition()
        self._found: dict[K, V | Exception] = {}

    def run(self, seconds: float) -> dict[K, V | Exception]:
        """What the calls gave or raised; those that are not over by then are left out."""
        for _ in range(min(SIDE_BY_SIDE, self._left)):
            threading.Thread(target=self._work, name="anabranch-catalog", daemon=True).start()
        with self._done:
            self._done.wait_for(lambda: self._left == 0, seconds)
            self._calls.clear()
            return dict(self._found)

    def _work(self) -> None:
        while True:
            try:
                key, call = self._calls.popleft()
            except IndexError:
                return
            try:
                found: V | Exception = call()
            except Exception as error:
                found = error
            with self._done:
                self._found[key] = found
                self._left -= 1
                self._done.notify()


def ask(
    wanted: Mapping[Attached, Collection[TableName]], seconds: float
) -> tuple[dict[TableName, Answer], dict[str, str]]:
    """Where some tables are, and why whole catalogs do not tell."""
    calls = [
        ((attached, names), call)
        for attached, some in wanted.items()
        for names, call in attached.questions(some)
    ]
    done = SideBySide(calls).run(seconds)
    answers: dict[TableName, Answer] = {}
    silent: dict[str, str] = {}
    for (attached, names), _ in calls:
        found = done.get((attached, names))
        catalog = attached.catalog.name
        if found is None:
            silent.setdefault(catalog, f"it does not answer within {seconds:g} s")
        elif isinstance(found, Exception):
            silent.setdefault(catalog, said(found))
        else:
            answers.update(found)
    quiet = {name for name in answers if foreign.catalog_of(name) in silent}
    return {name: each for name, each in answers.items() if name not in quiet}, silent


def said(error: Exception) -> str:
    """What a library says, in one line that holds no secret."""
    if isinstance(error, AnabranchError):
        return error.message
    if isinstance(error, RequestException) and error.request is not None:
        where = str(error.request.url or "").partition("?")[0]
        return f"{where} cannot be reached: {_innermost(error)}"
    if isinstance(error, SQLAlchemyError):
        return first_line(str(getattr(error, "orig", None) or error))
    text = first_line(str(error))
    return text or type(error).__name__


def _innermost(error: BaseException) -> str:
    """Of a failure that libraries wrapped into each other: what the operating system said."""
    at: BaseException = error
    while True:
        inner = at.__cause__ or at.__context__
        if inner is None:
            reason = getattr(at, "reason", None)
            return first_line(str(reason or at))
        at = inner


def first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0].strip()[:300] if lines else ""


def silent_error(catalog: str, problem: str) -> Unreachable:
    return Unreachable(
        f"catalog {shown(catalog)} cannot be read: {problem}",
        hint="check the uri and the secrets it refers to; system.catalogs shows what was attached, "
        f"and DETACH CATALOG {shown(catalog)} with another ATTACH changes it",
    )


def unreadable_error(name: TableName, problem: str) -> Unreachable:
    return Unreachable(
        f"table {name} cannot be read: {problem}",
        hint=f"repair it in catalog {shown(name.namespace[0])}; until then its last observed "
        "version is read",
    )


def check_type(kind: str) -> str:
    if kind not in TYPES:
        raise InvalidValue(
            f"there is no catalog type {kind!r}", hint=f"possible: {', '.join(TYPES)}"
        )
    return kind
