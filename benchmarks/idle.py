"""What looking through many stream tables costs when nothing has changed: no Spark job at all."""

from __future__ import annotations

import statistics
import tempfile
import time

from rich.console import Console

import anabranch
from anabranch.catalog import streams
from anabranch.catalog.streams import Input, StreamTable, computed_from
from anabranch.model import Status
from anabranch.names import TableName

TABLES = 1_000
ROUNDS = 10


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="anabranch-idle-") as home:
        ab = anabranch.connect(home)
        declare(ab, TABLES)
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            ab.refresh()
            times.append((time.perf_counter() - start) * 1000)
        one = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            ab.refresh("bench.s0")
            one.append((time.perf_counter() - start) * 1000)
        ab.close()
    Console().print(
        f"nothing changed: {TABLES:,} tables looked through in {statistics.median(times):.0f} ms, "
        f"one table of them in {statistics.median(one):.1f} ms; no Spark session was started"
    )


def declare(ab: anabranch.Anabranch, count: int, schedule: str | None = None) -> None:
    """Stream tables that are up to date, as catalog rows: filling them would only cost time."""
    with ab._runtime.store.writing() as c:
        names = [TableName.of("bench", f"s{number}") for number in range(count)]
        source = TableName.of("bench", "source")
        streams.add(
            c,
            [
                StreamTable(
                    name,
                    "SELECT 1",
                    "",
                    schedule=schedule,
                    status=Status.ACTIVE,
                    populated=True,
                    definition="",
                    computed_from=computed_from(""),
                )
                for name in names
            ],
        )
        streams.set_dependencies(c, {name: [source] for name in names})
        streams.set_inputs(c, {name: {source: Input(None, None)} for name in names})


if __name__ == "__main__":
    main()
