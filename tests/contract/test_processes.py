"""Several real processes on one catalog, some of them killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from anabranch.catalog import cuts, stages
from anabranch.catalog.leases import Lease
from anabranch.failpoints import IN_TRANSACTION, METADATA_WRITTEN, PUBLISHED, STAGED, STEPS
from anabranch.lake.upkeep import maintain
from anabranch.leases import Leases
from tests.contract.workers import NEW, PAIR
from tests.contract.world import World, bag
from tests.failpoints import python

ROOT = Path(__file__).parents[2]


def start(world: World, job: str, *rest: str, **failing: str) -> subprocess.Popen[str]:
    arguments = (job, world.url, str(world.warehouse), *rest)
    return run("tests.contract.workers", *arguments, **failing)


def run(module: str, *arguments: str, kill: str = "", stop: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        python("-m", module, *arguments, kill=kill, stop=stop),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen[str]) -> str:
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return out.strip()


def asleep(process: subprocess.Popen[str]) -> None:
    """Wait until a process has stopped itself."""
    found = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert found is not None and found.si_status == signal.SIGSTOP, process.communicate()


@contextmanager
def waking(process: subprocess.Popen[str]) -> Iterator[None]:
    """Whatever happens inside, the process does not sleep for ever."""
    try:
        yield
    except BaseException:
        process.kill()
        process.communicate()
        raise
    process.send_signal(signal.SIGCONT)


@pytest.mark.extended
def test_no_torn_cut_and_no_lost_update(world: World) -> None:
    for name in PAIR:
        world.create(name)
    writers = [start(world, "writer", f"w{at}", "6") for at in range(3)]
    readers = [start(world, "reader", "150")]
    assert [answer(each) for each in readers] == ["ok"]
    for each in writers:
        answer(each)
    wanted = {(at, f"w{me}"): 1 for at in range(6) for me in range(3)}
    for name in PAIR:
        assert bag(world.lake.current(name)) == wanted == world.seen_by_pyiceberg(name)
    with world.store.reading() as c:
        assert [line["cut_id"] for line in cuts.listing(c)] == list(range(20, 0, -1))
        assert stages.all_stages(c) == []


def test_opening_a_new_catalog_at_once(catalog_url: str) -> None:
    found = [run("tests.contract.opening", catalog_url) for _ in range(4)]
    assert len({answer(each) for each in found}) == 1


@pytest.mark.extended
def test_creating_the_same_table_in_a_new_catalog_at_once(world: World) -> None:
    results = [answer(each) for each in [start(world, "creator") for _ in range(3)]]
    assert results.count("won") == 1
    assert world.seen_by_pyiceberg(NEW) == {(1, "eu"): 1}


@pytest.mark.parametrize("step", STEPS)
def test_killed(world: World, step: str) -> None:
    """Whatever the moment: all or nothing is visible, and upkeep removes just the orphans."""
    for name in PAIR:
        world.create(name)
        world.append([(0, "old")], name)
    location = world.lake.warehouse.location
    maintain(world.lake)  # metadata files that newer ones have superseded go with any upkeep
    before, pointers = set(world.lake.warehouse.listing(location)), world.lake.pointers()
    process = start(world, "killed", kill=step)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    after = set(world.lake.warehouse.listing(location))
    assert after > before
    if step == PUBLISHED:
        assert world.lake.pointers().keys() == {*PAIR, NEW}
        maintain(world.lake)
        gone = after - set(world.lake.warehouse.listing(location))
        assert all(path.endswith(".metadata.json") for path in gone)
        expected = {(0, "old"): 1, (1, "new"): 1}
    else:
        assert step in (STAGED, METADATA_WRITTEN, IN_TRANSACTION)
        assert world.lake.pointers() == pointers
        report = maintain(world.lake)
        assert report.stages_ended == 1
        assert report.files_deleted == len(after - before) > 0 and report.bytes_deleted > 0
        assert set(world.lake.warehouse.listing(location)) == before
        expected = {(0, "old"): 1}
    for name in PAIR:
        assert world.seen_by_pyiceberg(name) == expected
        assert world.append([(9, "on")], name).rows == len(expected) + 1


def test_who_sleeps_longer_than_its_lease_cannot_publish(world: World) -> None:
    """Its lease ends with its time although it lives; whoever came meanwhile keeps what it did."""
    for name in PAIR:
        world.create(name)
    late = start(world, "sleeper", "2", stop=METADATA_WRITTEN)
    with waking(late):
        asleep(late)
        with Leases(world.store).hold(PAIR, 60, wait=False) as refused:
            assert refused == PAIR[0], "its lease still holds"
        with Leases(world.store).hold(PAIR, 60, wait=True) as lease:
            assert isinstance(lease, Lease) and lease.waited
            world.append([(2, "newer")], PAIR[1])  # another table: no pointer is in the way
        pointers = world.lake.pointers()
    assert answer(late) == "another process took over the refresh"
    assert world.lake.pointers() == pointers
    with world.store.reading() as c:
        assert stages.all_stages(c) == []


def test_who_sleeps_undisturbed_publishes(world: World) -> None:
    for name in PAIR:
        world.create(name)
    late = start(world, "sleeper", "0.1", stop=METADATA_WRITTEN)
    with waking(late):
        asleep(late)
    assert answer(late) == "published"
    assert world.seen_by_pyiceberg(PAIR[0]) == {(1, "late"): 1}
