"""What verifying checksums costs, on Spark.

    python -m benchmarks.checksums --rows 2000000

Tables of several column mixes are read again and again, in turns with and without verification of pages
and tails, and written in turns with and without checksums of pages.  What counts is the processor time
of the JVM and of Python together, which other work on the machine does not lengthen; medians, and the
ratio of the two.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import anabranch
from anabranch.api import Anabranch
from anabranch.names import TableName
from anabranch.spark import scan, write

VERIFY = "parquet.page.verify-checksum.enabled"
WRITE = "parquet.page.write-checksum.enabled"
MIXES = {
    "integers": "id, id % 1000 AS g, CAST(hash(id) AS BIGINT) AS h",
    "doubles": "id, rand(1) AS x, rand(2) AS y, CAST(rand(3) * 1000 AS DECIMAL(18, 2)) AS d",
    "strings": "id, sha2(CAST(id AS STRING), 256) AS s, CONCAT('n', id % 100) AS name",
    "mixed": "id, id % 97 AS g, rand(1) AS x, CONCAT('name ', hash(id)) AS name, "
    "DATE'2024-01-01' + CAST(id % 1000 AS INT) AS day, id % 2 = 0 AS even",
}


@dataclass(frozen=True)
class Cost:
    mix: str
    what: str
    with_ms: float  # processor time, median
    without_ms: float

    @property
    def percent(self) -> float:
        return 100 * (self.with_ms / self.without_ms - 1)


def processor_ms(pid: int) -> float:
    """Of all threads of a process, since it began."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def spent(jvm: int, act: Callable[[], object]) -> float:
    pids = (jvm, os.getpid())
    before = sum(map(processor_ms, pids))
    act()
    return sum(map(processor_ms, pids)) - before


@contextmanager
def switched_off(*, reading: bool) -> Iterator[None]:
    options, name = (scan.READ_OPTIONS, VERIFY) if reading else (write.WRITE_OPTIONS, WRITE)
    check = scan.check_tails
    options[name] = "false"
    scan.check_tails = lambda given: None if reading else check(given)
    try:
        yield
    finally:
        options[name] = "true"
        scan.check_tails = check


def in_turns(
    jvm: int, act: Callable[[], object], rounds: int, *, reading: bool
) -> tuple[float, float]:
    for _ in range(3):
        act()
    on, off = [], []
    for _ in range(rounds):
        on.append(spent(jvm, act))
        with switched_off(reading=reading):
            off.append(spent(jvm, act))
        with switched_off(reading=reading):
            off.append(spent(jvm, act))
        on.append(spent(jvm, act))
    return statistics.median(on), statistics.median(off)


def measured(ab: Anabranch, rows: int, rounds: int) -> Iterator[Cost]:
    process = ab.spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    jvm = int(process.pid)
    for mix, columns in MIXES.items():
        name = f"s.{mix}"
        ab.sql(f"CREATE TABLE {name} AS SELECT {columns} FROM range({rows})")

        def read(name: str = name) -> None:
            ab.table(name).write.format("noop").mode("overwrite").save()

        yield Cost(mix, "read", *in_turns(jvm, read, rounds, reading=True))
    version = ab._runtime.lake.current(TableName.parse("s.mixed"))
    frame = ab.table("s.mixed")
    folder = Path(tempfile.mkdtemp(prefix="anabranch-written-"))
    try:
        write_it = lambda: write.write(frame, str(folder), version.columns)  # noqa: E731
        yield Cost("mixed", "write", *in_turns(jvm, write_it, max(2, rounds // 3), reading=False))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ab.sql("CREATE TABLE s.small (id BIGINT, v BIGINT)")
    for at in range(16):
        ab.sql(f"INSERT INTO s.small VALUES ({at}, {at})")

    def look() -> None:
        for _ in range(5):
            ab.table("s.small").write.format("noop").mode("overwrite").save()

    yield Cost("16 files of one row", "read", *in_turns(jvm, look, rounds, reading=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", default="benchmarks/results", help="where results go, or nothing")
    given = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="anabranch-checksums-"))
    found: list[Cost] = []
    settings = {"spark.master": "local[2]"}
    try:
        with anabranch.connect(home / "home", **settings) as ab:
            for cost in measured(ab, given.rows, given.rounds):
                found.append(cost)
                print(
                    f"{cost.mix:<22} {cost.what:<6} {cost.with_ms:>8.0f} ms with "
                    f"{cost.without_ms:>8.0f} ms without {cost.percent:>+6.1f} %",
                    flush=True,
                )
    finally:
        shutil.rmtree(home, ignore_errors=True)
    if given.out:
        out = Path(given.out)
        out.mkdir(parents=True, exist_ok=True)
        told = {"conditions": {"rows": given.rows, "rounds": given.rounds, "cpus": os.cpu_count()}}
        costs = [{**asdict(each), "percent": round(each.percent, 1)} for each in found]
        text = json.dumps({**told, "results": costs}, indent=1)
        (out / "checksums.json").write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
