"""A held cut stays readable while upkeep runs; who lost it is told so."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from anabranch.api import Anabranch
from anabranch.catalog import read_leases, tables
from anabranch.errors import AnabranchError, InvalidValue, Refused
from tests.standin.engine import connect, installed

SETTINGS = {"snapshot_retention": "0s", "history_retention": "0s"}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with installed():
        yield tmp_path / "home"


@pytest.fixture
def ab(home: Path) -> Iterator[Anabranch]:
    with connect(home, **SETTINGS) as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT)")
        opened.create_stream_table("s.d", "SELECT k FROM s.t WHERE k > 0")
        opened.sql("CREATE VIEW s.v AS SELECT k FROM s.d")
        write(opened, 1)
        yield opened


def write(ab: Anabranch, key: int) -> None:
    """New rows and no others, so that no file stays from one cut to the next."""
    there = ab.table("s.t").count()
    ab.sql(f"UPDATE s.t SET k = {key}" if there else f"INSERT INTO s.t VALUES ({key})")
    ab.refresh()


def rows(world: Any, name: str) -> list[tuple[Any, ...]]:
    return sorted(world.table(name).collect())


def leases(ab: Anabranch) -> list[int]:
    with ab._store.reading() as c:
        return list(c.execute(select(tables.read_leases.c.cut_id)).scalars())


def everything(ab: Anabranch, world: Any, key: int) -> None:
    assert rows(world, "s.t") == rows(world, "s.d") == rows(world, "s.v") == [(key,)]
    assert world.sql("SELECT count(*) FROM s.t JOIN s.d USING (k)").collect() == [(1,)]


def churn(ab: Anabranch, keys: range = range(2, 5)) -> None:
    for key in keys:
        write(ab, key)
        ab.maintain()


@pytest.mark.parametrize("numbered", [False, True])
def test_a_held_cut_survives_upkeep(ab: Anabranch, home: Path, numbered: bool) -> None:
    cut = ab.cuts()[0]["cut_id"] if numbered else None
    with ab.at(cut) as world:
        with connect(home, **SETTINGS) as other:
            churn(other, range(2, 3))
            other.sql("CREATE OR REPLACE VIEW s.v AS SELECT k + 1 AS k FROM s.d")
            churn(other, range(3, 5))
        everything(ab, world, 1)
        with ab.at(world.cut_id) as again:
            everything(ab, again, 1)
        held = world.cut_id
    assert leases(ab) == []
    ab.maintain()
    with pytest.raises(InvalidValue, match=f"cut {held} has expired"), ab.at(held):
        pass


def test_what_nobody_holds_goes(ab: Anabranch) -> None:
    with ab.at() as world:
        held = world.cut_id
        churn(ab)
    kept = [cut["cut_id"] for cut in ab.cuts()]
    assert held in kept, "it was held when maintain ran"
    assert not [cut for cut in kept if held is not None and held < cut < max(kept) - 2]
    ab.maintain()
    assert held not in [cut["cut_id"] for cut in ab.cuts()]


def test_an_expired_reader_is_told(ab: Anabranch) -> None:
    with ab.at() as world:
        with ab._store.writing() as c:
            c.execute(update(tables.read_leases).values(expires_at=tables.now()))
        everything(ab, world, 1)  # upkeep has not run: all is there
        churn(ab)
        for read in (lambda: world.table("s.t"), lambda: world.sql("SELECT * FROM s.d")):
            with pytest.raises(Refused, match=f"cut {world.cut_id} is no longer held") as error:
                read()
            assert error.value.hint and "at()" in error.value.hint


def test_the_heartbeat_keeps_it(ab: Anabranch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ab._runtime, "settings", ab._runtime.settings.with_("lease_time", "100ms"))
    beaten = threading.Event()
    real = read_leases.renew

    def renew(c: Any, token: str, seconds: float) -> None:
        real(c, token, 60)
        beaten.set()

    monkeypatch.setattr(read_leases, "renew", renew)
    with ab.at() as world:
        assert beaten.wait(60)
        churn(ab)
        everything(ab, world, 1)


def test_a_dead_reader_of_this_machine_holds_nothing(ab: Anabranch) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with ab.at() as world:
        with ab._store.writing() as c:
            c.execute(update(tables.read_leases).values(pid=dead.pid, process_start="1"))
        churn(ab)
        with pytest.raises(AnabranchError, match="no longer held"):
            world.table("s.t")


def test_work_under_way_keeps_the_cut_it_reads(
    ab: Anabranch, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long transaction reads its cut to the end, whatever upkeep does meanwhile."""
    with ab.transaction():
        with connect(home, **SETTINGS) as other:
            churn(other)
        assert rows(ab, "s.t") == rows(ab, "s.d") == [(1,)]
