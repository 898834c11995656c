"""How fast a change travels through graphs of stream tables.

    python -m benchmarks.graph --rows 100000 --rounds 5

For each shape a few rows are added to the source, and one tick brings every table up to date; the time
until the last publish stands next to the time in which plain Spark jobs recompute the same tables from
Parquet files, siblings side by side as well.  Diamonds are kept twice, published as one group and each
table for itself, in turns.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import anabranch
from anabranch.api import Anabranch
from benchmarks import idle

AT_ONCE = "calculated"  # nobody says how often: due in every tick
IDLE_LIMIT_MS = 300
OVERHEAD_LIMIT = 0.10


@dataclass(frozen=True)
class Shape:
    """Layers of queries, each over the source `{source}` or tables of the layers above it."""

    name: str
    layers: tuple[Mapping[str, str], ...]

    @property
    def tables(self) -> dict[str, str]:
        return {name: query for layer in self.layers for name, query in layer.items()}


@dataclass(frozen=True)
class Result:
    shape: str
    tables: int
    tick_s: float
    bare_s: float
    publishes: int


@dataclass(frozen=True)
class Overhead:
    shape: str
    group_s: float
    independent_s: float
    overhead: float


def chain(length: int = 10) -> Shape:
    first = {"chain_0": "SELECT id, k, v FROM {source} WHERE v >= 0"}
    rest = [
        {f"chain_{at}": f"SELECT id, k, v + 1 AS v FROM g.chain_{at - 1}"}
        for at in range(1, length)
    ]
    return Shape(f"chain of {length}", (first, *rest))


def fan(width: int = 20) -> Shape:
    return Shape(f"fan of {width}", ({f"fan_{at}": by_key(at, "{source}") for at in range(width)},))


def diamond(branches: int = 4, name: str = "diamond") -> Shape:
    sides = {
        f"{name}_{at}": f"SELECT k % 10 AS k, sum(v + {at}) AS v FROM {{source}} GROUP BY k % 10"
        for at in range(branches)
    }
    joins = " ".join(f"JOIN g.{name}_{at} b{at} ON b{at}.k = b0.k" for at in range(1, branches))
    total = " + ".join(f"b{at}.v" for at in range(branches))
    meet = {f"{name}_all": f"SELECT b0.k, {total} AS v FROM g.{name}_0 b0 {joins}"}
    return Shape(f"diamond of {branches} + 1", (sides, meet))


def wide(layers: int = 3, width: int = 20) -> Shape:
    found = [{f"wide_0_{at}": by_key(at, "{source}") for at in range(width)}]
    for layer in range(1, layers):
        found.append(
            {
                f"wide_{layer}_{at}": f"SELECT k, v + n AS v, n FROM g.wide_{layer - 1}_{at}"
                for at in range(width)
            }
        )
    return Shape(f"wide {layers} x {width}", tuple(found))


def by_key(at: int, source: str) -> str:
    return f"SELECT k % {10 + at} AS k, sum(v) AS v, count(*) AS n FROM {source} GROUP BY k % {10 + at}"


# -- measuring -----------------------------------------------------------------------------------


class Bench:
    def __init__(self, ab: Anabranch, folder: Path, options: argparse.Namespace) -> None:
        self.ab = ab
        self.folder = folder
        self.options = options
        self.added = 0

    def source(self, shape: str) -> str:
        """A source of its own for each shape, so that only its tables have work."""
        name = f"s.{shape.split()[0]}"
        self.ab.sql(f"CREATE TABLE {name} (id BIGINT, k BIGINT, v BIGINT)")
        rows = self.ab.spark.range(0, self.options.rows, 1, 2)
        self.ab.append(name, rows.selectExpr("id", "pmod(xxhash64(id), 1000) AS k", "id % 97 AS v"))
        return name

    def change(self, source: str) -> None:
        self.added += 1
        first = self.options.rows * 10 + self.added * self.options.changed
        rows = self.ab.spark.range(first, first + self.options.changed, 1, 1)
        self.ab.append(
            source, rows.selectExpr("id", "pmod(xxhash64(id), 1000) AS k", "id % 97 AS v")
        )

    def declare(self, shape: Shape, source: str, **given: str) -> None:
        queries = {f"g.{name}": query.format(source=source) for name, query in shape.tables.items()}
        self.ab.create_stream_tables(queries, schedule=AT_ONCE, **given)

    def tick(self) -> tuple[float, int]:
        """Seconds, and how many publishes it made."""
        start = time.perf_counter()
        found = self.ab.tick()
        seconds = time.perf_counter() - start
        bad = [each for each in found if each["outcome"] in ("FAILED", "SKIPPED")]
        assert not bad, bad
        return seconds, sum(each["outcome"] == "PUBLISHED" for each in found)

    def shape(self, shape: Shape) -> Result:
        source = self.source(shape.name)
        self.declare(shape, source)
        plain = Plain(self.ab, self.folder / "plain", shape, source)
        ticks, bares, publishes = list[float](), list[float](), 0
        for turn in range(-self.options.warm_up, self.options.rounds):
            self.change(source)
            seconds, publishes = self.tick()
            bare = plain.run()
            if turn >= 0:
                ticks.append(seconds)
                bares.append(bare)
        self.drop(shape)
        tick, bare = statistics.median(ticks), statistics.median(bares)
        return Result(shape.name, len(shape.tables), round(tick, 3), round(bare, 3), publishes)

    def overhead(self, branches: int = 4) -> Overhead:
        """The same diamond as one group and each table for itself, over two equal sources."""
        shapes = {kind: diamond(branches, kind) for kind in ("atomic", "none")}
        sources = {kind: self.source(kind) for kind in shapes}
        for kind, shape in shapes.items():
            self.declare(shape, sources[kind], diamond_consistency=kind)
        times: dict[str, list[float]] = {kind: [] for kind in shapes}
        for turn in range(-self.options.warm_up, 2 * self.options.rounds):
            for kind in shapes if turn % 2 else reversed(shapes):
                self.change(sources[kind])
                seconds, publishes = self.tick()
                assert publishes == (1 if kind == "atomic" else branches + 1), publishes
                if turn >= 0:
                    times[kind].append(seconds)
        for shape in shapes.values():
            self.drop(shape)
        group, apart = (statistics.median(times[kind]) for kind in ("atomic", "none"))
        return Overhead(
            f"diamond of {branches} + 1",
            round(group, 3),
            round(apart, 3),
            round(group / apart - 1, 3),
        )

    def drop(self, shape: Shape) -> None:
        for name in reversed(shape.tables):
            self.ab.drop_stream_table(f"g.{name}")


class Plain:
    """The same tables recomputed by Spark alone, from Parquet files to Parquet files."""

    def __init__(self, ab: Anabranch, folder: Path, shape: Shape, source: str) -> None:
        self.ab = ab
        self.folder = folder
        self.shape = shape
        self.source = source

    def run(self) -> float:
        """Seconds for all layers, each after the one above it, its tables side by side."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.ab.table(self.source).write.parquet(str(self.folder / "source"))
        self._view("source", "plain_source")
        start = time.perf_counter()
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for layer in self.shape.layers:
                list(pool.map(lambda entry: self._job(*entry), layer.items()))
                for name in layer:
                    self._view(name, f"plain_{name}")
        return time.perf_counter() - start

    def _view(self, folder: str, name: str) -> None:
        self.ab.spark.read.parquet(str(self.folder / folder)).createOrReplaceTempView(name)

    def _job(self, name: str, query: str) -> None:
        text = query.format(source="plain_source").replace("g.", "plain_")
        self.ab.spark.sql(text).write.parquet(str(self.folder / name))


def idle_tick(tables: int = 1000, rounds: int = 20) -> float:
    """Milliseconds of a tick over up-to-date tables; no Spark may start for it."""
    with tempfile.TemporaryDirectory(prefix="anabranch-idle-") as home:
        ab = anabranch.connect(home)
        idle.declare(ab, tables, AT_ONCE)
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            ab.tick()
            times.append((time.perf_counter() - start) * 1000)
        assert not ab._runtime.spark.started
        ab.close()
    return statistics.median(times)


# -- report --------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    console = Console(stderr=True)
    logging.getLogger("anabranch").setLevel(logging.ERROR)
    idle_ms = idle_tick()
    console.print(f"nothing to do, 1,000 tables: {idle_ms:.0f} ms")
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="anabranch-graph-", dir=options.dir) as home:
        settings = {"spark.conf.spark.driver.memory": options.memory}
        with anabranch.connect(Path(home) / "home", **settings) as ab:
            bench = Bench(ab, Path(home), options)
            for shape in chosen(options.shapes):
                results.append(bench.shape(shape))
                console.print(f"{shape.name}: {results[-1]}")
            overhead = bench.overhead()
    _print(idle_ms, results, overhead)
    _save(idle_ms, results, overhead, Path(options.out))


SHAPES: dict[str, Callable[[], Shape]] = {
    "chain": chain,
    "fan": fan,
    "diamond": diamond,
    "wide": wide,
}


def chosen(names: Iterable[str]) -> list[Shape]:
    return [SHAPES[name]() for name in names]


def _print(idle_ms: float, results: Sequence[Result], overhead: Overhead) -> None:
    table = Table(title="from the source write to the last publish")
    for heading in ("shape", "tables", "publishes", "tick s", "bare Spark jobs s", "ratio"):
        table.add_column(heading, justify="left" if heading == "shape" else "right")
    for each in results:
        table.add_row(
            each.shape,
            str(each.tables),
            str(each.publishes),
            f"{each.tick_s:.2f}",
            f"{each.bare_s:.2f}",
            f"{each.tick_s / each.bare_s:.2f}",
        )
    console = Console(width=100)
    console.print(table)
    console.print(
        f"{overhead.shape}: as a group {overhead.group_s:.2f} s, each for itself "
        f"{overhead.independent_s:.2f} s, overhead {overhead.overhead:+.1%} "
        f"(wanted: below {OVERHEAD_LIMIT:.0%})"
    )
    console.print(
        f"a tick with nothing to do over 1,000 tables: {idle_ms:.0f} ms "
        f"(wanted: below {IDLE_LIMIT_MS} ms); no Spark session was started"
    )


def _save(idle_ms: float, results: Sequence[Result], overhead: Overhead, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    document = {
        "conditions": {
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "python": platform.python_version(),
        },
        "idle_tick_ms": round(idle_ms, 1),
        "results": [asdict(each) for each in results],
        "group_overhead": asdict(overhead),
    }
    (out / "graph.json").write_text(json.dumps(document, indent=1) + "\n")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of each source")
    parser.add_argument("--changed", type=int, default=100, help="rows added in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=2, help="rounds that are not counted")
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--memory", default="4g", help="driver memory of Spark")
    parser.add_argument("--dir", default=None, help="where the bench writes its tables")
    parser.add_argument("--out", default="benchmarks/results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
