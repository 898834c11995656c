"""The power goes at moments that nobody chose: old or new, never between, always readable.

The home lies on a file system in a file (tests/faults/disk.py).  A worker writes, ticks, deploys and
tidies; it is stopped, what the device holds is kept, and the machine comes up again with just that.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import durable
from tests.faults.disk import Disk, available
from tests.faults.test_kill_at_random import check, forks, gone, listed
from tests.faults.worker import opened, prepare
from tests.standin.engine import installed

__all__ = ["forks"]

pytestmark = pytest.mark.skipif(
    not available(), reason="mounting a disk of one's own needs root, a loop device and mkfs.ext4"
)


@pytest.fixture(params=["ordered", "writeback"])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Disk]:
    made = Disk(tmp_path, request.param)
    (tmp_path / "home").symlink_to(made.at)
    yield made
    made.gone()


def power_cuts(forks: subprocess.Popen[str], disk: Disk, times: int, seed: int) -> None:
    assert forks.stdin is not None
    assert forks.stdout is not None
    home, chance = disk.at.parent, random.Random(seed)
    with installed():
        prepare(home)
        for number in range(1, times + 1):
            forks.stdin.write(f"{home} {number}\n")
            forks.stdin.flush()
            worker = int(forks.stdout.readline())
            time.sleep(chance.uniform(0.1, 1.5))
            os.kill(worker, signal.SIGSTOP)
            photograph = disk.photograph()
            os.kill(worker, signal.SIGKILL)
            while not gone(worker):
                time.sleep(0.005)
            disk.after_a_power_cut(photograph)
            with opened(home) as ab:
                check(home, ab, 0)
    assert listed(home, "acknowledged"), "no worker came as far as a write"


def test_a_few_power_cuts(forks: subprocess.Popen[str], disk: Disk) -> None:
    power_cuts(forks, disk, 2, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(5))
def test_many_power_cuts(forks: subprocess.Popen[str], disk: Disk, seed: int) -> None:
    power_cuts(forks, disk, 20, seed=100 + seed)


def test_without_syncing_it_is_found(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests above look at is really lost: the pointer is there, the file is empty."""
    monkeypatch.setattr(durable, "sync", lambda paths, top: None)
    monkeypatch.setattr("anabranch.lake.places.sync", lambda paths, top: None)
    home = disk.at.parent
    with installed():
        prepare(home)
        disk.after_a_power_cut(disk.photograph())
        with pytest.raises(Exception), opened(home) as ab:  # noqa: B017 - whatever is met first
            check(home, ab, 0)
