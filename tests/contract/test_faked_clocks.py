"""A process whose clocks are made up, as libfaketime does, moves the time of nobody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from anabranch.cache import clear as clear_caches
from anabranch.catalog import boot, cuts, heartbeat, tables
from anabranch.catalog.retention import Retention
from anabranch.catalog.store import Store

DAYS = timedelta(days=8)
YEARS = timedelta(days=365 * 56)
LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
needs_files = pytest.mark.skipif(
    not Path("/proc/uptime").exists(), reason="no clock in a file here"
)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """All clocks as libfaketime has them: that of the boot tells the time on the wall."""
    real_told = boot._told

    class Clock(datetime):
        ahead: timedelta | None = None

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + (cls.ahead or timedelta())

    def told() -> timedelta:
        if Clock.ahead is None:
            return real_told()
        return timedelta(seconds=time.time()) + Clock.ahead

    monkeypatch.setattr(tables, "datetime", Clock)
    monkeypatch.setattr(boot, "_told", told)
    return lambda by: setattr(Clock, "ahead", by)


def told(path: Path) -> datetime:
    """The time of a catalog by a process that opens it now."""
    store = Store.open(path)
    try:
        with store.reading() as c:
            return tables.now(c)
    finally:
        store.close()


def is_right(moment: datetime) -> bool:
    return abs(moment - datetime.now(timezone.utc)) < timedelta(minutes=1)


@needs_files
@pytest.mark.parametrize("ahead", [timedelta(), -DAYS, DAYS, YEARS, -YEARS])
def test_the_first_process_of_a_home_may_have_a_made_up_clock(
    tmp_path: Path, fake: Callable[[timedelta], None], ahead: timedelta
) -> None:
    fake(ahead)
    assert is_right(told(tmp_path / "c.db"))
    fake(timedelta())
    assert is_right(told(tmp_path / "c.db"))


@needs_files
def test_a_clock_that_jumps_while_a_process_runs_moves_no_cut(
    tmp_path: Path, fake: Callable[[timedelta], None]
) -> None:
    """Cuts were dated 2083, and those of 30 seconds ago forgotten."""
    store = Store.open(tmp_path / "c.db")
    for ahead in (timedelta(), -DAYS, YEARS, -YEARS, DAYS):
        fake(ahead)
        with store.writing() as c:
            cuts.add(c, cuts.advance(c), "a cut", [])
            assert is_right(tables.now(c))
    with store.reading() as c:
        moments = cuts.moments(c)
        assert all(is_right(at) for _, at in moments)
        assert not Retention().expired(moments, tables.now(c))
    store.close()


@needs_files
def test_a_process_that_was_stopped_between_two_readings_keeps_its_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readings = iter([timedelta(seconds=100), timedelta(seconds=160)])
    monkeypatch.setattr(boot, "_kernel", lambda: next(readings))
    monkeypatch.setattr(boot, "_told", lambda: timedelta(seconds=159.5))
    assert boot.since_boot() == timedelta(seconds=159.5)


def test_a_clock_that_counts_longer_than_any_machine_runs_counts_from_no_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where no file tells better."""
    monkeypatch.setattr(boot, "_kernel", lambda: None)
    monkeypatch.setattr(boot, "_told", lambda: YEARS)
    clear_caches()
    assert not boot.boot()
    clear_caches()


@needs_files
def test_a_container_whose_file_counts_from_its_own_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LXC: the time since boot is the host's, with which the container shares the name of the boot."""
    own = tmp_path / "uptime"
    own.write_text("5.00 1.00\n")
    real = boot.since_boot()
    monkeypatch.setattr(boot, "_UPTIME", own)
    clear_caches()
    assert abs(boot.since_boot() - real) < timedelta(seconds=30)
    assert boot.wall() is None, "the time of its start may be its own as well"
    monkeypatch.setattr(boot, "_told", lambda: YEARS)
    assert abs(boot.since_boot() - real) < timedelta(seconds=30)
    clear_caches()


def test_a_home_that_lives_in_1970_comes_back(tmp_path: Path) -> None:
    """The first process had counted 56 years since the start of the machine."""
    path = tmp_path / "c.db"
    Store.open(path).close()
    store = Store.open(path)
    with store.writing() as c:
        c.execute(update(tables.boots).values(began_at=datetime(1970, 1, 1, tzinfo=timezone.utc)))
    store.close()
    assert is_right(told(path))
    store = Store.open(path)
    with store.reading() as c:
        assert len(c.execute(select(tables.boots)).all()) == 1
    store.close()


def test_the_heartbeat_goes_on_when_its_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited until the clock was where it had been, and every lease of the process ended."""
    kept = heartbeat.Heartbeat(lambda: pytest.fail("nothing is due"))
    now = [1000.0]
    monkeypatch.setattr(heartbeat.time, "monotonic", lambda: now[0])
    kept._tasks["a"] = heartbeat._Task(lambda c: None, 10, now[0] + 10)
    now[0] -= DAYS.total_seconds()
    found = kept._next()
    assert found is not None
    assert found[0].due == now[0] + 10


# -- with libfaketime itself ---------------------------------------------------------------------

WORK = """
import json, sys
from anabranch.catalog import tables
from tests.standin.engine import connect, installed
with installed(), connect(sys.argv[1]) as ab:
    report = {}
    for step in sys.argv[2:]:
        if step == "make":
            ab.sql("CREATE TABLE s.t (k BIGINT); INSERT INTO s.t VALUES (1)")
            ab.create_stream_table("s.x", "SELECT k FROM s.t", schedule="1h")
        if step == "insert":
            ab.sql("INSERT INTO s.t VALUES (9)")
        if step == "maintain":
            report["forgotten"] = ab.maintain()["cuts_forgotten"]
    with ab._store.reading() as c:
        report["now"] = tables.now(c).isoformat()
    report["cuts"] = [cut["published_at"].isoformat() for cut in ab.cuts()]
print(json.dumps(report))
"""


def process(home: Path, fake: str | None, *steps: str) -> dict[str, Any]:
    environment = dict(os.environ)
    if fake is not None:
        environment |= {"LD_PRELOAD": str(LIBRARY), "FAKETIME": fake}
    run = [sys.executable, "-c", WORK, str(home), *steps]
    said = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    found: dict[str, Any] = json.loads(said.stdout)
    return found


@pytest.mark.skipif(
    LIBRARY is None,
    reason="libfaketime is not installed (apt-get install libfaketime); the tests above inject clocks",
)
@pytest.mark.parametrize("fake", ["-8d", "+8d", "+20y"])
@pytest.mark.parametrize("first", [True, False])
def test_libfaketime(tmp_path: Path, fake: str, first: bool) -> None:
    home = tmp_path / "home"
    process(home, fake if first else None, "make")
    faked = process(home, fake, "insert", "maintain")
    plain = process(home, None, "insert", "maintain")
    for report in (faked, plain):
        assert report["forgotten"] == 0, "every cut is seconds old"
        for moment in (report["now"], *report["cuts"]):
            assert is_right(datetime.fromisoformat(moment))
