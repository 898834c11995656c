"""Results as a table for people, JSON for programs, and a picture."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyspark
from rich.console import Console
from rich.table import Table

from benchmarks.plot import bars
from benchmarks.tpch.grow import KEYS, Grown
from benchmarks.tpch.measure import Result

WIDTH = 120  # of the tables, also where the output is a file


def touched(results: Sequence[Result]) -> list[Result]:
    """Where something had to be done: a query whose sources did not change takes no time either way."""
    return [each for each in results if each.delta_rows]


def mean(results: Sequence[Result]) -> float:
    """Ratios multiply: their mean is the geometric one."""
    return statistics.geometric_mean(each.ratio for each in touched(results))


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f}"


def table(title: str, headings: str) -> Table:
    made = Table(title=title)
    for heading in headings.split("|"):
        words = heading in ("query", "keys", "action")
        made.add_column(heading, justify="left" if words else "right")
    return made


def show(results: Sequence[Result]) -> None:
    shown = table(
        "TPC-H: incremental refresh against recomputing",
        "query|incremental s|full s|ratio|delta rows|rows written|MB read|MB read, full|action",
    )
    for each in results:
        shown.add_row(
            each.query,
            f"{each.incremental_s:.2f}",
            f"{each.full_s:.2f}",
            f"{each.ratio:.1f} x",
            f"{each.delta_rows:,}",
            f"{each.rows_written:,}",
            megabytes(each.incremental_bytes),
            megabytes(each.full_bytes),
            each.action,
        )
    console = Console(width=WIDTH)
    console.print(shown)
    console.print(f"geometric mean of {len(touched(results))} ratios: {mean(results):.2f} x")


def pairs(results: Sequence[Grown]) -> list[tuple[Grown, Grown]]:
    """Each query and kind of keys on the small base and on the large one."""
    small, large = sorted({each.scale for each in results})
    at = {(each.query, each.keys, each.scale): each for each in results}
    return [
        (each, at[each.query, each.keys, large])
        for each in sorted(results, key=lambda each: (each.query, KEYS.index(each.keys)))
        if each.scale == small
    ]


def show_grown(results: Sequence[Grown]) -> None:
    shown = table(
        "TPC-H: the same delta on a base ten times larger",
        "query|keys|delta rows|small s|large s|growth|MB read, small|MB read, large|action",
    )
    for small, large in pairs(results):
        shown.add_row(
            small.query,
            small.keys,
            f"{large.delta_rows:,}",
            f"{small.seconds:.2f}",
            f"{large.seconds:.2f}",
            f"{large.seconds / small.seconds:.1f} x",
            megabytes(small.bytes_read),
            megabytes(large.bytes_read),
            large.action,
        )
    Console(width=WIDTH).print(shown)


def save(results: Sequence[Result], out: Path, conditions: dict[str, Any]) -> None:
    summary = {"geometric_mean": round(mean(results), 2)}
    _write(out / "tpch.json", results, conditions, summary)
    series = {
        "full, s": [each.full_s for each in results],
        "incremental, s": [each.incremental_s for each in results],
    }
    _draw(out / "tpch.svg", "seconds per refresh", [each.query for each in results], series)


def save_grown(results: Sequence[Grown], out: Path, conditions: dict[str, Any]) -> None:
    _write(out / "tpch_grow.json", results, conditions, {})
    found = pairs(results)
    series = {
        keys: [large.seconds / small.seconds for small, large in found if small.keys == keys]
        for keys in KEYS
    }
    names = list(dict.fromkeys(small.query for small, _ in found))
    _draw(out / "tpch_grow.svg", "times slower on a base ten times larger", names, series)


def _write(
    path: Path,
    results: Sequence[Result] | Sequence[Grown],
    conditions: dict[str, Any],
    summary: dict[str, Any],
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "spark": pyspark.__version__,
    }
    document = {
        "conditions": machine | conditions,
        **summary,
        "results": [asdict(each) for each in results],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    Console(stderr=True).print(f"written: {path}")


def _draw(path: Path, title: str, labels: list[str], series: dict[str, list[float]]) -> None:
    path.write_text(bars(title, labels, series))
    Console(stderr=True).print(f"written: {path}")
