"""Clocks of hosts disagree and jump: cuts stay in order, schedules go on, leases last.

With PostgreSQL the server's clock counts, and in a file the machine's, which nobody sets.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select, update

from anabranch.catalog import (
    boot,
    clock,
    cuts,
    events,
    history,
    leases,
    read_leases,
    stages,
    tables,
)
from anabranch.catalog.retention import Retention
from anabranch.catalog.store import Store
from anabranch.lake.places import local_path
from anabranch.lake.upkeep import maintain
from anabranch.model import Action
from anabranch.names import TableName
from tests.contract.world import World
from tests.standin.engine import connect, installed

A = TableName.parse("s.a")
DAYS = timedelta(days=8)
Jump = Callable[[timedelta], None]


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> Jump:
    """Sets the clock on the wall of this host forward or back."""

    class Clock(datetime):
        ahead = timedelta()

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + cls.ahead

    kernel = boot.wall
    monkeypatch.setattr(tables, "datetime", Clock)
    monkeypatch.setattr(boot, "wall", lambda: found + Clock.ahead if (found := kernel()) else None)
    return lambda by: setattr(Clock, "ahead", by)


@pytest.fixture
def differ(monkeypatch: pytest.MonkeyPatch) -> Jump:
    """As on another host, whose clock is ahead or behind; or after so much time."""
    real, by = boot.since_boot, [timedelta()]
    monkeypatch.setattr(boot, "since_boot", lambda: real() + by[0])
    return lambda ahead: by.__setitem__(0, ahead)


@pytest.fixture
def reboot(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Starts the machine again: it counts from nothing."""

    def again() -> None:
        name, began = f"boot {uuid.uuid4()}", time.monotonic()
        monkeypatch.setattr(boot, "boot", lambda: name)
        monkeypatch.setattr(boot, "since_boot", lambda: timedelta(seconds=time.monotonic() - began))

    return again


def expired(world: World) -> set[int]:
    """What upkeep would forget."""
    with world.store.reading() as c:
        return Retention(total=timedelta(days=1)).expired(cuts.moments(c), tables.now(c))


def test_the_times_of_cuts_never_go_back(world: World, differ: Jump) -> None:
    for at, ahead in enumerate((timedelta(), -DAYS, DAYS, timedelta(), -DAYS), 1):
        differ(ahead)
        with world.store.writing() as c:
            cuts.add(c, cuts.advance(c), f"number {at}", [])
    with world.store.reading() as c:
        rows = c.execute(select(tables.cuts).order_by(tables.cuts.c.cut_id)).all()
    moments = [row.published_at for row in rows]
    assert moments == sorted(moments)


def test_a_cut_of_a_host_that_is_behind_is_not_as_old_as_it_says(
    world: World, differ: Jump
) -> None:
    """The last cut was old when a host that is behind published the next: it was forgotten at once."""
    differ(-timedelta(days=2))
    with world.store.writing() as c:
        shown = cuts.advance(c)
        cuts.add(c, shown, "on time, two days ago", [])
    differ(-DAYS)
    for _ in range(2):
        with world.store.writing() as c:
            cuts.add(c, cuts.advance(c), "behind, just now", [])
    differ(timedelta())
    assert not expired(world), "the newest one may be as old as it says, and no clock alone decides"
    with world.store.writing() as c:
        cuts.add(c, cuts.advance(c), "on time", [])
    assert not expired(world) & {shown + 1, shown + 2}, "they are seconds old"


def test_a_host_that_is_behind_makes_no_cut_old(world: World, differ: Jump) -> None:
    """Cuts of ten seconds ago stayed readable no longer, because a later one said it was old."""
    with world.store.writing() as c:
        first = cuts.advance(c)
        cuts.add(c, first, "on time", [])
    differ(-DAYS)
    with world.store.writing() as c:
        cuts.add(c, cuts.advance(c), "behind", [])
    differ(timedelta())
    assert first not in expired(world)
    with world.store.writing() as c:
        cuts.add(c, cuts.advance(c), "on time", [])
    assert first not in expired(world)


def test_leases_survive_jumps(world: World, jump: Jump) -> None:
    """Those of other hosts or containers, too, whose processes cannot be asked."""
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
        late = Store.open(world.url)  # by a process that has only seen the clock as it is now
        for store in (world.store, late):
            with store.writing() as c:
                assert leases.take(c, [A], 60) == A
                assert leases.held(c, [A]) == {A}
                assert read_leases.held_cuts(c, tables.now(c)) == {0}
                assert stages.alive(stages.all_stages(c)[0], tables.now(c))
        late.close()


@pytest.mark.parametrize("catalog_url", ["sqlite"], indirect=True)
def test_leases_end_in_time_after_a_jump_back(world: World, jump: Jump, differ: Jump) -> None:
    with world.store.writing() as c:
        leases.take(c, [A], 60)
        c.execute(update(tables.leases).values(host="another container"))
    jump(-DAYS)
    differ(timedelta(seconds=61))
    with world.store.writing() as c:
        assert isinstance(leases.take(c, [A], 60), leases.Lease)


def test_maintain_ends_no_read_lease_after_a_jump(world: World, jump: Jump) -> None:
    """It asked the host's clock, with PostgreSQL as well."""
    for at in range(2):
        world.create(TableName.of("s", f"t{at}"))
    with world.store.writing() as c:
        first = cuts.current(c) - 1
        held = read_leases.take(c, first, 60)
        c.execute(update(tables.read_leases).values(host="another machine"))
    assert held is not None
    for ahead in (DAYS, -DAYS):
        jump(ahead)
        maintain(world.lake, retention=timedelta(0))
        with world.store.reading() as c:
            assert read_leases.holds(c, held)
            assert cuts.is_recorded(c, first)


def test_no_cut_is_old_after_a_jump_and_a_publish(world: World, jump: Jump) -> None:
    """All older cuts were forgotten at once: a jump looked like a time in which nobody wrote."""
    world.create()
    world.append([(1, "eu")])
    jump(DAYS)
    world.append([(2, "us")])
    assert maintain(world.lake, retention=timedelta(days=1)).cuts_forgotten == 0
    assert not expired(world)


def test_files_are_young_by_the_clock_that_they_were_written_by(world: World, jump: Jump) -> None:
    """A clock that was set back makes files of other programs look old as soon as they are written."""
    folder = local_path(world.create().root)
    assert folder is not None
    file = Path(folder) / "data" / "foreign.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    for written, now in ((timedelta(), DAYS), (-DAYS, -DAYS)):
        file.write_bytes(b"data")
        moment = time.time() + written.total_seconds()
        os.utime(file, (moment, moment))
        jump(now)
        maintain(world.lake)
        assert file.exists()
    jump(timedelta())
    maintain(world.lake)
    assert not file.exists(), "nobody can tell that it is young: both clocks call it old"


@pytest.mark.parametrize("catalog_url", ["sqlite"], indirect=True)
def test_a_boot_takes_the_clock_on_the_wall_but_never_goes_back(
    world: World, jump: Jump, reboot: Callable[[], None]
) -> None:
    def told() -> datetime:
        store = Store.open(world.url)
        with store.reading() as c:
            found = tables.now(c)
        store.close()
        return found

    def near(ahead: timedelta) -> bool:
        return abs(told() - datetime.now(timezone.utc) - ahead) < timedelta(minutes=1)

    with world.store.writing() as c:
        cuts.add(c, cuts.advance(c), "before the first boot", [])
    jump(-DAYS)
    reboot()
    assert near(timedelta()), "a battery is dead: what is recorded is not in the future"
    jump(DAYS)
    assert near(timedelta()), "the machine was not started again"
    reboot()
    assert near(DAYS)
    with world.store.reading() as c:
        assert len(c.execute(select(tables.boots)).all()) == 3


@pytest.mark.parametrize("catalog_url", ["sqlite"], indirect=True)
def test_boots_are_not_kept_for_ever(
    world: World, reboot: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "KEPT", 3)
    for _ in range(5):
        reboot()
        Store.open(world.url).close()
    with world.store.reading() as c:
        kept = c.execute(select(tables.boots.c.boot)).scalars().all()
    assert len(kept) == 3
    assert boot.boot() in kept


@pytest.mark.parametrize("catalog_url", ["sqlite"], indirect=True)
def test_without_a_clock_of_the_machine_that_on_the_wall_counts(
    world: World, jump: Jump, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot, "boot", lambda: "")
    store = Store.open(world.url)
    jump(DAYS)
    with store.reading() as c:
        assert tables.now(c) > datetime.now(timezone.utc) + DAYS / 2
        assert tables.ahead(c) == timedelta()
    store.close()


@pytest.mark.parametrize("catalog_url", ["sqlite"], indirect=True)
def test_telling_the_time_asks_no_database(world: World) -> None:
    asked: list[str] = []
    with world.store.reading() as c:
        event.listen(c, "before_cursor_execute", lambda *given: asked.append(given[2]))
        tables.now(c), tables.noted(c), tables.ahead(c)
    assert not asked


@pytest.mark.parametrize("catalog_url", ["sqlite"], indirect=True)
def test_history_and_events_stay_in_order(world: World, jump: Jump) -> None:
    """Those of a clock that was set back were taken for old ones, and forgotten."""
    for ahead in (timedelta(), -DAYS, DAYS):
        jump(ahead)
        with world.store.writing() as c:
            history.add(c, [history.Refresh(A, Action.FULL, history.COMPLETED)])
            events.record(c, A, events.UPKEEP, "said")
            before = tables.now(c) - timedelta(minutes=1)
            assert history.forget(c, before) == events.forget(c, before) == 0
    with world.store.reading() as c:
        times = [row["started_at"] for row in history.listing(c)]
        assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("schedule", ["1h", "{later} * * * *"])
@pytest.mark.parametrize("ahead", [DAYS, -DAYS], ids=["ahead", "back"])
def test_a_jump_neither_stops_schedules_nor_makes_all_due(
    tmp_path: Path, jump: Jump, differ: Jump, ahead: timedelta, schedule: str
) -> None:
    with installed(), connect(tmp_path / "home") as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT)")
        later = (tables.now().minute + 30) % 60
        ab.create_stream_table("s.x", "SELECT k FROM s.t", schedule=schedule.format(later=later))
        ab.sql("INSERT INTO s.t VALUES (1)")
        jump(ahead)
        assert [found["outcome"] for found in ab.tick()] == ["SKIPPED"]
        wall = tables.now()
        assert wall < ab.groups()[0]["next_due"] < wall + timedelta(hours=1, minutes=1)
        jump(ahead + timedelta(hours=1, seconds=1))
        differ(timedelta(hours=1, seconds=1))
        assert [found["outcome"] for found in ab.tick()] == ["PUBLISHED"]
        assert [found["outcome"] for found in ab.tick()] == ["SKIPPED"], "once"


def test_cron_means_the_clock_on_the_wall(tmp_path: Path, jump: Jump, differ: Jump) -> None:
    """Also if that was wrong when the machine was started, and is right since."""
    with installed(), connect(tmp_path / "home") as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT)")
        later = (tables.now().minute + 30) % 60
        ab.create_stream_table("s.x", "SELECT k FROM s.t", schedule=f"{later} * * * *")
        ab.sql("INSERT INTO s.t VALUES (1)")
        jump(timedelta(minutes=20))
        assert ab.groups()[0]["next_due"].minute == later
        assert [found["outcome"] for found in ab.tick()] == ["SKIPPED"]
        jump(timedelta(minutes=20 + 11))
        differ(timedelta(minutes=11))
        assert [found["outcome"] for found in ab.tick()] == ["PUBLISHED"]


def test_a_refresh_in_the_future_stops_no_schedule(tmp_path: Path, differ: Jump) -> None:
    with installed(), connect(tmp_path / "home") as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT)")
        differ(DAYS)
        ab.create_stream_table("s.x", "SELECT k FROM s.t", schedule="1s")
        differ(timedelta())
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
