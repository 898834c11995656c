"""Full recompute against incremental refresh, side by side in one run.

    python -m benchmarks.refresh --rows 1000000 10000000 --changed 0.0001 0.01 0.1

Each query is kept twice, once DIFFERENTIAL and once FULL.  A round changes part of the source
(70 % updates, 15 % deletes, 15 % inserts) and refreshes both; the ratio of the medians is what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import anabranch
from anabranch.api import Anabranch
from benchmarks.plot import bars

QUERIES = {
    "scan": "SELECT id, k, g, amount FROM bench.facts",
    "filter": "SELECT id, k, amount FROM bench.facts WHERE amount > 50",
    "aggregate": "SELECT g, count(*) AS n, sum(amount) AS total FROM bench.facts GROUP BY g",
    "join": "SELECT f.id, f.amount, d.category FROM bench.facts f JOIN bench.dims d ON f.k = d.k",
    "join + aggregate": """
        SELECT d.category, count(*) AS n, sum(f.amount) AS total
        FROM bench.facts f JOIN bench.dims d ON f.k = d.k GROUP BY d.category""",
}


@dataclass(frozen=True)
class Result:
    rows: int
    changed: float
    query: str
    full_s: float
    incremental_s: float
    ratio: float
    delta_rows: int
    actions: float


def main(rows: Sequence[int] = (1_000_000, 10_000_000)) -> None:
    options = _options(rows)
    console = Console(stderr=True)
    results: list[Result] = []
    for size in options.rows:
        with tempfile.TemporaryDirectory(prefix="anabranch-bench-", dir=options.dir) as home:
            ab = anabranch.connect(home, **{"spark.conf.spark.driver.memory": options.memory})
            try:
                _fill(ab, size, options.queries, console)
                for changed in options.changed:
                    results += _measure(ab, size, changed, options, console)
            finally:
                ab.close()
    _print(results)
    _save(results, Path(options.out))


def _fill(ab: Anabranch, rows: int, queries: Sequence[str], console: Console) -> None:
    console.print(f"[bold]{rows:,} rows[/]: filling sources and stream tables")
    spark = ab.spark
    ab.sql("CREATE TABLE bench.facts (id BIGINT, k BIGINT, g INT, amount DECIMAL(12,2))")
    ab.sql("CREATE TABLE bench.dims (k BIGINT, category STRING)")
    facts = spark.range(0, rows, 1, 8).selectExpr(
        "id",
        "pmod(xxhash64(id), 100000) AS k",
        "cast(pmod(xxhash64(id, 1), 1000) AS INT) AS g",
        "cast(pmod(xxhash64(id, 2), 10000) / 100 AS DECIMAL(12,2)) AS amount",
    )
    ab.append("bench.facts", facts)
    dims = spark.range(0, 100_000, 1, 1).selectExpr("id AS k", "concat('c', id % 50) AS category")
    ab.append("bench.dims", dims)
    for name in queries:
        for mode in ("DIFFERENTIAL", "FULL"):
            table, query = _table(name, mode), QUERIES[name]
            ab.create_stream_table(table, query, schedule=None, refresh_mode=mode)


def _table(query: str, mode: str) -> str:
    return f"bench.{query.replace(' + ', '_')}_{mode.lower()}"


def _change(ab: Anabranch, rows: int, changed: float, seed: int) -> None:
    """One window of changes in one MERGE: 70 % updates, 15 % deletes, 15 % inserts."""
    count = max(int(rows * changed), 20)
    spark = ab.spark
    picked = spark.range(0, count, 1, 2).selectExpr(
        f"CASE WHEN id % 20 < 17 THEN pmod(xxhash64(id, {seed}), {rows})"
        f" ELSE {rows} + {seed} * 100000000L + id END AS id",
        f"pmod(xxhash64(id, {seed}, 7), 100000) AS k",
        f"cast(pmod(xxhash64(id, {seed}, 8), 1000) AS INT) AS g",
        f"cast(pmod(xxhash64(id, {seed}, 9), 10000) / 100 AS DECIMAL(12,2)) AS amount",
        "CASE WHEN id % 20 < 14 THEN 'u' WHEN id % 20 < 17 THEN 'd' ELSE 'i' END AS what",
    )
    ab.sql("DROP TABLE IF EXISTS bench.changes")
    ab.sql(
        "CREATE TABLE bench.changes (id BIGINT, k BIGINT, g INT, amount DECIMAL(12,2), what STRING)"
    )
    ab.append("bench.changes", picked.dropDuplicates(["id"]))
    ab.sql("""
        MERGE INTO bench.facts t USING bench.changes s ON t.id = s.id
        WHEN MATCHED AND s.what = 'd' THEN DELETE
        WHEN MATCHED THEN UPDATE SET k = s.k, g = s.g, amount = s.amount
        WHEN NOT MATCHED AND s.what = 'i' THEN
            INSERT (id, k, g, amount) VALUES (s.id, s.k, s.g, s.amount)
    """)


def _measure(
    ab: Anabranch, rows: int, changed: float, options: argparse.Namespace, console: Console
) -> list[Result]:
    times: dict[tuple[str, str], list[float]] = {}
    delta_rows: dict[str, int] = {}
    actions: dict[str, list[int]] = {}
    for round_ in range(-options.warm_up, options.rounds):
        seed = int(changed * 1_000_000) * 100 + round_ + options.warm_up + 1
        start = time.perf_counter()
        _change(ab, rows, changed, seed)
        label = f"round {round_ + 1}" if round_ >= 0 else "warm-up"
        console.print(f"  {changed:.2%} {label}: change {time.perf_counter() - start:.1f} s")
        for name in options.queries:
            for mode in ("DIFFERENTIAL", "FULL"):
                table = _table(name, mode)
                jobs, start = ab.spark_actions, time.perf_counter()
                ab.refresh(table)
                seconds = time.perf_counter() - start
                if round_ < 0:  # Spark compiles its plans: a service that runs has done so
                    continue
                times.setdefault((name, mode), []).append(seconds)
                if mode == "DIFFERENTIAL":
                    latest = ab.history(table)[0]
                    assert latest["action"] == "DIFFERENTIAL", latest
                    delta_rows[name] = latest["delta_rows"]
                    actions.setdefault(name, []).append(ab.spark_actions - jobs)
        if options.verify:
            for name in options.queries:
                assert ab.verify(_table(name, "DIFFERENTIAL"))["equal"], name
    found = []
    for name in options.queries:
        full, incremental = (statistics.median(times[name, m]) for m in ("FULL", "DIFFERENTIAL"))
        found.append(
            Result(
                rows,
                changed,
                name,
                round(full, 3),
                round(incremental, 3),
                round(full / incremental, 2),
                delta_rows[name],
                statistics.mean(actions[name]),
            )
        )
        console.print(
            f"    {name:18} full {full:7.2f} s  incremental {incremental:6.2f} s"
            f"  [bold]{full / incremental:5.1f} x[/]"
        )
    return found


def _print(results: list[Result]) -> None:
    table = Table(title="full recompute / incremental refresh")
    for heading in (
        "rows",
        "changed",
        "query",
        "full s",
        "incremental s",
        "ratio",
        "Spark actions",
    ):
        table.add_column(heading, justify="left" if heading == "query" else "right")
    for r in results:
        table.add_row(
            f"{r.rows:,}",
            f"{r.changed:.2%}",
            r.query,
            f"{r.full_s:.2f}",
            f"{r.incremental_s:.2f}",
            f"{r.ratio:.1f} x",
            f"{r.actions:.1f}",
        )
    Console().print(table)


def _save(results: list[Result], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    conditions = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "driver_peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    document = {"conditions": conditions, "results": [asdict(result) for result in results]}
    (out / "refresh.json").write_text(json.dumps(document, indent=1) + "\n")
    groups = sorted({(r.rows, r.changed) for r in results})
    series = {
        query: [
            next(r.ratio for r in results if (r.rows, r.changed, r.query) == (*group, query))
            for group in groups
        ]
        for query in dict.fromkeys(result.query for result in results)
    }
    labels = [f"{rows / 1e6:g} M, {changed:.2%}" for rows, changed in groups]
    (out / "refresh.svg").write_text(bars("times faster than full recompute", labels, series))
    Console(stderr=True).print(f"written: {out / 'refresh.json'}, {out / 'refresh.svg'}")


def _options(rows: Sequence[int]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, nargs="+", default=list(rows))
    parser.add_argument("--changed", type=float, nargs="+", default=[0.0001, 0.01, 0.1])
    parser.add_argument("--queries", nargs="+", choices=QUERIES, default=list(QUERIES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=2, help="rounds that are not counted")
    parser.add_argument("--memory", default="6g", help="driver memory of Spark")
    parser.add_argument("--dir", default=None, help="where the bench writes its tables")
    parser.add_argument("--out", default="benchmarks/results")
    parser.add_argument("--verify", action="store_true", help="verify every table in every round")
    return parser.parse_args()


if __name__ == "__main__":
    main()
