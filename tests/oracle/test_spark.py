"""Incremental equals recompute on real Spark and Iceberg: random queries over one database.

The queries of a batch share their sources and windows of changes, so that one refresh keeps all of
them; every table is then compared with its query, as bags.  `ANABRANCH_SPARK_QUERIES` says how many.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame

import anabranch
from anabranch import Anabranch
from anabranch.errors import AnabranchError
from anabranch.spark.session import Spark
from tests.oracle import data
from tests.oracle.kept import World
from tests.oracle.queries import draw
from tests.oracle.tables import TABLES
from tests.oracle.weights import SPARK_WEIGHTS

QUERIES = int(os.environ.get("ANABRANCH_SPARK_QUERIES", "20"))
BATCH = 10
TRIED = 30  # of so many queries, one batch must come together
SMALL_TABLE_ROWS = (100_000, 0)  # tables are rewritten, or their rows marked
SEEDS = [number * 1_000 for number in range(max(QUERIES // BATCH, 2))]


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    "seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.extended) for seed in SEEDS[1:])]
)
def test_incremental_equals_recompute(spark: Spark, tmp_path: Path, seed: int) -> None:
    small = SMALL_TABLE_ROWS[seed // 1_000 % 2]
    with anabranch.connect(tmp_path, spark=spark.session, small_table_rows=small) as ab:
        random = Random(f"spark {seed}")
        for name, columns in TABLES.items():
            ab.sql(f"CREATE TABLE {name} ({columns.replace('VARCHAR', 'STRING')})")
        _run(ab, data.start(random, tuple(TABLES)))
        queries = dict(_accepted(ab, seed))
        assert len(queries) == BATCH
        ab.create_stream_tables(queries, refresh_mode="DIFFERENTIAL", schedule=None)
        _check(ab, queries)
        for window in data.windows(random, tuple(TABLES), portable=True):
            _run(ab, window)
            ab.refresh()
            _check(ab, queries)
            actions = {name: ab.history(name)[0]["action"] for name in queries}
            assert set(actions.values()) <= {"DIFFERENTIAL", "NO_DATA"}, actions


def _accepted(ab: Anabranch, seed: int) -> Iterator[tuple[str, str]]:
    """Queries that are incremental and that Spark itself takes."""
    world, found = World(TABLES), 0
    for each in range(seed, seed + TRIED):
        text = draw(each, SPARK_WEIGHTS).text
        if found < BATCH and world.lower(text, {}).plan is not None and _is_sparks(ab, text):
            found += 1
            yield f"q{each}", text


def _is_sparks(ab: Anabranch, text: str) -> bool:
    try:
        ab.sql(text)
    except AnabranchError:
        return False
    return True


def _run(ab: Anabranch, window: data.Window) -> None:
    with ab.transaction():
        for statement in window:
            ab.sql(statement)


def _check(ab: Anabranch, queries: dict[str, str]) -> None:
    for name, text in queries.items():
        kept, expected = _bag(ab.table(name)), _bag(ab.sql(text))
        assert kept == expected, f"{name}: {text}\nkept {kept - expected}\nnot {expected - kept}"


def _bag(rows: DataFrame) -> Counter[tuple[object, ...]]:
    """NaN is one value."""
    return Counter(tuple(map(_value, row)) for row in rows.collect())


def _value(cell: object) -> object:
    return "NaN" if isinstance(cell, float) and isnan(cell) else cell
