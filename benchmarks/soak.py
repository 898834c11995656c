"""Small writes on a diamond for some minutes, on Spark: does anything keep rising?

    python -m benchmarks.soak --minutes 7

A writer adds a few rows, a tick brings the diamond up to date, and upkeep runs beside them, with its
times scaled down.  Every minute one line says what the process and its JVM hold after a collection of
garbage, and how many files, bytes of metadata, rows of the catalog and milliseconds a tick there are.
A line that is higher in the last third of the time than in the middle one fails the run (exit 1).  On
a machine too slow for many writes, which never reaches a steady state, nothing can be said (exit 2);
and in less than three minutes, where there are no thirds, nothing is run (exit 2).
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
    tick_ms: float


def measured(ab: Anabranch, ticks: Sequence[float]) -> Minute:
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
        tick_ms=statistics.median(ticks) * 1000 if ticks else 0.0,
    )


def _python_mb() -> float:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def _heap_mb(ab: Anabranch) -> float:
    """What the JVM holds after a collection."""
    jvm = ab._runtime.spark.session.sparkContext._jvm
    assert jvm is not None
    for _ in range(2):  # what the first one finds unreachable, Spark's cleaner lets go of
        jvm.java.lang.System.gc()
        time.sleep(0.5)
    memory = jvm.java.lang.Runtime.getRuntime()
    return float(memory.totalMemory() - memory.freeMemory()) / 1e6


def rising(found: Sequence[Minute]) -> list[str]:
    third = max(1, len(found) // 3)
    middle, last = found[third : 2 * third], found[-third:]
    said = []
    for key in asdict(found[0]):
        early = statistics.median(getattr(each, key) for each in middle)
        late = statistics.median(getattr(each, key) for each in last)
        if late > MOST_RISE * early:
            said.append(f"{key} keeps rising: from {early:,.1f} to {late:,.1f}")
    return said


def run(home: Path, minutes: int) -> tuple[list[Minute], int]:
    """What was measured by the minute, and the number of writes."""
    found: list[Minute] = []
    upkeep.COLLECT_SECONDS = 10.0  # type: ignore[misc]
    with anabranch.connect(home, **SCALED) as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        ab.create_stream_tables(DIAMOND, schedule="calculated")
        rounds = upkeep.Upkeep(ab._runtime)
        rounds.start()
        at = 0
        try:
            for minute in range(1, minutes + 1):
                ticks: list[float] = []
                end = time.monotonic() + 60
                while time.monotonic() < end:
                    at += 1
                    ab.sql(f"INSERT INTO s.t VALUES ({at % 100}, {at}), ({at % 37}, {at + 1})")
                    start = time.monotonic()
                    ab.tick()
                    ticks.append(time.monotonic() - start)
                found.append(line := measured(ab, ticks))
                print(
                    f"{minute:>6} {at:>7} {line.python_mb:>10.0f} {line.jvm_heap_mb:>12.0f} "
                    f"{line.files:>7} {line.metadata_mb:>12.2f} {line.catalog_rows:>7} "
                    f"{line.tick_ms:>8.0f}",
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
        f"{'metadata MB':>12} {'rows':>7} {'ms/tick':>8}"
    )
    try:
        found, writes = run(home / "home", given.minutes)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    largest = sorted(cache.sizes().items(), key=lambda each: -each[1])[:8]
    print("largest caches: " + ", ".join(f"{name} {size:,}" for name, size in largest))
    few = f"{writes} writes are too few to tell: {ENOUGH_WRITES} are needed"
    problems = [*rising(found), *([few] if writes < ENOUGH_WRITES else [])]
    if given.out:
        save(found, writes, problems, Path(given.out))
    for problem in problems:
        print(problem, file=sys.stderr)
    if writes < ENOUGH_WRITES:
        return 2
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
