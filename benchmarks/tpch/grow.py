"""The same delta on a small base and on one ten times larger: cost should follow the change."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console

from anabranch.api import Anabranch
from benchmarks.tpch.changes import Change, later_orders, scattered_orders
from benchmarks.tpch.data import ORDERS
from benchmarks.tpch.home import filled
from benchmarks.tpch.measure import Refresh, change, declare, kept, refresh
from benchmarks.tpch.meter import Meter
from benchmarks.tpch.queries import queries

ROWS = 10_000  # one order in five rows, the others its items
KEYS = ("together", "scattered")


@dataclass(frozen=True)
class Grown:
    """The medians of one query at one scale."""

    query: str
    keys: str
    scale: float
    action: str
    seconds: float
    delta_rows: int
    bytes_read: int


def new_orders(keys: str, number: int, scale: float) -> tuple[Change, ...]:
    orders = ROWS // 5
    if keys == "together":
        return later_orders(number + 1, orders)
    return scattered_orders(number, orders / (ORDERS * scale))


def grown_at(scale: float, options: argparse.Namespace) -> list[Grown]:
    """One of the two scales."""
    console = Console(stderr=True)
    with filled(scale, options, console) as ab:
        return grow(
            ab,
            queries(options.queries),
            scale=scale,
            rounds=options.rounds,
            warm_up=options.warm_up,
            mode=options.mode,
            console=console,
        )


def grow(
    ab: Anabranch,
    texts: Mapping[str, str],
    *,
    scale: float,
    rounds: int,
    warm_up: int,
    mode: str,
    console: Console,
) -> list[Grown]:
    for name, query in texts.items():
        declare(ab, kept(name), query, console, mode)
    meter = Meter(ab.spark)
    seen: dict[tuple[str, str], list[Refresh]] = {}
    for number in range(warm_up + rounds):
        for keys in KEYS:
            change(ab, new_orders(keys, number, scale), f"{keys} {number + 1}", console)
            for name in texts:
                found = refresh(ab, meter, kept(name))
                if number >= warm_up:
                    seen.setdefault((name, keys), []).append(found)
    return [_grown(name, keys, scale, found) for (name, keys), found in seen.items()]


def _grown(query: str, keys: str, scale: float, found: list[Refresh]) -> Grown:
    return Grown(
        query=query,
        keys=keys,
        scale=scale,
        action=" ".join(sorted({each.action for each in found})),
        seconds=round(statistics.median(each.seconds for each in found), 3),
        delta_rows=round(statistics.median(each.delta_rows for each in found)),
        bytes_read=round(statistics.median(each.bytes_read for each in found)),
    )
