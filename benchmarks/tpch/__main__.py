"""TPC-H kept incrementally and recomputed, side by side in one run.

    python -m benchmarks.tpch --scale 1 --changed 0.01 --queries 1,3,5 --rounds 3
    python -m benchmarks.tpch --scale 0.1 --grow

Every query is kept twice over the same sources; a round changes part of the orders (35 % new, 35 %
deleted, 20 % with new prices, 10 % with another status), which lie together as in dbgen's refresh sets
or are `--keys scattered`, and the share `--others` of customers, parts, offers and suppliers, and
refreshes both.  `--grow` measures a delta of 10,000 new rows on `--scale` and on ten times as much.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console

from benchmarks.tpch import data, report
from benchmarks.tpch.changes import Window
from benchmarks.tpch.grow import KEYS, ROWS, Grown, grown_at
from benchmarks.tpch.home import filled
from benchmarks.tpch.measure import measure
from benchmarks.tpch.queries import NUMBERS, queries


def main() -> None:
    options = _options()
    console = Console(stderr=True)
    if options.grow:
        run_grow(options)
    else:
        run(options, console)


def run(options: argparse.Namespace, console: Console) -> None:
    with filled(options.scale, options, console) as ab:
        results = measure(
            ab,
            queries(options.queries),
            windows=windows(options),
            rounds=options.rounds,
            warm_up=options.warm_up,
            mode=options.mode,
            verify=options.verify,
            console=console,
        )
    report.show(results)
    asked = ("scale", "changed", "keys", "others", "mode", "rounds", "warm_up")
    conditions = {name: getattr(options, name) for name in asked}
    report.save(results, Path(options.out), conditions)


def windows(options: argparse.Namespace) -> Callable[[int], Window]:
    last_key = round(data.KEYS_PER_ORDER * data.ORDERS * options.scale)
    keys = last_key if options.keys == "together" else 0
    return lambda number: Window(number, options.changed, options.others, keys=keys)


def run_grow(options: argparse.Namespace) -> None:
    results: list[Grown] = []
    for scale in (options.scale, 10 * options.scale):
        # Each has a Java of its own: the second of two would find it warm.
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            results += process.submit(grown_at, scale, options).result()
    report.show_grown(results)
    conditions = {"scale": options.scale, "rows": ROWS, "rounds": options.rounds}
    report.save_grown(results, Path(options.out), conditions)


def _numbers(text: str) -> list[int]:
    found = [int(each) for each in text.split(",")]
    if unknown := set(found) - set(NUMBERS):
        raise argparse.ArgumentTypeError(f"there is no query {min(unknown)}")
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks.tpch", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("--scale", type=float, default=1.0, help="scale factor; 1 is 1 GB")
    parser.add_argument("--changed", type=float, default=0.01, help="share of orders per round")
    parser.add_argument(
        "--keys", default="together", choices=KEYS, help="how the changed orders lie"
    )
    parser.add_argument(
        "--others", type=float, default=0.0, help="share of customers, parts, offers, suppliers"
    )
    parser.add_argument("--queries", type=_numbers, default=list(NUMBERS), help="such as 1,3,5")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=3, help="rounds that are not counted")
    parser.add_argument("--mode", default="AUTO", choices=("AUTO", "DIFFERENTIAL"))
    parser.add_argument("--grow", action="store_true", help="one delta on two sizes of the base")
    parser.add_argument("--memory", default="6g", help="driver memory of Spark")
    parser.add_argument("--dir", default=None, help="where the bench writes its tables")
    parser.add_argument("--out", default="benchmarks/results")
    parser.add_argument("--verify", action="store_true", help="verify every table in every round")
    return parser.parse_args()


if __name__ == "__main__":
    main()
