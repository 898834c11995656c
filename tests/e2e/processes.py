"""Other processes that look and write while groups are published; they need no Spark.

Run as `python -m tests.e2e.processes <role> <catalog> <warehouse> <what>`: it says `ready`, works until
its stdin is closed, and then says as JSON what it saw.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from pyiceberg.table import StaticTable

from anabranch.catalog.store import Store
from anabranch.lake.lake import Lake
from anabranch.lake.publish import publish
from anabranch.lake.stage import Stage
from anabranch.names import TableName
from tests.contract.world import written

ROOT = Path(__file__).parents[2]
Sums = list[list[tuple[str, str]]]  # of columns of tables; all of them must be equal


Home = Path | tuple[str, Path]  # a folder, or the URL of a catalog and its warehouse


def opened(catalog: str, warehouse: str) -> Lake:
    return Lake(Store.open(catalog), Path(warehouse))


class Reader:
    """Takes the pointers of one cut after the other and adds up columns of its tables."""

    pause = 0.003  # the machine has others to serve

    def __init__(self, lake: Lake, sums: Sums) -> None:
        self.lake = lake
        self.sums = sums
        self.names = sorted({table for each in sums for table, _ in each})
        self.known: dict[tuple[str, str], Decimal] = {}
        self.reads = 0
        self.cuts: dict[tuple[str, ...], list[str]] = {}  # pointers of a cut and its sums
        self.torn: list[list[str]] = []

    def work(self) -> None:
        """One read; what a metadata file says never changes, and is read once."""
        pointers = self.lake.pointers()
        cut = tuple(pointers[TableName.parse(name)] for name in self.names)
        self.reads += 1
        if cut in self.cuts:
            return
        found = [
            str(sum(self.total(pointers[TableName.parse(table)], column) for table, column in each))
            for each in self.sums
        ]
        self.cuts[cut] = found
        if len(set(found)) > 1:
            self.torn.append(found)

    def total(self, location: str, column: str) -> Decimal:
        if (location, column) not in self.known:
            rows = StaticTable.from_metadata(location).scan().to_arrow()
            value = pc.sum(rows[column]).as_py()  # type: ignore[attr-defined]
            self.known[location, column] = Decimal(value or 0)
        return self.known[location, column]

    def said(self) -> dict[str, Any]:
        values = sorted({each[0] for each in self.cuts.values()})
        return {"reads": self.reads, "cuts": len(self.cuts), "torn": self.torn, "values": values}


class Mover:
    """Moves amounts between two tables of one row each: both change in one transaction."""

    pause = 0.3

    def __init__(self, lake: Lake, balances: dict[str, int]) -> None:
        self.lake = lake
        self.balances = {TableName.parse(name): x for name, x in balances.items()}
        self.moves = 0

    def work(self) -> None:
        amount = random.randint(-50, 50)
        one, other = self.balances
        wanted = {one: self.balances[one] - amount, other: self.balances[other] + amount}
        with Stage(self.lake) as stage:
            for name, x in wanted.items():
                row = written(stage, name, add=[(self.moves, x)])
                stage.commit_rows(name, row, replace_all=True)
            publish(stage, "move")
        self.balances = wanted
        self.moves += 1

    def said(self) -> dict[str, Any]:
        return {"moves": self.moves}


ROLES = {"reader": Reader, "mover": Mover}


class Process:
    """The other end: a process at work until `stop`."""

    def __init__(self, role: str, home: Home, what: object) -> None:
        catalog, warehouse = (
            (home / "catalog.db", home / "warehouse") if isinstance(home, Path) else home
        )
        given = [str(catalog), str(warehouse), json.dumps(what)]
        command = [sys.executable, "-m", "tests.e2e.processes", role, *given]
        self.popen = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.popen.stdout is not None
        assert self.popen.stdout.readline() == "ready\n"

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *raised: object) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                pipe.close()

    def stop(self) -> dict[str, Any]:
        out, _ = self.popen.communicate(timeout=120)
        assert self.popen.returncode == 0
        found: dict[str, Any] = json.loads(out)
        return found


def main(role: str, catalog: str, warehouse: str, what: str) -> None:
    worker = ROLES[role](opened(catalog, warehouse), json.loads(what))
    stopped = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        stopped.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    print("ready", flush=True)
    while not stopped.wait(worker.pause):
        worker.work()
    worker.work()
    print(json.dumps(worker.said()))


if __name__ == "__main__":
    main(*sys.argv[1:])
