"""A circle of stream tables: the closure of a graph, followed edge by edge against computing it anew.

The graph is a random tree, every node under one that came before it, with some edges more: 100,000
edges have a closure of about a million pairs and paths of some thirty edges.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

import anabranch
from anabranch import Anabranch

CLOSURE = (
    "SELECT src, dst FROM bench.{edges} UNION "
    "SELECT r.src, e.dst FROM bench.{name} r JOIN bench.{edges} e ON e.src = r.dst"
)
EXTRA = 0.01  # of the edges do not belong to the tree


def main(argv: Sequence[str] | None = None) -> None:
    options = _options(argv)
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(dir=options.dir) as home:
        settings: dict[str, Any] = {"spark.conf.spark.driver.memory": options.memory}
        with anabranch.connect(home, allow_circular=True, **settings) as ab:
            _load(ab, "small", 1_000)
            _load(ab, "edges", options.edges)
            for at in range(2):  # Spark compiles its plans: a service that runs has done so
                _fill(ab, f"warm{at}", "small")
                _move(ab, f"warm{at}", "small", -1 - at)
            found = _measure(ab, options, console)
    _print(found)
    if options.out:
        _save(found, Path(options.out))


def _load(ab: Anabranch, name: str, edges: int) -> None:
    dice = random.Random(7)
    tree = [(dice.randrange(node), node) for node in range(1, round(edges * (1 - EXTRA)) + 1)]
    last = len(tree)
    while len(tree) < edges:
        one, other = sorted(dice.sample(range(last + 1), 2))
        tree.append((one, other))
    ab.sql(f"CREATE TABLE bench.{name} (src BIGINT, dst BIGINT)")
    columns = [list(each) for each in zip(*tree, strict=True)]
    ab.append(f"bench.{name}", pa.table({"src": columns[0], "dst": columns[1]}))


def _fill(ab: Anabranch, name: str, edges: str) -> tuple[float, dict[str, Any]]:
    start = time.perf_counter()
    query = CLOSURE.format(name=name, edges=edges)
    ab.create_stream_table(f"bench.{name}", query, schedule=None)
    seconds = time.perf_counter() - start
    return seconds, ab.history(f"bench.{name}", 1)[0]


def _refresh(ab: Anabranch, name: str) -> tuple[float, dict[str, Any]]:
    start = time.perf_counter()
    ab.refresh(f"bench.{name}")
    seconds = time.perf_counter() - start
    return seconds, ab.history(f"bench.{name}", 1)[0]


def _move(
    ab: Anabranch, name: str, edges: str, seed: int
) -> list[tuple[str, float, dict[str, Any]]]:
    """One edge more, and one less: any node gets another one below it, and loses one."""
    # a text as the seed: of numbers, -1 and 1 would be the same dice
    dice, nodes = random.Random(f"change {seed}"), ab.table(f"bench.{edges}").count() // 2
    one, other = sorted(dice.sample(range(1, nodes), 2))
    ab.sql(f"INSERT INTO bench.{edges} VALUES ({one}, {other})")
    added = ("add an edge", *_refresh(ab, name))
    gone = dice.randrange(10, nodes)
    ab.sql(f"DELETE FROM bench.{edges} WHERE dst = {gone} AND src < {gone}")
    return [added, ("remove an edge", *_refresh(ab, name))]


def _measure(ab: Anabranch, options: argparse.Namespace, console: Console) -> dict[str, Any]:
    fills, lines = [], []
    for at in range(options.fills):
        seconds, line = _fill(ab, f"closure{at}", "edges")
        fills.append(seconds)
        console.print(f"  anew: {seconds:.1f} s, {line['fixpoint_iterations']} rounds")
        if at < options.fills - 1:
            ab.drop_stream_table(f"bench.closure{at}")
    name = f"closure{options.fills - 1}"
    pairs = line["rows_inserted"]
    for seed in range(-options.warm_up, options.changes):
        for what, seconds, line in _move(ab, name, "edges", seed):
            console.print(
                f"  {what}: {seconds:.2f} s, {line['fixpoint_iterations']} rounds, "
                f"+{line['rows_inserted']} -{line['rows_deleted']} ({line['reason']})"
            )
            assert line["fixpoint_iterations"], "a change that changes nothing is no measurement"
            if seed >= 0:
                lines.append((what, seconds, line))
    if options.verify:
        assert ab.verify(f"bench.{name}")["equal"]
    anew = statistics.median(fills)
    rounds = ab.history(f"bench.{name}")[-1]["fixpoint_iterations"]
    results = [{"what": "anew", "seconds": round(anew, 2), "ratio": 1.0, "rounds": rounds}]
    for what in ("add an edge", "remove an edge"):
        mine = [(seconds, line) for found, seconds, line in lines if found == what]
        seconds = statistics.median(each for each, _ in mine)
        results.append(
            {
                "what": what,
                "seconds": round(seconds, 2),
                "ratio": round(anew / seconds, 1),
                "rounds": statistics.median(line["fixpoint_iterations"] or 0 for _, line in mine),
            }
        )
    return {"edges": options.edges, "pairs": pairs, "results": results}


def _print(found: dict[str, Any]) -> None:
    title = f"closure of {found['edges']:,} edges: {found['pairs']:,} pairs"
    table = Table(title=title)
    for heading in ("", "seconds", "rounds", "times faster than anew"):
        table.add_column(heading, justify="right" if heading else "left")
    for row in found["results"]:
        table.add_row(
            row["what"], f"{row['seconds']:.2f}", f"{row['rounds']:g}", f"{row['ratio']:.1f} x"
        )
    Console().print(table)


def _save(found: dict[str, Any], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    conditions = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    text = json.dumps({"conditions": conditions, **found}, indent=1)
    (out / "closure.json").write_text(text + "\n")


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--edges", type=int, default=100_000)
    parser.add_argument("--fills", type=int, default=2, help="times that it is computed anew")
    parser.add_argument("--changes", type=int, default=5, help="edges that are added and removed")
    parser.add_argument("--warm-up", type=int, default=1, help="changes that are not counted")
    parser.add_argument("--memory", default="6g", help="driver memory of Spark")
    parser.add_argument("--dir", default=None, help="where the bench writes its tables")
    parser.add_argument("--out", default="benchmarks/results", help="where results go, or nothing")
    parser.add_argument("--verify", action="store_true", help="verify the table at the end")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
