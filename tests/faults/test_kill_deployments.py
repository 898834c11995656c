"""kill -9 of a real process at each step of stage, promote, rollback and abort, with real Spark.

Whatever the moment, production is wholly old or wholly new, and the command run again succeeds.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.errors import Refused
from anabranch.failpoints import BEGUN, IN_TRANSACTION, PUBLISHED, STEPS
from anabranch.names import TableName
from anabranch.spark.session import Spark
from tests.failpoints import python

ROOT = Path(__file__).parents[2]
RUN = """
import sys, anabranch
small = {"spark.master": "local[1]", "spark.conf.spark.driver.memory": "1g"}
with anabranch.connect(sys.argv[1], **small) as ab:
    getattr(ab, sys.argv[2])(sys.argv[3])
"""
TABLES = ("db.mart.sums", "db.top.total")


class Shop:
    """A tiny project: all its amounts are multiplied by the number of its version."""

    def __init__(self, folder: Path, ab: Anabranch) -> None:
        self.folder, self.ab = folder, ab
        self.write("anabranch.toml", 'name = "shop"')
        self.write("models/db/raw/sales.sql", "CREATE TABLE sales (id BIGINT, amount BIGINT)")
        self.edit(1)
        self.deploy()
        ab.sql("INSERT INTO db.raw.sales VALUES (1, 10), (2, 5)")
        ab.refresh()

    def write(self, name: str, text: str) -> None:
        place = self.folder / "shop" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def edit(self, number: int) -> None:
        self.write(
            "models/db/mart/sums.sql",
            "CREATE STREAM TABLE sums AS "
            f"SELECT id, sum(amount) * {number} AS x FROM raw.sales GROUP BY id;"
            "CREATE INDEX by_id ON sums (id); COMMENT ON STREAM TABLE sums IS 'all of it';",
        )
        self.write(
            "models/db/top/total.sql",
            f"CREATE STREAM TABLE total AS SELECT sum(x) AS x, {number} AS version FROM mart.sums",
        )

    @property
    def project(self) -> str:
        return str(self.folder / "shop")

    def stage(self) -> str:
        made = self.ab.stage(self.project)
        assert made is not None
        return made

    def deploy(self) -> str:
        made = self.stage()
        self.ab.promote(made)
        return made

    def seen(self) -> int:
        """The version of the project that a reader of one cut sees; all tables must agree on it."""
        with self.ab.at() as world:
            (sums,) = world.sql("SELECT sum(x) AS x FROM db.mart.sums").collect()
            (total,) = world.table("db.top.total").collect()
            (copy,) = world.sql("SELECT sum(x) AS x FROM db.mart.sums__by_id").collect()
        assert sums.x == total.x == copy.x == 15 * total.version
        found: int = total.version
        return found

    def killed(self, verb: str, argument: str, step: str) -> None:
        done = subprocess.run(
            python("-c", RUN, str(self.folder), verb, argument, kill=step),
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()

    def in_order(self, version: int) -> None:
        """As the project says, every table as its query says, and nothing left behind."""
        ab = self.ab
        ab.refresh()
        assert self.seen() == version
        for name in TABLES:
            assert ab.verify(name)["equal"], name
        ab.maintain()
        shown = {str(name) for name in ab._runtime.world().names()}
        assert shown == {"db.raw.sales", *TABLES, "db.mart.sums__by_id"}
        assert [row["table"] for row in ab.indexes()] == ["db.mart.sums"]
        self.edit(version)
        assert ab.plan(self.project).empty
        sums = ab._runtime.world().version(TableName.parse("db.mart.sums"))
        assert sums.comments == {"": "all of it"}


@pytest.fixture
def shop(tmp_path: Path, spark: Spark) -> Shop:
    return Shop(tmp_path, anabranch.connect(tmp_path, spark=spark.session))


def check_stage(shop: Shop, step: str) -> None:
    shop.edit(2)
    shop.killed("stage", shop.project, step)
    assert shop.seen() == 1
    unfinished = shop.ab.deployments()[0]
    assert unfinished["status"] == "STAGING"
    assert shop.stage() == unfinished["id"], "the next one goes on with it"
    shop.ab.promote(unfinished["id"])
    shop.in_order(2)


def check_flip(shop: Shop, verb: str, step: str) -> None:
    """Before the flip the command can be run again, after it there is nothing left to do."""
    before, after = {"promote": (1, 2), "rollback": (2, 1)}[verb]
    shop.edit(2)
    made = shop.deploy() if verb == "rollback" else shop.stage()
    shop.killed(verb, made, step)
    again = getattr(shop.ab, verb)
    if step.startswith(PUBLISHED):
        assert shop.seen() == after
        with pytest.raises(Refused, match=f"{made} cannot be"):
            again(made)
    else:
        assert shop.seen() == before
        again(made)
    shop.in_order(after)


def check_abort(shop: Shop, step: str) -> None:
    shop.edit(2)
    made = shop.stage()
    shop.killed("abort", made, step)
    assert shop.seen() == 1
    shop.ab.abort(made)
    assert shop.ab.deployments()[0]["status"] == "ABORTED"
    shop.in_order(1)


# A stage publishes once for each table, index and comment; a promote has nothing to catch up with.
STAGE_STEPS = (BEGUN, *STEPS, *(f"{step}:2" for step in STEPS), "in_transaction:4", "published:4")


def test_a_killed_flip(shop: Shop) -> None:
    check_flip(shop, "promote", IN_TRANSACTION)


@pytest.mark.slow
@pytest.mark.parametrize("step", STAGE_STEPS)
def test_a_killed_stage(shop: Shop, step: str) -> None:
    check_stage(shop, step)


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("verb", ["promote", "rollback"])
def test_a_killed_flip_at_every_step(shop: Shop, verb: str, step: str) -> None:
    check_flip(shop, verb, step)


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_abort(shop: Shop, step: str) -> None:
    check_abort(shop, step)
