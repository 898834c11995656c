"""Small writes on a diamond for some minutes, on Spark: does anything keep rising?

    python -m benchmarks.soak --minutes 7

A writer adds a few rows, a tick brings the diamond up to date, and upkeep runs beside them, with its
times scaled down.  Every minute one line says what the process and its JVM hold after a collection of
garbage, and how many files, bytes of metadata, rows of the catalog and milliseconds a tick there are.
A line that is higher in the last third of the lines than in the middle one fails the run (exit 1).

The minutes are the least: on a slow or busy machine the run goes on until there were enough writes, so
that it always ends with a verdict.  What other work makes longer is shown and not judged: of a tick the
CPU counts, of the process and its JVM.  Each line follows a round of upkeep, since files pile up until
the next one, and when that comes depends on the machine.  In less than three minutes there are no
thirds (exit 2).
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlalchemy import func, select

import anabranch
from anabranch import cache
from anabranch.api import Anabranch
from anabranch.catalog import tables
from anabranch.scheduler import upkeep

LEAST_MINUTES = 3  # one for each third
ENOUGH_WRITES = 300  # the files of this many writes have been compacted several times over
MOST_RISE = 1.15  # from the middle third to the last one
SCALED = {
    "keep_all_cuts": "20s",
    "keep_minute_cuts": "1min",
    "snapshot_retention": "2min",
    "orphan_grace": "10s",
    "upkeep_interval": "10s",
    "history_retention": "1min",
}
DIAMOND = {
    "s.left": "SELECT k, COUNT(*) AS n, SUM(v) AS v FROM s.t GROUP BY k",
    "s.right": "SELECT k, v FROM s.t WHERE v % 2 = 0",
    "s.total": "SELECT l.k, l.v, COUNT(*) AS n FROM s.left l JOIN s.right r ON l.k = r.k "
    "GROUP BY l.k, l.v",
}


@dataclass(frozen=True)
class Minute:
    python_mb: float
    jvm_heap_mb: float
    files: int
    metadata_mb: float
    catalog_rows: int
    tick_cpu_ms: float
    tick_ms: float  # on the clock, as whoever waits for it sees it


@dataclass(frozen=True)
class Tick:
    seconds: float
    cpu: float


UNJUDGED = {"tick_ms"}


def measured(ab: Anabranch, ticks: Sequence[Tick]) -> Minute:
    lake = ab._runtime.lake
    found = lake.warehouse.listing(lake.warehouse.location)
    with ab._store.reading() as c:
        rows = sum(
            int(c.execute(select(func.count()).select_from(table)).scalar_one())
            for table in tables.metadata.sorted_tables
        )
    metadata = sum(info.size or 0 for path, info in found.items() if "/metadata/" in path)
    return Minute(
        python_mb=_python_mb(),
        jvm_heap_mb=_heap_mb(ab),
        files=len(found),
        metadata_mb=metadata / 1e6,
        catalog_rows=rows,
        tick_cpu_ms=_median_ms([each.cpu for each in ticks]),
        tick_ms=_median_ms([each.seconds for each in ticks]),
    )


def _median_ms(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) * 1000 if seconds else 0.0


def _python_mb() -> float:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def _tidy(rounds: upkeep.Upkeep) -> None:
    """A whole round, with files listed; one that is under way is waited for."""
    rounds._collect_at = 0.0
    while not rounds.round():
        time.sleep(0.1)


def _heap_mb(ab: Anabranch) -> float:
    """What the JVM holds after a collection."""
    jvm = ab._runtime.spark.session.sparkContext._jvm
    assert jvm is not None
    memory, held = jvm.java.lang.Runtime.getRuntime(), []
    for _ in range(4):  # what the first one finds unreachable, Spark's cleaner lets go of
        jvm.java.lang.System.gc()
        held.append(float(memory.totalMemory() - memory.freeMemory()) / 1e6)
        time.sleep(0.5)
    return min(held)


def _jvm_pid(ab: Anabranch) -> int:
    jvm = ab._runtime.spark.session.sparkContext._jvm
    assert jvm is not None
    return int(jvm.java.lang.ProcessHandle.current().pid())


def _cpu(pid: int) -> float:
    """Seconds of CPU that this process and its JVM have used."""
    used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return time.process_time() + sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def rising(found: Sequence[Minute]) -> list[str]:
    third = max(1, len(found) // 3)
    middle, last = found[third : 2 * third], found[-third:]
    said = []
    for key in (each for each in asdict(found[0]) if each not in UNJUDGED):
        early = statistics.median(getattr(each, key) for each in middle)
        late = statistics.median(getattr(each, key) for each in last)
        if late > MOST_RISE * early:
            said.append(f"{key} keeps rising: from {early:,.1f} to {late:,.1f}")
    return said


def run(home: Path, minutes: int) -> tuple[list[Minute], int]:
    """What was measured by the minute, and the number of writes: never fewer than are enough."""
    found: list[Minute] = []
    upkeep.COLLECT_SECONDS = 10.0  # type: ignore[misc]
    with anabranch.connect(home, **SCALED) as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        ab.create_stream_tables(DIAMOND, schedule="calculated")
        rounds = upkeep.Upkeep(ab._runtime)
        rounds.start()
        at, pid = 0, 0
        try:
            while len(found) < minutes or at < ENOUGH_WRITES:
                ticks: list[Tick] = []
                end = time.monotonic() + 60
                while time.monotonic() < end:
                    at += 1
                    ab.sql(f"INSERT INTO s.t VALUES ({at % 100}, {at}), ({at % 37}, {at + 1})")
                    pid = pid or _jvm_pid(ab)
                    start, cpu = time.monotonic(), _cpu(pid)
                    ab.tick()
                    ticks.append(Tick(time.monotonic() - start, _cpu(pid) - cpu))
                _tidy(rounds)
                found.append(line := measured(ab, ticks))
                print(
                    f"{len(found):>6} {at:>7} {line.python_mb:>10.0f} {line.jvm_heap_mb:>12.0f} "
                    f"{line.files:>7} {line.metadata_mb:>12.2f} {line.catalog_rows:>7} "
                    f"{line.tick_cpu_ms:>7.0f} {line.tick_ms:>8.0f}",
                    flush=True,
                )
        finally:
            rounds.stop()
    return found, at


def save(found: Sequence[Minute], writes: int, problems: Sequence[str], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    told = {
        "conditions": {"cpus": os.cpu_count(), "writes": writes, "settings": SCALED},
        "problems": [*problems],
        "minutes": [asdict(each) for each in found],
    }
    (out / "soak.json").write_text(json.dumps(told, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=7)
    parser.add_argument("--out", default="benchmarks/results", help="where results go, or nothing")
    given = parser.parse_args()
    if given.minutes < LEAST_MINUTES:
        print(
            f"{given.minutes} minutes are too few to tell what keeps rising: the last third of them "
            f"is compared with the middle one, so give at least {LEAST_MINUTES} (MINUTES=7 is usual)",
            file=sys.stderr,
        )
        return 2
    logging.getLogger("anabranch").setLevel(logging.ERROR)
    home = Path(tempfile.mkdtemp(prefix="anabranch-soak-"))
    print(
        f"{'minute':>6} {'writes':>7} {'python MB':>10} {'JVM heap MB':>12} {'files':>7} "
        f"{'metadata MB':>12} {'rows':>7} {'CPU ms':>7} {'ms/tick':>8}"
    )
    try:
        found, writes = run(home / "home", given.minutes)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    largest = sorted(cache.sizes().items(), key=lambda each: -each[1])[:8]
    print("largest caches: " + ", ".join(f"{name} {size:,}" for name, size in largest))
    problems = rising(found)
    if given.out:
        save(found, writes, problems, Path(given.out))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
