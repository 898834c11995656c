"""A home with one of everything, and what must stay as it was when a call fails."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

import anabranch
from anabranch import Anabranch
from anabranch.catalog import tables
from anabranch.cli import session
from tests.standin import engine

# Notes about work and failures, which are written because a call failed.
NOTES = frozenset(
    {"ab_history", "ab_events", "ab_leases", "ab_waiters", "ab_read_leases", "ab_stages"}
)
# What a failed refresh says about itself.
FAILURE = frozenset({"consecutive_errors", "last_error", "next_retry_at", "failed_mark", "status"})
SPARK: Any = engine.Session()  # one for all homes: to open DuckDB takes longer than a call


@contextmanager
def opened(folder: Path) -> Iterator[Anabranch]:
    """The home, with its folder as the working directory: relative paths stay inside."""
    inside = folder / "a" / "b" / "c" / "d"
    inside.mkdir(parents=True)
    before = Path.cwd()
    os.chdir(inside)
    try:
        with engine.connect(folder / "home", spark=SPARK) as ab:
            fill(ab)
            yield ab
    finally:
        os.chdir(before)


def fill(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE s.t (k BIGINT, v STRING)")
    ab.sql("INSERT INTO s.t VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    ab.sql("CREATE TABLE s.u (k BIGINT, v STRING)")
    ab.sql("CREATE VIEW s.v AS SELECT k FROM s.t WHERE k > 1")
    ab.create_stream_table("s.d", "SELECT k, count(*) AS n FROM s.t GROUP BY k", schedule="1s")
    ab.create_stream_table("s.e", "SELECT k FROM s.v", schedule=None)
    ab.create_refresh_group("g", ["s.d", "s.e"])
    ab.sql("CREATE INDEX i ON s.t (k)")


class Watch:
    """Pointers, definitions, cuts: all rows of the catalog but notes, read past all code of ours."""

    def __init__(self, ab: Anabranch) -> None:
        path = ab._store.url.database
        assert path is not None
        self.database = sqlite3.connect(path, isolation_level=None)
        self.version = -1
        self.seen: dict[str, list[Any]] = {}

    def state(self) -> dict[str, list[Any]]:
        (version,) = self.database.execute("PRAGMA data_version").fetchone()
        if version != self.version or not self.seen:
            self.version = version
            self.seen = {
                name: self.database.execute(text).fetchall() for name, text in READ.items()
            }
        return self.seen

    def close(self) -> None:
        self.database.close()


READ = {
    name: str(select(*(each for each in table.c if each.name not in FAILURE)))
    for name, table in tables.metadata.tables.items()
    if name not in NOTES
}


@contextmanager
def commands_on_the_standin() -> Iterator[None]:
    """Command lines open their homes with the stand-in as well."""

    def connect(target: Any = None, **settings: Any) -> Anabranch:
        return anabranch.connect(target, **{"spark": SPARK, "parallelism": 1, **settings})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "connect", connect)
        yield
