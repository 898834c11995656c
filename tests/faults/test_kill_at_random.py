"""kill -9 at moments that nobody chose, of a process that writes, ticks, deploys and tidies.

After each kill: no acknowledged write is lost and none is there twice, a transfer is there whole or not
at all, in every cut, every stream table equals its query, and the deployment in force is wholly one.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.api import Anabranch
from anabranch.errors import AnabranchError
from tests.faults.worker import ACCOUNTS, BY_HAND, deployed, opened, prepare
from tests.standin.engine import installed

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    """The process that forks the workers."""
    popen = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.worker"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert popen.stdout is not None
    assert popen.stdin is not None
    assert popen.stdout.readline() == "ready\n"
    yield popen
    popen.stdin.close()
    popen.wait()
    popen.stdout.close()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def kill_one(forks: subprocess.Popen[str], home: Path, seed: int, seconds: float) -> None:
    assert forks.stdin is not None
    assert forks.stdout is not None
    forks.stdin.write(f"{home} {seed}\n")
    forks.stdin.flush()
    pid = int(forks.stdout.readline())
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    while not gone(pid):
        time.sleep(0.005)


def listed(home: Path, name: str) -> set[int]:
    """What the worker said; a line that the kill cut off does not count."""
    place = home / name
    text = place.read_text() if place.exists() else ""
    return {int(line) for line in text.splitlines(keepends=True) if line.endswith("\n")}


def check(home: Path, ab: Anabranch, since: int) -> int:
    assert not (home / "worker.err").exists(), (home / "worker.err").read_text()
    check_writes(home, ab)
    for row in reversed(ab.cuts()):
        if row["cut_id"] > since:
            check_cut(ab, row["cut_id"])
    for row in ab.status():
        if row["populated"] and "__" not in row["name"]:
            assert equal(ab, row["name"]), row["name"]
    return ab.cuts(limit=1)[0]["cut_id"]


def equal(ab: Anabranch, name: str) -> bool:
    try:
        return bool(ab.verify(name)["equal"])
    except AnabranchError:  # not as it is declared: then a refresh must help
        ab.refresh(name)
        return bool(ab.verify(name)["equal"])


def check_writes(home: Path, ab: Anabranch) -> None:
    with ab.at() as world:
        one, two = (dict(world.table(name).collect()) for name in ACCOUNTS)
        counted = Counter(row[0] for row in world.table(ACCOUNTS[0]).collect())
    assert set(counted.values()) == {1}, "a write is there twice"
    assert one == {mark: -amount for mark, amount in two.items()}, "half of a transfer"
    assert listed(home, "acknowledged") <= {*one}, "an acknowledged write is lost"
    assert {*one} <= listed(home, "begun") | {0}


def check_cut(ab: Anabranch, cut_id: int) -> None:
    """Whoever published it, a cut shows whole transfers and one version of the project."""
    with ab.at(cut_id) as world:
        names = {str(name) for name in world.names()}
        sums = [
            sum(row[1] for row in world.table(name).collect()) for name in ACCOUNTS if name in names
        ]
        if len(sums) == 2:
            assert sum(sums) == 0, f"cut {cut_id} has half of a transfer"
        if {*BY_HAND} <= names:
            shown = {name: world.table(name).collect()[0] for name in BY_HAND}
            assert shown["db.hand.total"] == (0,), f"cut {cut_id}: {shown}"
            both = (*shown["db.hand.amounts"], *shown["db.hand.counts"])
            assert shown["db.hand.pair"] == both, f"cut {cut_id}: {shown}"
        if {*deployed(1)} <= names:
            told = {row[-1] for name in deployed(1) for row in world.table(name).collect()}
            assert len(told) == 1, f"cut {cut_id} shows versions {told}"


def kill_often(forks: subprocess.Popen[str], home: Path, times: int, seed: int) -> None:
    chance = random.Random(seed)
    with installed():
        prepare(home)
        since = 0
        for number in range(1, times + 1):
            kill_one(forks, home, number, chance.uniform(0.1, 1.5))
            with opened(home) as ab:
                since = check(home, ab, since)
        with opened(home) as ab:  # life goes on, and nothing is left
            for each in ab.deployments():
                if each["status"] in ("STAGING", "STAGED"):
                    ab.abort(each["id"])
            ab.refresh()
            ab.maintain()
            check(home, ab, since)
            assert not [name for name in map(str, ab._runtime.world().names()) if "__" in name]
            with ab._store.reading() as c:
                assert c.exec_driver_sql("SELECT count(*) FROM ab_stages").scalar_one() == 0
    assert listed(home, "acknowledged"), "no worker came as far as a write"


def test_a_few_kills(forks: subprocess.Popen[str], tmp_path: Path) -> None:
    kill_often(forks, tmp_path, 4, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(8))
def test_two_hundred_kills(forks: subprocess.Popen[str], tmp_path: Path, seed: int) -> None:
    kill_often(forks, tmp_path, 26, seed=100 + seed)
