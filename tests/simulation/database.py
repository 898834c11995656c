"""The catalog database: a real SQLite in memory, and the product's own statements on it.

Transactions are real, and one at a time: processes are switched between them.  A power cut undoes those
that were not synced.  The answer to a COMMIT may be lost, with the commit done or not.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.pool import StaticPool

from anabranch.catalog import tables
from anabranch.catalog.clock import boot_clock
from anabranch.catalog.heartbeat import Heartbeat
from anabranch.catalog.store import _BEGIN, Store
from anabranch.errors import Unreachable
from tests.simulation.thin import ThinConnection

if TYPE_CHECKING:
    from tests.simulation.world import World

_URL = make_url("sqlite:///catalog.db")
Query = Callable[..., sqlite3.Cursor]


class Ended(BaseException):
    """A bug of the simulation: what follows would be there in the next run."""


class Database:
    """One database, used again for every seed.

    A run is one transaction of SQLite, undone at its end, and a transaction of the product is a
    savepoint in it: so what a run begins with need not be copied, nor a statement be parsed again.
    """

    def __init__(self) -> None:
        self.driver = sqlite3.connect(
            ":memory:", check_same_thread=False, isolation_level=None, cached_statements=1000
        )
        self.engine = create_engine(
            "sqlite://", creator=lambda: self.driver, poolclass=StaticPool, query_cache_size=2000
        )
        self.usual = self.engine.connect()
        self.connection = ThinConnection(self.driver, self.usual)
        self.query: Query = self.driver.execute
        self.writes = False  # a transaction that writes is open
        self.leases: dict[str, str] = {}  # tokens by tables, as it found them
        self.runs = False
        self.driver.execute("PRAGMA page_size = 1024")  # savepoints copy pages
        tables.metadata.create_all(self.usual)

    def begin_run(self, *, powerless: bool = False) -> None:
        self.end_run()
        self.query("BEGIN")
        self.runs = True
        if powerless:
            self.query("SAVEPOINT durable")

    def end_run(self) -> None:
        """All is as it was before the run."""
        self.writes = False
        if self.runs:
            self.runs = False
            self.query("ROLLBACK")  # fails if the product has ended it, past its store

    def keep_run(self) -> None:
        """Later runs begin with what this one did."""
        self.runs = False
        self.query("COMMIT")

    def begin(self) -> None:
        if not self.driver.in_transaction:
            raise Ended("somebody has ended the transaction of the run, past `_transaction`")
        self.query("SAVEPOINT work")
        self.writes = True
        self.leases = dict(self.query("SELECT table_name, token FROM ab_leases").fetchall())

    def commit(self) -> None:
        self.query("RELEASE work")
        self.writes = False

    def roll_back(self) -> None:
        if self.writes:
            self.query("ROLLBACK TO work")
            self.commit()

    def keep(self) -> None:
        """All that was committed so far is on the disk."""
        self.query("RELEASE durable")
        self.query("SAVEPOINT durable")

    def lose_power(self) -> None:
        self.roll_back()
        self.query("ROLLBACK TO durable")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """What a process does when it opens the catalog: no step of anybody."""
        self.query("SAVEPOINT opened")
        yield
        self.query("RELEASE opened")

    def copy(self, other: Database) -> None:
        """Take over the content of another one, to the end of the run."""
        self.begin_run()
        names = self.query("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            rows = other.query(f"SELECT * FROM {name}").fetchall()
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                self.driver.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)


class SimulatedStore(Store):
    """A process's way to the catalog database."""

    def __init__(self, world: World, database: Database, catalog_uuid: str, name: str) -> None:
        self.engine, self.url, self.fsync = database.engine, _URL, True
        self.world, self.database, self.name = world, database, name
        self.catalog_uuid = catalog_uuid
        self.heartbeat = SimulatedHeartbeat(lambda: self.writing(durable=False))
        with database.alone():
            self.clock = boot_clock(database.connection)  # type: ignore[arg-type]

    @property
    def is_sqlite(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        return self.name

    def close(self) -> None: ...

    def _ask(self, c: Any, question: str) -> None:
        """Whether SQLite's pages are whole: in memory they are."""

    def _transaction(self, options: Any, first: str | None) -> Any:
        """All transactions of a store come through here."""
        begin = str(options[_BEGIN])
        if "IMMEDIATE" in begin:
            return Writing(self, durable="FULL" in begin)
        return Reading(self)


class Reading:
    """A transaction that reads: a step of the process, unless it is part of one."""

    __slots__ = ("durable", "lost", "outer", "process", "store")

    def __init__(self, store: SimulatedStore, *, durable: bool = False) -> None:
        self.store, self.durable = store, durable

    def __enter__(self) -> Any:
        self.store.world.step("look", "")
        self.process = self.store.world.current
        self.process.depth += 1
        return self.store.database.connection

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.process.depth -= 1


class Writing(Reading):
    """A transaction that writes: alone, unless it is part of one."""

    __slots__ = ()

    def __enter__(self) -> Any:
        world, database = self.store.world, self.store.database
        world.step("transaction", "")
        self.process = process = world.current
        self.outer = not (process.depth and database.writes)
        process.depth += 1
        if self.outer:
            self.lost, process.lose = process.lose, None
            database.begin()
        return database.connection

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.process.depth -= 1
        if not self.outer:
            return
        database = self.store.database
        if kind is not None or self.lost == "before":
            database.roll_back()
            if kind is None:
                raise Unreachable("the connection broke before the commit arrived")
            return
        database.commit()
        self.store.world.committed(database, durable=self.durable)
        if self.lost == "after":
            raise Unreachable("the connection broke after the commit")


class NotYet(BaseException):
    """Nothing is due: a thread would wait now."""


class Turn:
    """In place of a condition: who would wait for time to pass stops instead."""

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, *_: object) -> None: ...

    def notify(self) -> None: ...

    def wait(self, seconds: float) -> None:
        raise NotYet


class SimulatedThread:
    """Runs when time goes by, for as long as nothing ends it."""

    def __init__(self, target: Callable[[], None], **_: object) -> None:
        self.target, self.lives = target, True

    def start(self) -> None: ...

    def is_alive(self) -> bool:
        return self.lives

    def run(self) -> None:
        """Until it would wait again, or dies."""
        if not self.lives:
            return
        try:
            self.target()
        except NotYet:
            return
        except Exception:  # of a thread: nobody is told
            pass
        self.lives = False


class SimulatedHeartbeat(Heartbeat):
    """The product's own, but for its thread; a process that sleeps or is dead says nothing."""

    def __init__(self, writing: Callable[[], Any]) -> None:
        super().__init__(writing)
        self.mute = False  # the next beat fails in a way that nobody thought of

    def leases(self) -> list[str]:
        return list(self._tasks)

    def _beat(self, due: Any) -> bool:
        if self.mute:
            self.mute = False
            due = [replace(each, beat=_fail) for each in due]
        return super()._beat(due)

    def go_on(self) -> None:
        if self._thread is not None and self._tasks:
            self._thread.run()


def _fail(c: Any) -> None:
    raise RuntimeError("nobody thought of this")
