"""A process that writes, ticks, refreshes, deploys and tidies until somebody kills it; without Spark.

`python -m tests.faults.worker` reads `<home> <seed>` a line and forks a worker for each, which costs no
import; it answers with the worker's process number.  The worker says in a file what was acknowledged.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

import pyarrow as pa

from anabranch.api import Anabranch
from anabranch.errors import AnabranchError, InternalError
from tests.standin.engine import connect, installed

ACCOUNTS = ("db.raw.one", "db.raw.two")
TABLES = {
    "db.raw.one": "CREATE TABLE one (id BIGINT, amount BIGINT)",
    "db.raw.two": "CREATE TABLE two (id BIGINT, amount BIGINT)",
}
BY_HAND = {
    # each account by itself: whatever is visible of them, their total shows whole transfers
    "db.hand.ones": "SELECT SUM(amount) AS amount FROM db.raw.one",
    "db.hand.twos": "SELECT SUM(amount) AS amount FROM db.raw.two",
    "db.hand.total": "SELECT a.amount + b.amount AS amount FROM db.hand.ones AS a "
    "CROSS JOIN db.hand.twos AS b",
    # a diamond: in every cut the last one shows what the others show
    "db.hand.amounts": "SELECT SUM(amount) AS amount FROM db.raw.two",
    "db.hand.counts": "SELECT COUNT(*) AS amount FROM db.raw.two",
    "db.hand.pair": "SELECT a.amount AS amount, b.amount AS counted FROM db.hand.amounts AS a "
    "CROSS JOIN db.hand.counts AS b",
}


def deployed(version: int) -> dict[str, str]:
    """The project: both tables say of which version they are."""
    told = f"CAST({version} AS BIGINT) AS version"
    return {
        "db.mart.sums": f"SELECT id, SUM(amount) AS amount, {told} FROM db.raw.one GROUP BY id",
        "db.mart.all_of_it": f"SELECT SUM(amount) AS amount, {told} FROM db.mart.sums",
    }


def write_project(home: Path, version: int) -> str:
    folder = home / "shop"
    made = {
        name: f"CREATE STREAM TABLE {name.split('.')[-1]} AS {query}"
        for name, query in deployed(version).items()
    }
    for name, text in {**TABLES, **made}.items():
        place = folder / "models" / f"{name.replace('.', '/')}.sql"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (folder / "anabranch.toml").write_text('name = "shop"\n')
    return str(folder)


def opened(home: Path) -> Anabranch:
    return connect(home / "home", snapshot_retention="1h", fsync=(home / "disk").exists())


def prepare(home: Path) -> None:
    """The tables, and a first version of the project."""
    with opened(home) as ab:
        for name, text in TABLES.items():
            ab.sql(text.replace(f"TABLE {name.split('.')[-1]}", f"TABLE {name}"))
        ab.sql("INSERT INTO db.raw.one VALUES (0, 0)")
        ab.sql("INSERT INTO db.raw.two VALUES (0, 0)")
        ab.create_stream_tables(BY_HAND, schedule="1s")
        made = ab.stage(write_project(home, 1))
        assert made is not None
        ab.promote(made)


class Worker:
    def __init__(self, home: Path, seed: int) -> None:
        self.home, self.random, self.seed = home, random.Random(seed), seed
        self.ab = opened(home)
        self.count = 0

    def work(self) -> None:
        """Whatever comes by chance, for ever; a refusal is an answer, a fault of ours is not."""
        steps = [self.transfer] * 6 + [self.tick] * 4
        steps += [self.refresh] * 2 + [self.deploy] * 2 + [self.rollback, self.abort, self.maintain]
        while True:
            step = self.random.choice(steps)
            try:
                step()
            except InternalError as error:
                self.say("worker.err", f"{step.__name__}: {error!r}")
                raise
            except AnabranchError as error:
                self.say("worker.log", f"{step.__name__}: {error}")

    def say(self, name: str, text: str) -> None:
        with (self.home / name).open("a") as file:
            file.write(text + "\n")

    def transfer(self) -> None:
        """An amount goes from one account to the other, in one transaction."""
        self.count += 1
        mark, amount = self.seed * 1000 + self.count, self.random.randint(1, 100)
        self.say("begun", str(mark))
        with self.ab.transaction():
            self.ab.append(ACCOUNTS[0], pa.table({"id": [mark], "amount": [-amount]}))
            self.ab.append(ACCOUNTS[1], pa.table({"id": [mark], "amount": [amount]}))
        self.say("acknowledged", str(mark))

    def tick(self) -> None:
        self.ab.tick()

    def refresh(self) -> None:
        self.ab.refresh()

    def deploy(self) -> None:
        made = self.ab.stage(write_project(self.home, self.random.randint(1, 5)))
        if made is not None:
            self.ab.promote(made)

    def rollback(self) -> None:
        self.ab.rollback()

    def abort(self) -> None:
        for each in self.ab.deployments():
            if each["status"] in ("STAGING", "STAGED"):
                self.ab.abort(each["id"])

    def maintain(self) -> None:
        self.ab.maintain()


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended
    print("ready", flush=True)
    for line in sys.stdin:
        home, seed = line.rsplit(" ", 1)
        child = os.fork()
        if child:
            print(child, flush=True)
            continue
        os.setsid()
        with installed():
            Worker(Path(home), int(seed)).work()


if __name__ == "__main__":
    main()
