"""Statements of two processes that meet: the outcome is that of one after the other.

The first is stopped when its work is staged, the second runs to its end, or until it waits for a lease
of the first, and the first goes on.  What there is afterwards must be what one of the two orders leaves
behind: no name that two things have, no stream table without what it reads, no views that read each
other.
"""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch import Anabranch, failpoints
from anabranch.catalog import views
from anabranch.errors import AnabranchError
from tests.standin.engine import connect, installed

# Statements that have something to do with each other.
NAMES = [
    "CREATE TABLE s.x (k BIGINT)",
    "CREATE TABLE s.X (k BIGINT)",
    "CREATE VIEW s.x AS SELECT k FROM s.a",
    "CREATE VIEW s.X AS SELECT k FROM s.b",
    "CREATE STREAM TABLE s.x AS SELECT k FROM s.a",
    "CREATE STREAM TABLE IF NOT EXISTS s.x AS SELECT k FROM s.a",
    "CREATE OR REPLACE STREAM TABLE s.x AS SELECT k FROM s.a",
]
VIEWS = [
    "CREATE OR REPLACE VIEW s.v AS SELECT k FROM s.w",
    "CREATE OR REPLACE VIEW s.w AS SELECT k FROM s.v",
    "CREATE OR REPLACE VIEW s.w AS SELECT k + 1 AS k FROM s.b",
    "DROP VIEW s.w",
    "CREATE STREAM TABLE s.x AS SELECT k FROM s.w",
    "CREATE STREAM TABLE s.y AS SELECT w.k FROM s.w AS w JOIN s.v AS v ON v.k = w.k",
]
SOURCES = [
    "DROP TABLE s.b",
    "CREATE OR REPLACE TABLE s.b (k BIGINT, z BIGINT)",
    "ALTER TABLE s.b DROP COLUMN v",
    "INSERT INTO s.b (k) VALUES (7)",
    "CREATE STREAM TABLE s.x AS SELECT k FROM s.b",
    "CREATE STREAM TABLE s.y AS SELECT v FROM s.b",
    "CREATE VIEW s.z AS SELECT v FROM s.b",
]
STREAMS = [
    "ALTER STREAM TABLE s.one AS SELECT k FROM s.two",
    "ALTER STREAM TABLE s.two AS SELECT k FROM s.one",
    "DROP STREAM TABLE s.two",
    "CREATE STREAM TABLE s.x AS SELECT k FROM s.two",
    "CREATE REFRESH GROUP g (s.one, s.two)",
    "CREATE REFRESH GROUP h (s.two, s.three)",
    "CREATE OR REPLACE VIEW s.w AS SELECT k FROM s.two",
]
CLUSTERS = [
    "DROP CLUSTER c",
    "CREATE STREAM TABLE s.x IN CLUSTER c AS SELECT k FROM s.a",
    "ALTER STREAM TABLE s.one SET (cluster = 'c')",
    "CREATE OR REPLACE CLUSTER c POOL 'other'",
]
PAIRS = [
    pair
    for together in (NAMES, VIEWS, SOURCES, STREAMS, CLUSTERS)
    for pair in itertools.permutations(together, 2)
]
DEFAULT = [  # where something was lost once
    (NAMES[0], NAMES[2]),
    (NAMES[2], NAMES[0]),
    (NAMES[4], NAMES[3]),
    (NAMES[0], NAMES[1]),
    (NAMES[4], NAMES[5]),
    (NAMES[4], NAMES[6]),
    (VIEWS[0], VIEWS[1]),
    (VIEWS[3], VIEWS[4]),
    (VIEWS[2], VIEWS[5]),
    (SOURCES[0], SOURCES[4]),
    (STREAMS[4], STREAMS[2]),
    (CLUSTERS[1], CLUSTERS[0]),
]
State = dict[str, Any]


class Homes:
    """A home that is put back before each run; what the orders of two statements leave is kept."""

    def __init__(self, folder: Path) -> None:
        self.home, self.template = folder / "home", folder / "template"
        with connect(self.home) as ab:
            for name in ("s.a", "s.b"):
                ab.sql(f"CREATE TABLE {name} (k BIGINT, v BIGINT)")
                ab.sql(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
            ab.sql("CREATE VIEW s.v AS SELECT k FROM s.a; CREATE VIEW s.w AS SELECT k FROM s.a")
            for name in ("s.one", "s.two", "s.three"):
                ab.create_stream_table(name, "SELECT k FROM s.a")
            ab.sql("CREATE CLUSTER c POOL 'p'")
        shutil.copytree(self.home, self.template)
        self.known: dict[tuple[str, str], State] = {}

    def opened(self) -> Anabranch:
        shutil.rmtree(self.home)
        shutil.copytree(self.template, self.home)
        return connect(self.home)

    def after(self, *order: str) -> State:
        one, other = order
        if (one, other) not in self.known:
            with self.opened() as ab:
                said = {each: done(ab, each) for each in order}
                self.known[one, other] = state(ab) | said
        return self.known[one, other]

    def raced(self, one: str, other: str, patch: pytest.MonkeyPatch) -> State:
        said: dict[str, str] = {}
        with (
            self.opened() as ab,
            connect(self.home) as second,
            meeting(patch, lambda: said.update({other: done(second, other)})),
        ):
            said[one] = done(ab, one)
        with connect(self.home) as ab:
            return state(ab) | said


@contextmanager
def meeting(patch: pytest.MonkeyPatch, act: Callable[[], None]) -> Iterator[None]:
    """The first time that something is staged inside, another process acts."""
    free, sleep = threading.Event(), time.sleep

    def run() -> None:
        try:
            act()
        finally:
            free.set()

    other = threading.Thread(target=run)

    def hook(step: str) -> None:
        if step == failpoints.STAGED and not other.ident:
            other.start()
            free.wait()

    def waits(seconds: float) -> None:
        free.set()
        sleep(seconds)

    with patch.context() as inside:
        inside.setattr(failpoints, "hook", hook)
        inside.setattr("anabranch.leases.time", SimpleNamespace(sleep=waits))
        yield
        if other.ident:
            other.join()


def done(ab: Anabranch, statement: str) -> str:
    try:
        ab.sql(statement)
    except AnabranchError as error:
        return type(error).__name__
    return "done"


def state(ab: Anabranch) -> State:
    """Everything that a user can see, after a refresh of all."""
    found: State = {"refresh": "done"}
    try:
        ab.refresh()
    except AnabranchError as error:
        found["refresh"] = str(error)
    with ab._store.reading() as c:
        found["views"] = {str(name): text for name, text in views.all_views(c).items()}
    found["tables"] = {str(name): columns for name, columns in ab.columns().items()}
    found["streams"] = {row["name"]: (row["query"], row["status"]) for row in ab.status()}
    found["groups"] = {row["group_name"]: row["members"] for row in ab.refresh_groups()}
    found["clusters"] = {row["cluster"]: (row["pool"], row["used_by"]) for row in ab.clusters()}
    found["rows"] = {name: rows(ab, name) for name in (*found["tables"], *found["views"])}
    return found


def rows(ab: Anabranch, name: str) -> list[Any] | str:
    try:
        return sorted(ab.table(name).collect())
    except AnabranchError as error:
        return str(error)


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Homes]:
    with installed():
        yield Homes(tmp_path_factory.mktemp("racing"))


def check(homes: Homes, one: str, other: str, patch: pytest.MonkeyPatch) -> None:
    found = homes.raced(one, other, patch)
    if other in found:  # else the first had nothing to publish
        assert found in (homes.after(other, one), homes.after(one, other))


@pytest.mark.parametrize(("one", "other"), DEFAULT)
def test_statements_that_meet(
    homes: Homes, monkeypatch: pytest.MonkeyPatch, one: str, other: str
) -> None:
    check(homes, one, other, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(("one", "other"), [pair for pair in PAIRS if pair not in DEFAULT])
def test_all_statements_that_meet(
    homes: Homes, monkeypatch: pytest.MonkeyPatch, one: str, other: str
) -> None:
    check(homes, one, other, monkeypatch)
