"""What syncing costs: small writes with and without `fsync`, in turns, in one process.

    python -m benchmarks.durability --rounds 20

Two homes on one disk, one of which syncs.  Each round writes to both: one row by INSERT on Spark, a
refresh of a group of five stream tables, which are published together, and the same two publishes on
files and catalog alone, without Spark.  What is told are medians: the time on the clock, which is the
disk's to answer, and the processor time of Python and the JVM.  `--folder` chooses the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import anabranch
from anabranch.api import Anabranch
from anabranch.lake.ground import file_system
from anabranch.lake.publish import publish
from anabranch.lake.stage import Stage
from anabranch.names import TableName
from benchmarks.growth import COLUMNS, SOURCE, Diamond

TABLES = 5
ROWS = 10
GROUP = tuple(TableName.of("shop", f"member_{at}") for at in range(TABLES))
Act = Callable[[], object]


@dataclass(frozen=True)
class Spent:
    clock_ms: float
    cpu_ms: float


@dataclass(frozen=True)
class Cost:
    what: str
    on: Spent
    off: Spent

    @property
    def times(self) -> float:
        return self.on.clock_ms / self.off.clock_ms

    @property
    def cpu_times(self) -> float:
        return self.on.cpu_ms / self.off.cpu_ms


def in_turns(what: str, acts: Mapping[bool, Act], rounds: int, jvm: int | None) -> Cost:
    """`acts`: by whether they sync."""
    found: dict[bool, list[Spent]] = {True: [], False: []}
    for at in range(rounds + 2):
        for fsync in (True, False) if at % 2 else (False, True):
            begin, cpu = time.perf_counter(), _cpu_ms(jvm)
            acts[fsync]()
            if at >= 2:  # the first ones are slower than those that follow
                clock = 1000 * (time.perf_counter() - begin)
                found[fsync].append(Spent(clock, _cpu_ms(jvm) - cpu))
    return Cost(what, _median(found[True]), _median(found[False]))


def _median(found: list[Spent]) -> Spent:
    return Spent(
        statistics.median(each.clock_ms for each in found),
        statistics.median(each.cpu_ms for each in found),
    )


def _cpu_ms(jvm: int | None) -> float:
    own = 1000 * time.process_time()
    if jvm is None:
        return own
    fields = Path(f"/proc/{jvm}/stat").read_text().rpartition(")")[2].split()
    return own + 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- files and catalog alone ---------------------------------------------------------------------


def publishes(folder: Path, rounds: int) -> Iterator[Cost]:
    homes = {fsync: _made(folder / f"bare-{fsync}", fsync) for fsync in (True, False)}
    with closing(homes[True].store), closing(homes[False].store):
        for what, names in (("one table", (SOURCE,)), (f"{TABLES} tables", GROUP)):
            acts: dict[bool, Act] = {
                fsync: (lambda home=home, names=names: _add(home, names))  # type: ignore[misc]
                for fsync, home in homes.items()
            }
            yield in_turns(f"publish of {what}, without Spark", acts, rounds, None)


def _made(folder: Path, fsync: bool) -> Diamond:
    folder.mkdir()
    home = Diamond(folder, fsync=fsync, rows=ROWS)
    with Stage(home.lake) as stage:
        for name in GROUP:
            stage.create(name, COLUMNS)
        publish(stage, "create")
    return home


def _add(home: Diamond, names: tuple[TableName, ...]) -> None:
    with Stage(home.lake) as stage:
        for name in names:
            stage.commit_rows(name, home._added(stage, name, ROWS))
        publish(stage, "insert")


# -- on Spark ------------------------------------------------------------------------------------


def statements(folder: Path, rounds: int) -> Iterator[Cost]:
    with (
        anabranch.connect(folder / "on") as on,
        anabranch.connect(folder / "off", fsync=False, spark=on.spark) as off,
    ):
        homes = {True: on, False: off}
        for ab in homes.values():
            _prepare(ab)
        jvm = int(on.spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
        inserts: dict[bool, Act] = {fsync: _insert(ab) for fsync, ab in homes.items()}
        yield in_turns("INSERT of one row", inserts, rounds, jvm)
        refreshes: dict[bool, Act] = {fsync: _change(ab) for fsync, ab in homes.items()}
        yield in_turns(f"INSERT and refresh of a group of {TABLES}", refreshes, rounds, jvm)


def _prepare(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
    ab.sql("INSERT INTO s.t SELECT id % 100, id FROM range(1000)")
    members = {
        f"s.d{at}": f"SELECT k, SUM(v + {at}) AS v FROM s.t GROUP BY k" for at in range(TABLES)
    }
    ab.create_stream_tables(members, schedule=None)
    ab.create_refresh_group("g", list(members))
    assert len(ab.refresh("s.d0")) == TABLES


def _insert(ab: Anabranch) -> Act:
    return lambda: ab.sql("INSERT INTO s.t VALUES (1, 1)")


def _change(ab: Anabranch) -> Act:
    def act() -> None:
        ab.sql("INSERT INTO s.t VALUES (1, 1)")
        ab.refresh("s.d0")

    return act


# -- the whole -----------------------------------------------------------------------------------


def save(found: list[Cost], rounds: int, disk: str, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    costs = [{**asdict(each), "times": each.times, "cpu_times": each.cpu_times} for each in found]
    conditions = {"cpus": os.cpu_count(), "rounds": rounds, "file_system": disk}
    rounded = json.loads(
        json.dumps({"conditions": conditions, "results": costs}),
        parse_float=lambda text: round(float(text), 2),
    )
    (out / "durability.json").write_text(json.dumps(rounded, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rounds", type=int, default=20, help="on Spark; ten times as many without"
    )
    parser.add_argument("--folder", help="a folder on the disk to measure")
    parser.add_argument("--out", default="benchmarks/results", help="where results go, or nothing")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="anabranch-durability-", dir=given.folder))
    disk, found = file_system(str(folder)) or "unknown", list[Cost]()
    try:
        for costs in (publishes(folder, 10 * given.rounds), statements(folder, given.rounds)):
            for cost in costs:
                found.append(cost)
                print(
                    f"{cost.what:<34} {cost.on.clock_ms:>8.1f} ms with {cost.off.clock_ms:>8.1f} ms "
                    f"without: {cost.times:.2f} times; CPU {cost.on.cpu_ms:>7.1f} ms with "
                    f"{cost.off.cpu_ms:>7.1f} ms without: {cost.cpu_times:.2f} times",
                    flush=True,
                )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if given.out:
        save(found, given.rounds, disk, Path(given.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
