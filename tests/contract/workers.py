"""What the processes of the tests do; run as `python -m tests.contract.workers <job> <arguments>`."""

from __future__ import annotations

import sys
from pathlib import Path

from anabranch.catalog import leases
from anabranch.catalog.leases import Lease
from anabranch.errors import PublishConflict
from anabranch.lake.publish import publish
from anabranch.lake.stage import Stage
from anabranch.leases import Leases
from anabranch.names import TableName
from tests.contract.world import COLUMNS, World, written

PAIR = (TableName.of("shop", "left"), TableName.of("shop", "right"))
NEW = TableName.of("shop", "new")


def writer(world: World, me: str, count: str) -> str:
    """Put the same number into both tables, again and again; every number must arrive once."""
    conflicts = 0
    for at in range(int(count)):
        while True:
            with Stage(world.lake) as stage:
                for name in PAIR:
                    stage.commit_rows(name, written(stage, name, add=[(at, me)]))
                try:
                    publish(stage, "test")
                    break
                except PublishConflict:
                    conflicts += 1
    return str(conflicts)


def reader(world: World, count: str) -> str:
    """Both tables of a cut must hold the same number of rows."""
    for _ in range(int(count)):
        pointers = world.lake.pointers()
        left, right = (world.lake.version(name, pointers[name]).rows for name in PAIR)
        if left != right:
            return f"torn: {left} and {right}"
    return "ok"


def creator(world: World) -> str:
    with Stage(world.lake) as stage:
        if stage.exists(NEW):
            return "late"
        stage.create(NEW, COLUMNS)
        stage.commit_rows(NEW, written(stage, NEW, add=[(1, "eu")]))
        try:
            publish(stage, "test")
        except PublishConflict:
            return "lost"
        return "won"


def killed(world: World) -> str:
    """Change one table, make another; the launcher says at which step to die."""
    with Stage(world.lake) as stage:
        for name in PAIR:
            stage.commit_rows(name, written(stage, name, add=[(1, "new")]))
        stage.create(NEW, COLUMNS)
        stage.commit_rows(NEW, written(stage, NEW, add=[(1, "new")]))
        publish(stage, "test")
    return "alive"


def sleeper(world: World, seconds: str) -> str:
    """Publish under a lease; the launcher says at which step to fall asleep."""
    with (
        Leases(world.store).hold(PAIR, float(seconds), wait=False) as lease,
        Stage(world.lake) as stage,
    ):
        assert isinstance(lease, Lease)
        stage.commit_rows(PAIR[0], written(stage, PAIR[0], add=[(1, "late")]))
        try:
            publish(stage, "test", lambda c, cut_id: leases.check(c, lease))
        except PublishConflict as conflict:
            return conflict.message
    return "published"


if __name__ == "__main__":
    job, url, warehouse, *rest = sys.argv[1:]
    here = World(url, Path(warehouse))
    jobs = {"writer": writer, "reader": reader, "creator": creator, "killed": killed}
    jobs["sleeper"] = sleeper
    print(jobs[job](here, *rest))
    here.close()
