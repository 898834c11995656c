"""A process that runs random transactions and writes down what each saw; rows by the stand-in.

`python -m tests.isolation.worker <target> <warehouse or -> <log> <seed> <isolation> <transactions>`
A line is written before a transaction commits and one after it, so that a kill leaves "unknown".
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch.api import Anabranch
from anabranch.errors import PublishConflict
from tests.standin.engine import connect, installed

LISTS = ("i.x", "i.y")
REGISTERS = ("i.r", "i.s")
_ARROW = pa.schema([("v", pa.string())])


def prepare(ab: Anabranch) -> None:
    for name in (*LISTS, *REGISTERS):
        ab.sql(f"CREATE TABLE {name} (v STRING)")
    for name in REGISTERS:
        ab.append(name, pa.table({"v": ["0"]}, schema=_ARROW))


def opened(target: str, warehouse: str) -> Anabranch:
    given = {} if warehouse == "-" else {"warehouse": warehouse}
    return connect(target, small_table_rows=1000, **given)


def values(ab: Anabranch, name: str) -> list[str]:
    return [row[0] for row in ab.table(name).collect()]


def transaction(ab: Anabranch, number: str, chance: random.Random, found: dict[str, Any]) -> None:
    """One to three things, each a read, a blind append or a replacement."""
    for at in range(chance.randint(1, 3)):
        act = chance.choice(("append", "append", "list", "replace", "read"))
        if act == "append":
            name = chance.choice(LISTS)
            value = f"{number}.{at}"
            ab.append(name, pa.table({"v": [value]}, schema=_ARROW))
            found["appended"].setdefault(name, []).append(value)
        elif act == "list":
            name = chance.choice(LISTS)
            if name not in found["listed"] and name not in found["appended"]:
                found["listed"][name] = values(ab, name)
        else:
            name = chance.choice(REGISTERS)
            if name in found["wrote"]:
                continue
            found["read"].setdefault(name, values(ab, name)[0])
            if act == "replace":
                ab.sql(f"UPDATE {name} SET v = '{number}'")
                found["wrote"][name] = number


def work(ab: Anabranch, log: Path, seed: int, isolation: str, count: int) -> None:
    chance = random.Random(seed)
    with log.open("a") as out:

        def say(**line: Any) -> None:
            out.write(json.dumps(line) + "\n")
            out.flush()
            os.fsync(out.fileno())

        for at in range(count):
            number = f"{seed}-{at}"
            found: dict[str, Any] = {"appended": {}, "listed": {}, "read": {}, "wrote": {}}
            ended = "ok"
            try:
                with ab.transaction(isolation=isolation):
                    transaction(ab, number, chance, found)
                    say(id=number, ended="unknown", **found)
            except PublishConflict:
                ended = "refused"
            say(id=number, ended=ended, **found)


def main() -> None:
    target, warehouse, log, seed, isolation, count = sys.argv[1:]
    with installed(), opened(target, warehouse) as ab:
        print("ready", flush=True)
        sys.stdin.readline()  # all begin together
        work(ab, Path(log), int(seed), isolation, int(count))


if __name__ == "__main__":
    main()
