"""Clocks of hosts disagree and jump: cuts stay in order, schedules go on, the server's clock counts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from anabranch.catalog import cuts, leases, read_leases, stages, tables
from anabranch.catalog.retention import Retention
from anabranch.names import TableName
from tests.contract.world import World
from tests.standin.engine import connect, installed

A = TableName.parse("s.a")
DAYS = timedelta(days=8)
Jump = Callable[[timedelta], None]


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> Jump:
    """Sets the clock of this host forward or back."""

    class Clock(datetime):
        ahead = timedelta()

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + cls.ahead

    monkeypatch.setattr(tables, "datetime", Clock)
    return lambda by: setattr(Clock, "ahead", by)


def expired(world: World) -> set[int]:
    """What upkeep would forget."""
    with world.store.reading() as c:
        return Retention(total=timedelta(days=1)).expired(cuts.moments(c), tables.now(c))


def test_the_times_of_cuts_never_go_back(world: World, jump: Jump) -> None:
    for at, ahead in enumerate((timedelta(), -DAYS, DAYS, timedelta(), -DAYS), 1):
        jump(ahead)
        with world.store.writing() as c:
            cuts.add(c, cuts.advance(c), f"number {at}", [])
    with world.store.reading() as c:
        rows = c.execute(select(tables.cuts).order_by(tables.cuts.c.cut_id)).all()
    moments = [row.published_at for row in rows]
    assert moments == sorted(moments)


def test_a_cut_of_a_host_that_is_behind_is_not_as_old_as_it_says(world: World, jump: Jump) -> None:
    """The last cut was old when a host that is behind published the next: it was forgotten at once."""
    jump(-timedelta(days=2))
    with world.store.writing() as c:
        shown = cuts.advance(c)
        cuts.add(c, shown, "on time, two days ago", [])
    jump(-DAYS)
    for _ in range(2):
        with world.store.writing() as c:
            cuts.add(c, cuts.advance(c), "behind, just now", [])
    jump(timedelta())
    assert not expired(world), "the newest one may be as old as it says, and no clock alone decides"
    with world.store.writing() as c:
        cuts.add(c, cuts.advance(c), "on time", [])
    assert not expired(world) & {shown + 1, shown + 2}, "they are seconds old"


def test_a_host_that_is_behind_makes_no_cut_old(world: World, jump: Jump) -> None:
    """Cuts of ten seconds ago stayed readable no longer, because a later one said it was old."""
    with world.store.writing() as c:
        first = cuts.advance(c)
        cuts.add(c, first, "on time", [])
    jump(-DAYS)
    with world.store.writing() as c:
        cuts.add(c, cuts.advance(c), "behind", [])
    jump(timedelta())
    assert first not in expired(world)
    with world.store.writing() as c:
        cuts.add(c, cuts.advance(c), "on time", [])
    assert first not in expired(world)


@pytest.mark.parametrize("catalog_url", ["postgresql"], indirect=True)
def test_the_clock_of_the_server_counts(world: World, jump: Jump) -> None:
    """No host's clock decides about leases; with SQLite there is only one host."""
    with world.store.writing() as c:
        held = leases.take(c, [A], 60)
        reading = read_leases.take(c, 0, 60)
        stages.add(c, stages.mine("f" * 32))
        for table in (tables.leases, tables.read_leases, tables.stages):
            c.execute(update(table).values(host="another machine"))
    assert isinstance(held, leases.Lease)
    assert reading is not None
    for ahead in (DAYS, -DAYS):
        jump(ahead)
        with world.store.writing() as c:
            assert leases.take(c, [A], 60) == A
            assert leases.held(c, [A]) == {A}
            assert read_leases.held_cuts(c, tables.now(c)) == {0}
            assert stages.alive(stages.all_stages(c)[0], tables.now(c))


def test_a_refresh_in_the_future_stops_no_schedule(tmp_path: Path, jump: Jump) -> None:
    with installed(), connect(tmp_path / "home") as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT)")
        jump(DAYS)
        ab.create_stream_table("s.x", "SELECT k FROM s.t", schedule="1s")
        jump(timedelta())
        ab.sql("INSERT INTO s.t VALUES (1)")
        assert [found["outcome"] for found in ab.tick()] == ["PUBLISHED"]
        assert ab.table("s.x").collect() == [(1,)]
        due = ab.groups()[0]["next_due"]
        assert due < tables.now() + timedelta(minutes=1)


def test_a_retry_in_the_future_is_not_waited_for(tmp_path: Path, jump: Jump) -> None:
    with installed(), connect(tmp_path / "home") as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT)")
        ab.create_stream_table("s.x", "SELECT k FROM s.t", schedule="1s")
        ab.sql("INSERT INTO s.t VALUES (1)")
        with ab._store.writing() as c:
            late = {"next_retry_at": tables.now() + DAYS, "last_refresh_at": tables.now() + DAYS}
            c.execute(update(tables.stream_tables).values(**late))
        assert [found["outcome"] for found in ab.tick()] == ["PUBLISHED"]
