"""Two scheduler loops on one catalog; one is killed or falls asleep in the middle of a publish."""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

import anabranch
from anabranch import Anabranch
from anabranch.spark.session import Spark
from tests.e2e.graphs import ARTICLE, TOTALS, add, article, check, pointers
from tests.e2e.processes import Process
from tests.e2e.schedulers import PATIENCE, SchedulerProcess
from tests.postgres import postgres_url

__all__ = ["postgres_url"]  # a fixture

GROUP = list(ARTICLE)
SUMMARY = GROUP[-1]
LEASE = 5.0


@dataclass
class Place:
    """A catalog, and the article's diamond in it, which is always due."""

    home: str
    catalog: str
    warehouse: Path
    ab: Anabranch

    def scheduler(self, **failing: str) -> SchedulerProcess:
        settings = {"lease_time": f"{LEASE:g}s", "warehouse": str(self.warehouse)}
        return SchedulerProcess(self.home, settings, **failing)

    def reader(self) -> Process:
        return Process("reader", (self.catalog, self.warehouse), TOTALS)

    def total(self) -> int:
        (row,) = self.ab.table(SUMMARY).collect()
        assert row.regional_total == row.product_total
        found: int = row.regional_total
        return found


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path, spark: Spark) -> Iterator[Place]:
    home, catalog = str(tmp_path), str(tmp_path / "catalog.db")
    if request.param == "postgresql":
        server: str = request.getfixturevalue("postgres_url")
        schema = f"t{uuid.uuid4().hex[:12]}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'CREATE SCHEMA "{schema}"')
        home = catalog = f"{server}&options=-csearch_path%3D{schema}"
    warehouse = tmp_path / "warehouse"
    with anabranch.connect(home, warehouse=str(warehouse), spark=spark.session) as ab:
        article(ab, schedule="1ms")
        yield Place(home, catalog, warehouse, ab)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["staged", "metadata_written", "in_transaction", "published"])
def test_kill_9_of_one_of_two_loops(place: Place, step: str) -> None:
    """The other one takes over; no reader sees a part, nothing is lost, all of it verifies."""
    ab, expected = place.ab, 15
    with (
        place.scheduler(kill=step) as killed,
        place.reader() as reader,
    ):
        killed.ready()
        before = pointers(ab, GROUP)
        add(ab, "shop.sales", [(10, "eu", 1, 1000)])
        assert killed.popen.wait(PATIENCE) == -signal.SIGKILL
        assert (pointers(ab, GROUP) != before) == (step == "published")
        with place.scheduler() as other:
            other.ready()
            if step != "published":  # else the dead one's work is there
                other.published()
            for at in (1, 2):
                add(ab, "shop.sales", [(20 + at, "us", at, at)])
                other.published()
        seen = reader.stop()
    expected += 1000 + 1 + 2
    assert seen["torn"] == [] and seen["cuts"] >= 3
    assert str(expected) in seen["values"]
    assert place.total() == expected
    assert ab.maintain()["stages_ended"] == (step != "published")
    check(ab, GROUP)


@pytest.mark.slow
def test_the_survivor_was_running_all_along(place: Place) -> None:
    """Both loops run; one dies holding the lease of a group, and the other does its work."""
    ab = place.ab
    with (
        place.scheduler() as other,
        place.scheduler(kill="in_transaction:2") as killed,
        place.reader() as reader,
    ):
        other.ready()
        killed.ready()
        other.popen.send_signal(signal.SIGSTOP)  # the first change is for the one that will die
        add(ab, "shop.sales", [(30, "eu", 1, 1)])
        killed.published()
        other.wake()
        sold = 1
        while killed.popen.poll() is None:  # whoever takes it, the change arrives
            now = pointers(ab, GROUP)
            add(ab, "shop.sales", [(30 + sold, "eu", sold, 1)])
            sold += 1
            taken = next(each for each in moments(PATIENCE) if pointers(ab, GROUP) != now)
            assert taken < LEASE + PATIENCE / 2
        assert killed.popen.returncode == -signal.SIGKILL
        seen = reader.stop()
    assert seen["torn"] == [] and seen["cuts"] >= 3
    assert place.total() == 15 + sold
    check(ab, GROUP)


def moments(seconds: float) -> Iterator[float]:
    """How long it has been, again and again."""
    start = time.monotonic()
    while (taken := time.monotonic() - start) < seconds:
        yield taken


@pytest.mark.slow
def test_who_wakes_after_its_lease_cannot_publish_over_newer_work(place: Place) -> None:
    """A loop falls asleep with its work done; the other takes over when the lease ends, not before."""
    ab = place.ab
    with (
        place.scheduler(stop="metadata_written") as sleeper,
        place.reader() as reader,
    ):
        sleeper.ready()
        add(ab, "shop.sales", [(10, "eu", 1, 1000)])
        sleeper.stopped()
        asleep = time.monotonic()
        before = pointers(ab, GROUP)
        add(ab, "shop.sales", [(11, "us", 2, 2000)])
        (waits,) = ab.tick()
        assert waits["outcome"] == "SKIPPED" and "another process" in waits["reason"]
        with place.scheduler() as other:
            other.ready()
            other.published()
            assert time.monotonic() - asleep > LEASE / 2, "the lease was waited for"
            newer = pointers(ab, GROUP)
            assert newer != before
            other.popen.kill()
            sleeper.wake()
            refused = sleeper.next()
            assert refused["outcome"] == "SKIPPED"
            assert "another process" in refused["reason"]
            assert pointers(ab, GROUP) == newer
        seen = reader.stop()
    assert seen["torn"] == []
    assert seen["values"] == ["15", "3015"], "never the sleeper's view of the world"
    assert place.total() == 3015
    check(ab, GROUP)
