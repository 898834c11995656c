"""Does anything grow?  Many small commits on a diamond, straight on lake and catalog, without Spark.

    python -m benchmarks.growth --commits 20000

Every second commit appends rows to a source; the other publishes the three stream tables of a diamond
below it in one cut: two that append, one that is rewritten.  Upkeep runs now and then, as the scheduler
does it, with its times scaled down.  Time per commit, metadata, files, rows and bytes of the catalog
and the memory of the process must stay flat while the data grows, and everything together must stay
below three times the data.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from sqlalchemy import func, select

from anabranch.catalog import tables
from anabranch.catalog.retention import Retention
from anabranch.catalog.store import Store
from anabranch.catalog.streams import set_frontiers
from anabranch.lake.lake import Lake
from anabranch.lake.places import local_path
from anabranch.lake.publish import publish
from anabranch.lake.stage import Stage
from anabranch.lake.upkeep import compaction, maintain
from anabranch.model import Column, Written
from anabranch.names import TableName

SOURCE, LEFT, RIGHT, BOTTOM = (TableName.of("shop", name) for name in ("sales", "l", "r", "total"))
COLUMNS = (Column("id", "bigint"), Column("region", "int"), Column("amount", "double"))
ROWS = 400  # of the source, in one commit
GROUPS = 100
MOST_GROWTH = 1.5  # from the second quarter to the last one, for a line that is called flat
MOST_SHARE = 3.0  # everything, by the data
FLAT = ("commit_ms", "metadata_bytes", "files", "catalog_rows", "catalog_bytes", "memory_bytes")


@dataclass(frozen=True)
class Line:
    commits: int
    commit_ms: float
    metadata_bytes: int
    files: int
    catalog_rows: int
    catalog_bytes: int
    total_bytes: int
    data_bytes: int
    memory_bytes: int  # resident, after a collection of garbage


class Diamond:
    """A source and three tables below it, in a catalog and a warehouse of their own."""

    def __init__(self, home: Path, *, fsync: bool, rows: int = ROWS) -> None:
        self.home = home
        self.rows = rows
        self.store = Store.open(home / "catalog.db", fsync=fsync)
        self.lake = Lake(self.store, home / "warehouse")
        self.chance = np.random.default_rng(1)
        with Stage(self.lake) as stage:
            for name in (SOURCE, LEFT, RIGHT, BOTTOM):
                stage.create(name, COLUMNS)
            publish(stage, "create")

    def append(self) -> None:
        with Stage(self.lake) as stage:
            stage.commit_rows(SOURCE, self._added(stage, SOURCE, self.rows))
            publish(stage, "insert")

    def refresh(self) -> None:
        with Stage(self.lake) as stage:
            at = stage.version(SOURCE).snapshot_id
            for name in (LEFT, RIGHT):
                stage.commit_rows(name, self._added(stage, name, self.rows // 2))
            stage.commit_rows(BOTTOM, self._added(stage, BOTTOM, GROUPS), replace_all=True)
            names = (LEFT, RIGHT, BOTTOM)
            publish(
                stage,
                "refresh",
                lambda c, _: set_frontiers(c, {name: {SOURCE: at} for name in names}),
            )

    def tidy(self, retention: Retention, grace: timedelta) -> None:
        for name in (SOURCE, LEFT, RIGHT, BOTTOM):
            self._compact(name)
        maintain(self.lake, retention=retention, grace=grace)

    def _compact(self, name: TableName) -> None:
        plan = compaction(self.lake.current(name))
        if plan is None:
            return
        with Stage(self.lake) as stage:
            found = [pq.read_table(local_path(path)) for path in plan.reading.files]
            kept = self._file(stage, name, pa.concat_tables(found))
            written = Written(keep=kept, rows=sum(len(each) for each in found))
            stage.commit_rows(name, written, compaction=True, replaced=plan.replaced)
            publish(stage, "compact")

    def _added(self, stage: Stage, name: TableName, rows: int) -> Written:
        shape = schema_to_pyarrow(stage.version(name).metadata.schema())
        ids = self.chance.integers(0, 1 << 40, rows)
        regions = self.chance.integers(0, GROUPS, rows).astype("int32")
        found = pa.table([ids, regions, self.chance.random(rows)], schema=shape)
        return Written(add=self._file(stage, name, found), rows=rows)

    def _file(self, stage: Stage, name: TableName, rows: pa.Table) -> tuple[str, ...]:
        folder = Path(local_path(stage.directory(name)) or "")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"part-{name.name}.zstd.parquet"
        pq.write_table(rows, path, compression="zstd", write_page_checksum=True)
        return (str(path),)

    def measured(self, commits: int, spent: Sequence[float]) -> Line:
        found = self.lake.warehouse.listing(self.lake.warehouse.location)
        sizes = {path: info.size or 0 for path, info in found.items()}
        with self.store.reading() as c:
            rows = sum(
                int(c.execute(select(func.count()).select_from(table)).scalar_one())
                for table in tables.metadata.sorted_tables
            )
        catalog = sum(path.stat().st_size for path in self.home.glob("catalog.db*"))
        return Line(
            commits=commits,
            commit_ms=statistics.median(spent) * 1000,
            metadata_bytes=sum(size for path, size in sizes.items() if "/metadata/" in path),
            files=len(sizes),
            catalog_rows=rows,
            catalog_bytes=catalog,
            total_bytes=sum(sizes.values()) + catalog,
            data_bytes=sum(self.lake.current(n).bytes for n in (SOURCE, LEFT, RIGHT, BOTTOM)),
            memory_bytes=resident(),
        )


def resident() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def run(
    diamond: Diamond,
    commits: int,
    *,
    lines: int,
    tidy: Callable[[Diamond], None],
    tidy_every: int,
) -> Iterator[Line]:
    """So many commits, with a measurement for each part of them."""
    spent: list[float] = []
    for at in range(1, commits + 1):
        start = time.process_time()  # which other work on the machine does not lengthen
        diamond.append() if at % 2 else diamond.refresh()
        spent.append(time.process_time() - start)
        if at % tidy_every == 0:
            tidy(diamond)
        if at % (commits // lines) == 0:
            yield diamond.measured(at, spent)
            spent.clear()


def growing(lines: Sequence[Line]) -> list[str]:
    """The lines that are not flat, from the second quarter of the measurements to the last."""
    quarter = max(1, len(lines) // 4)
    found = []
    for key in FLAT:
        early = statistics.median(getattr(each, key) for each in lines[quarter : 2 * quarter])
        late = statistics.median(getattr(each, key) for each in lines[-quarter:])
        if late > MOST_GROWTH * early:
            found.append(f"{key} grew from {early:,.0f} to {late:,.0f}")
    share = lines[-1].total_bytes / lines[-1].data_bytes
    if share > MOST_SHARE:
        found.append(f"everything is {share:.1f} times the data")
    return found


def save(found: Sequence[Line], problems: Sequence[str], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    told = {
        "conditions": {"cpus": os.cpu_count(), "rows": ROWS, "commit_ms": "median CPU time"},
        "problems": [*problems],
        "lines": [asdict(each) for each in found],
    }
    (out / "growth.json").write_text(json.dumps(told, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=20_000)
    parser.add_argument("--lines", type=int, default=20)
    parser.add_argument("--tidy-every", type=int, default=200)
    parser.add_argument("--all-cuts", type=float, default=10, help="seconds that every cut is kept")
    parser.add_argument("--by-minute", type=float, default=300, help="seconds of one cut a minute")
    parser.add_argument(
        "--total", type=float, default=3600, help="seconds that cuts are kept at all"
    )
    parser.add_argument("--grace", type=float, default=5, help="seconds that files are spared")
    parser.add_argument("--fsync", action="store_true")
    parser.add_argument("--out", default="benchmarks/results", help="where results go, or nothing")
    given = parser.parse_args()
    kept = Retention(
        timedelta(seconds=given.total),
        timedelta(seconds=given.all_cuts),
        timedelta(seconds=given.by_minute),
    )
    home = Path(tempfile.mkdtemp(prefix="anabranch-growth-"))
    print(
        f"{'commits':>8} {'ms/commit':>10} {'metadata MB':>12} {'files':>7} {'rows':>7} "
        f"{'catalog MB':>11} {'data MB':>8} {'all/data':>9} {'memory MB':>10}"
    )
    found: list[Line] = []
    try:
        diamond = Diamond(home, fsync=given.fsync)
        grace = timedelta(seconds=given.grace)
        for line in run(
            diamond,
            given.commits,
            lines=given.lines,
            tidy=lambda each: each.tidy(kept, grace),
            tidy_every=given.tidy_every,
        ):
            found.append(line)
            print(
                f"{line.commits:>8} {line.commit_ms:>10.1f} {line.metadata_bytes / 1e6:>12.2f} "
                f"{line.files:>7} {line.catalog_rows:>7} {line.catalog_bytes / 1e6:>11.2f} "
                f"{line.data_bytes / 1e6:>8.2f} {line.total_bytes / line.data_bytes:>9.2f} "
                f"{line.memory_bytes / 1e6:>10.1f}",
                flush=True,
            )
    finally:
        shutil.rmtree(home, ignore_errors=True)
    problems = growing(found)
    if given.out:
        save(found, problems, Path(given.out))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
