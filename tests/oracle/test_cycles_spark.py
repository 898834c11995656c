"""The same random programs on Spark, through the public names: strict, so that nothing is recomputed.

`ANABRANCH_SPARK_CYCLES` says how many.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.spark.session import Spark
from tests.oracle.circle import Circle
from tests.oracle.cycle_cases import set_rows, world
from tests.oracle.plain_sql import plain_text
from tests.oracle.programs import COLUMNS, SOURCES, Case, Row, after, generate

CYCLES = int(os.environ.get("ANABRANCH_SPARK_CYCLES", "2"))
BATCH = 2  # programs that follow one stream of changes together


@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, CYCLES, BATCH))
def test_random_cycles_on_spark(spark: Spark, tmp_path: Path, first: int) -> None:
    cases = {f"p{seed}": generate(1_000_000 + seed) for seed in range(first, first + BATCH)}
    changing = cases[f"p{first}"]
    there = {name: list(changing.start[name]) for name in SOURCES}
    with anabranch.connect(tmp_path, spark=spark.session, allow_circular=True) as ab:
        for name in SOURCES:
            ab.sql(f"CREATE TABLE {name} ({COLUMNS})")
            insert(ab, name, there[name])
        queries = {}
        for prefix, case in cases.items():
            queries |= renamed(prefix, case.queries)
        ab.create_stream_tables(queries, schedule=None, refresh_mode="DIFFERENTIAL")
        check(ab, cases, there, "created")
        for steps in changing.changes:
            for step in steps:
                there[step.source] = after(there[step.source], step)
                ab.sql(f"DELETE FROM {step.source}")
                insert(ab, step.source, there[step.source])
            ab.refresh()
            check(ab, cases, there, str(steps))
            actions = {ab.history(name, 1)[0]["action"] for name in queries}
            assert actions <= {"DIFFERENTIAL", "NO_DATA"}, actions


def renamed(prefix: str, queries: dict[str, str]) -> dict[str, str]:
    """The members of several programs in one catalog."""
    made = {}
    for name, query in queries.items():
        for member in queries:
            query = query.replace(f" {member} ", f" {prefix}_{member} ")
            query = query.replace(f" {member})", f" {prefix}_{member})")
            if query.endswith(f" {member}"):
                query = query.removesuffix(member) + f"{prefix}_{member}"
        made[f"{prefix}_{name}"] = query
    return made


def insert(ab: Anabranch, name: str, rows: list[Row]) -> None:
    if rows:
        values = ", ".join(f"({x}, {y})" for x, y in rows).replace("None", "NULL")
        ab.sql(f"INSERT INTO {name} VALUES {values}")


def check(ab: Anabranch, cases: dict[str, Case], there: dict[str, list[Row]], said: str) -> None:
    for prefix, case in cases.items():
        world().reset()
        circle = Circle(world(), case.queries, plain_text)
        for name, rows in there.items():
            set_rows(name, rows)
        for name, expected in circle.least().items():
            found = Counter(tuple(row) for row in ab.table(f"{prefix}_{name}").collect())
            assert found == expected, (prefix, name, said, case.queries)
