"""One database for Iceberg's pointers and our rows: SQLite in a file, or PostgreSQL."""

from __future__ import annotations

import os
import random
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import DatabaseError as SqlDatabaseError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from anabranch.cache import Cache
from anabranch.catalog import migrations, remembered, tables
from anabranch.catalog.clock import boot_clock
from anabranch.catalog.declared import declares
from anabranch.catalog.grants import ALL, DENIED, role_with
from anabranch.catalog.heartbeat import Heartbeat
from anabranch.errors import CatalogDamaged, InvalidValue, MissingRight, Unreachable
from anabranch.places import absolute, create_file
from anabranch.redaction import HIDDEN, is_plain_parameter, redacted_address

__all__ = ["Connection", "Store", "parse_url"]  # Connection: for those above, who run no SQL

BUSY_SECONDS = 60
CREATE_LOCK = 0x616E6162  # PostgreSQL advisory lock held while tables are made
_BEGIN = "anabranch_begin"
_NEWEST = "SELECT cut FROM ab_meta"
_DECLARED = "anabranch_declared"  # in `info` of a connection: its transaction declared something
_SQLITE = re.compile(r"sqlite(?:\+\w+)?://(?:/(.*))?\Z")

T = TypeVar("T")


RECOVER = "restore it from a backup, or move it away and run anabranch recover --from-warehouse"
ESCAPED = (
    "write postgresql://user:password@host:5432/database, an IPv6 address in [brackets], and @ : / ? # "
    "in a password as %40 %3A %2F %3F %23; or refer to it: ENV('PG_PASSWORD')"
)
BAD_VALUE = "22"  # how SQLSTATE of PostgreSQL begins then
_DENIED_TABLE = re.compile(r"(?:table|sequence|relation) \"?(\w+)")
# What libpq says about TLS and passwords, and what helps.
CURES = {
    "certificate verify failed": "the server's certificate is not signed by a CA in sslrootcert: add "
    "sslrootcert=<file with the CA's certificate> to the catalog's address",
    "does not match host name": "connect by a name that is listed in the server's certificate, or use "
    "sslmode=verify-ca, which does not compare names",
    "root certificate file": "sslrootcert names no file that can be read: give the CA's certificate",
    "certificate file|private key file": "sslcert and sslkey must name files of yours that can be "
    "read; the key must be readable by its owner only (chmod 600)",
    "requires a valid client certificate|certificate required|alert unknown ca|certificate "
    "authentication failed": "the server asks for a client certificate that it trusts: add "
    "sslcert=<file>&sslkey=<file> to the catalog's address",
    "does not support SSL": "the server has no TLS: switch it on there (ssl = on)",
    "invalid sslmode": "sslmode is disable, prefer, require, verify-ca or verify-full",
    "no pg_hba.conf entry.*no encryption": "the server takes only encrypted connections: add "
    "sslmode=verify-full to the catalog's address",
    "no pg_hba.conf entry": "the server lets this user in from here for no database of this name: see "
    "its pg_hba.conf",
    "password authentication failed|no password supplied": "check user and password; a reference such "
    "as ENV('PG_PASSWORD') may be part of the address",
}
_SET_COLUMN = re.compile(r"(?:SET |, )\"?(\w+)\"?=")
EVERY = "*"
_LOST_TABLE = re.compile(r"no such table: ((?:ab|iceberg)_\w+)")
_QUICK, _WHOLE = "PRAGMA quick_check(1)", "PRAGMA integrity_check(1)"
_opened: Cache[None] = Cache(100, "catalogs that were found intact when they were opened")


class Store:
    """Transactions on the catalog database.

    `reading()` sees one snapshot from its first line to its last; `writing()` is alone in SQLite and
    ordinary (READ COMMITTED, row locks) in PostgreSQL.  Both commit at the end or leave nothing.  With
    `fsync` what was committed survives a power cut.
    """

    def __init__(self, engine: Engine, url: URL, *, fsync: bool = True) -> None:
        self.engine = engine
        self.url = url  # its secrets are blanked
        self.fsync = fsync
        self.catalog_uuid = ""
        self.heartbeat = Heartbeat(self.writing)
        self.on_declared: Callable[[], object] | None = None  # after a transaction that declared

    @classmethod
    def open(cls, url: str | os.PathLike[str], *, fsync: bool = True) -> Store:
        """Open a catalog by path or URL; make its tables on first use."""
        parsed = parse_url(url)
        if parsed.drivername.startswith("sqlite") and parsed.database:
            create_file(Path(parsed.database), fsync=fsync)
        plain, secrets = _apart(parsed)
        store = cls(_engine(plain, secrets), plain, fsync=fsync)
        try:
            with store._clear_errors():
                store._prepare()
        except BaseException:
            store.close()
            raise
        return store

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def reading(self, *, numbered: bool = True) -> Iterator[Connection]:
        """`numbered`: ask for the newest cut at the start, for `cuts.current`."""
        if self.is_sqlite:
            options: dict[str, object] = {_BEGIN: ("BEGIN",)}
        else:
            options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with self._transaction(options, _NEWEST if numbered else None) as connection:
            yield connection

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Connection]:
        """`durable=False`: notes about processes, which a power cut ends together with the processes.

        (A server outlives its clients, so PostgreSQL keeps such notes like all others.)
        """
        with self._transaction(self._alone(durable=durable), None) as connection:
            connection.info.pop(_DECLARED, None)  # of one that was rolled back
            yield connection
            declared = connection.info.pop(_DECLARED, False)
        if declared and self.on_declared is not None:
            self.on_declared()

    def _alone(self, *, durable: bool) -> dict[str, object]:
        if not self.is_sqlite:
            return {}
        level = "FULL" if durable and self.fsync else "NORMAL"
        return {_BEGIN: (f"PRAGMA synchronous = {level}", "BEGIN IMMEDIATE")}

    @contextmanager
    def _transaction(self, options: dict[str, object], first: str | None) -> Iterator[Connection]:
        with self._clear_errors():
            connection = _patiently(lambda: self._begin(options, first))
            try:
                yield connection
                connection.commit()
            finally:
                connection.close()  # rolls back what was not committed

    def _begin(self, options: dict[str, object], first: str | None) -> Connection:
        connection = self.engine.connect()
        try:
            connection = connection.execution_options(**options)
            connection.begin()
            remembered.begin(connection)
            if first:  # the first statement, not BEGIN, fixes the snapshot
                cut = connection.execute(text(first)).scalar()
                connection.execution_options(**{tables.CUT: cut})
        except BaseException:
            connection.close()
            raise
        return connection

    def refuse_damaged(self, c: Connection | None = None) -> None:
        """SQLite compares tables with their indexes: rows that a rotten page hides seem deleted."""
        if not self.is_sqlite:
            return
        if c is not None:
            self._ask(c, _WHOLE)
            return
        with self._transaction({_BEGIN: ("BEGIN",)}, None) as connection:
            self._ask(connection, _WHOLE)

    def _ask(self, c: Connection, question: str) -> None:
        said = str(c.exec_driver_sql(question).scalar())
        if said != "ok":
            raise self._damaged(said.splitlines()[-1])

    def _refuse_damaged_at_first(self) -> None:
        """Once in a process: a second of work for 100 MB, without the rows of indexes."""
        file = Path(self.shown).stat()

        def ask() -> None:
            with self._transaction({_BEGIN: ("BEGIN",)}, None) as connection:
                self._ask(connection, _QUICK)

        _opened.get((self.shown, file.st_dev, file.st_ino), ask)

    def _damaged(self, why: str) -> CatalogDamaged:
        said = f"catalog {self.shown} is damaged: {why}"
        return CatalogDamaged(said, hint=RECOVER, path=self.shown)

    def _prepare(self) -> None:
        if self.is_sqlite:
            _patiently(self._refuse_newer)  # the switch would change the file of a newer one
            _patiently(self._refuse_damaged_at_first)
            _patiently(self._switch_to_wal)
        with self._transaction(self._alone(durable=True), None) as connection:
            if not self.is_sqlite:
                connection.execute(text(f"SELECT pg_advisory_xact_lock({CREATE_LOCK})"))
            self.catalog_uuid = migrations.prepare(connection, self.shown)
            clock = boot_clock(connection) if self.is_sqlite else None
        self.engine.update_execution_options(**{tables.CLOCK: clock})

    def _refuse_newer(self) -> None:
        with self._transaction({_BEGIN: ("BEGIN",)}, None) as connection:
            migrations.refuse_newer(migrations.format_version(connection), self.shown)

    def _switch_to_wal(self) -> None:
        with self.engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            driver.execute("PRAGMA journal_mode = WAL")

    @property
    def shown(self) -> str:
        """The address as it may be told."""
        if self.is_sqlite:
            return self.url.database or ""
        return redacted_address(self.url.render_as_string(hide_password=True))

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except (OperationalError, InterfaceError, PoolTimeout) as error:
            if lost := _LOST_TABLE.search(str(error)):
                raise self._damaged(f"its table {lost.group(1)} is missing") from error
            if _is_mistake(error):
                raise
            raise Unreachable(
                f"catalog {self.shown} cannot be reached: {_reason(error)}",
                hint=self._hint(str(error)),
            ) from error
        except sqlite3.Error as error:  # raised before SQLAlchemy could wrap it
            raise Unreachable(
                f"catalog {self.shown} cannot be reached: {_reason(error)}", hint=self._hint()
            ) from error
        except SqlDatabaseError as error:
            if (state := getattr(error.orig, "sqlstate", None)) == DENIED:
                raise self._denied(error) from error
            if state is not None and state.startswith(BAD_VALUE):
                raise InvalidValue(f"the catalog cannot hold this: {_reason(error)}") from error
            if "malformed" in str(error):
                raise self._damaged(_reason(error)) from error
            if "file is not a database" not in str(error):
                raise
            raise Unreachable(
                f"{self.shown} is not an SQLite database",
                hint=f"give the path of a new file, or of a catalog; if it was one, {RECOVER}",
            ) from error

    def _denied(self, error: SqlDatabaseError) -> MissingRight:
        """Names the right that is missing, and the role that has it."""
        said, statement = _reason(error), (error.statement or "").lstrip()
        table = match.group(1) if (match := _DENIED_TABLE.search(said)) else ""
        right = statement.split(None, 1)[0].upper() if statement else ""
        if right == "SELECT" and "FOR UPDATE" in statement:
            right = "UPDATE"
        if table and right in ALL:
            columns = _SET_COLUMN.findall(statement) if right == "UPDATE" else ()
            role, lacks = role_with(right, table, columns or (EVERY,)), f"{right} on table {table}"
        else:
            role, lacks = "owner", said
        return MissingRight(
            f"{self.url.username or 'this user'} may not do this in catalog {self.shown}: "
            f"it lacks {lacks}",
            hint=f"the role {role} has that right, and those above it have more: "
            "`anabranch grants` prints the statements",
        )

    def _hint(self, said: str = "") -> str:
        if self.is_sqlite:
            return "check that the directory exists and can be written"
        for words, cure in CURES.items():
            if re.search(words, said, re.IGNORECASE):
                return cure
        return "check that the server runs and that user, password and database are right"


def parse_url(url: str | os.PathLike[str]) -> URL:
    """A path is an SQLite file; `postgresql://` is driven by psycopg."""
    given = os.fspath(url)
    if sqlite := _SQLITE.match(given):
        given = sqlite.group(1) or ""
        if given in ("", ":memory:"):
            raise InvalidValue("a catalog in memory cannot be shared", hint="give a file path")
    if "://" not in given:
        return URL.create("sqlite", database=absolute(given))
    try:
        parsed = make_url(given)
    except ArgumentError as error:
        raise InvalidValue(f"{redacted_address(given)!r} is not a database URL") from error
    except ValueError:  # of the port, which may be a part of a password: not shown
        raise InvalidValue(
            "host and port of the catalog's address are ambiguous", hint=ESCAPED
        ) from None
    if parsed.host and "@" in parsed.host:
        raise InvalidValue("the catalog's address has more than one @", hint=ESCAPED)
    backend = parsed.drivername.split("+")[0]
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    raise InvalidValue(
        f"a catalog in {backend} is not supported", hint="use an SQLite path or postgresql://"
    )


def _apart(url: URL) -> tuple[URL, dict[str, Any]]:
    """An address with its secrets blanked, and the secrets: an engine shows its own address."""
    secrets = {name: value for name, value in url.query.items() if not is_plain_parameter(name)}
    plain = url.update_query_dict(dict.fromkeys(secrets, HIDDEN))
    if url.password is None:
        return plain, secrets
    return plain.set(password=HIDDEN), {"password": str(url.password), **secrets}


def _engine(url: URL, secrets: Mapping[str, Any]) -> Engine:
    engine = _connecting(url)

    @event.listens_for(engine, "do_connect")
    def on_do_connect(_: object, __: object, ___: object, parameters: dict[str, Any]) -> None:
        parameters.update(secrets)

    @event.listens_for(engine, "after_cursor_execute")
    def on_execute(connection: Connection, _: object, statement: str, *__: object) -> None:
        remembered.note(connection, statement)
        if declares(statement):
            connection.info[_DECLARED] = True

    return engine


def _connecting(url: URL) -> Engine:
    if not url.drivername.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=True, pool_size=5, max_overflow=20)
    engine = create_engine(
        url,
        pool_size=5,
        max_overflow=20,
        connect_args={
            "timeout": BUSY_SECONDS,
            "check_same_thread": False,
            "isolation_level": None,  # the driver must not begin transactions by itself
        },
    )

    @event.listens_for(engine, "connect")
    def on_connect(connection: object, _: object) -> None:
        cursor = connection.cursor()  # type: ignore[attr-defined]
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.close()

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        for statement in connection.get_execution_options().get(_BEGIN, ("BEGIN",)):
            connection.exec_driver_sql(statement)

    return engine


def _patiently(act: Callable[[], T]) -> T:
    """Ask again while SQLite answers "locked": switching to WAL and recovery do not wait."""
    give_up = time.monotonic() + 2 * BUSY_SECONDS
    pause = 0.01
    while True:
        try:
            return act()
        except Exception as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
        time.sleep(random.uniform(pause / 2, pause))
        pause = min(pause * 2, 1.0)


def _is_mistake(error: Exception) -> bool:
    """SQLite reports wrong SQL by the same class as a broken disk."""
    return any(word in str(error) for word in ("no such table", "no such column", "syntax error"))


def _reason(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
