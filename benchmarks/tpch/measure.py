"""Every query kept twice, once incrementally and once FULL, over the same sources and windows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.console import Console

from anabranch.api import Anabranch
from anabranch.errors import NotIncremental
from benchmarks.tpch import changes
from benchmarks.tpch.changes import Change, Window
from benchmarks.tpch.meter import Meter


@dataclass(frozen=True)
class Refresh:
    """One refresh of one table."""

    seconds: float
    bytes_read: int
    action: str
    delta_rows: int
    rows_written: int


@dataclass(frozen=True)
class Result:
    """The medians of one query over the rounds."""

    query: str
    action: str
    incremental_s: float
    full_s: float
    ratio: float
    delta_rows: int
    rows_written: int
    incremental_bytes: int
    full_bytes: int


def kept(query: str) -> str:
    return f"bench.{query}_kept"


def full(query: str) -> str:
    return f"bench.{query}_full"


def declare(ab: Anabranch, name: str, query: str, console: Console, mode: str) -> None:
    """A query that is not incremental is kept all the same, in AUTO, and its action says so."""
    start = time.perf_counter()
    try:
        ab.create_stream_table(name, query, schedule=None, refresh_mode=mode)
    except NotIncremental as refused:
        console.print(f"  [yellow]{str(refused).splitlines()[1].strip()}[/]")
        ab.create_stream_table(name, query, schedule=None, refresh_mode="AUTO")
    console.print(f"  {name}: filled in {time.perf_counter() - start:.1f} s")


def refresh(ab: Anabranch, meter: Meter, name: str) -> Refresh:
    before, start = meter.bytes_read(), time.perf_counter()
    ab.refresh(name)
    seconds = time.perf_counter() - start
    latest = ab.history(name, limit=1)[0]
    return Refresh(
        seconds=seconds,
        bytes_read=meter.bytes_read() - before,
        action=latest["action"],
        delta_rows=latest["delta_rows"] or 0,
        rows_written=(latest["rows_inserted"] or 0) + (latest["rows_deleted"] or 0),
    )


def change(ab: Anabranch, what: tuple[Change, ...], label: str, console: Console) -> None:
    start = time.perf_counter()
    changes.apply(ab, what)
    console.print(f"  {label}: changed in {time.perf_counter() - start:.1f} s")


def measure(
    ab: Anabranch,
    queries: Mapping[str, str],
    *,
    windows: Callable[[int], Window],
    rounds: int,
    warm_up: int,
    mode: str,
    verify: bool,
    console: Console,
) -> list[Result]:
    for name, query in queries.items():
        declare(ab, kept(name), query, console, mode)
        declare(ab, full(name), query, console, "FULL")
    meter = Meter(ab.spark)
    seen: dict[str, list[Refresh]] = {}
    for number in range(warm_up + rounds):
        label = f"round {number - warm_up + 1}" if number >= warm_up else "warm-up"
        change(ab, windows(number).changes(), label, console)
        for name in queries:
            pair = [kept(name), full(name)]
            for table in pair if number % 2 else reversed(pair):  # neither always comes first
                found = refresh(ab, meter, table)
                if number >= warm_up:  # before, Spark compiles: a service that runs has done so
                    seen.setdefault(table, []).append(found)
            if verify:
                assert ab.verify(kept(name))["equal"], name
    return [_result(name, seen[kept(name)], seen[full(name)]) for name in queries]


def _result(query: str, kept: list[Refresh], full: list[Refresh]) -> Result:
    incremental_s, full_s = (statistics.median(r.seconds for r in each) for each in (kept, full))
    return Result(
        query=query,
        action=" ".join(sorted({each.action for each in kept})),
        incremental_s=round(incremental_s, 3),
        full_s=round(full_s, 3),
        ratio=round(full_s / incremental_s, 2),
        delta_rows=round(statistics.median(each.delta_rows for each in kept)),
        rows_written=round(statistics.median(each.rows_written for each in kept)),
        incremental_bytes=round(statistics.median(each.bytes_read for each in kept)),
        full_bytes=round(statistics.median(each.bytes_read for each in full)),
    )
