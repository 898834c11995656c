"""Commits of other engines on real Spark: by position, by value, by deletion vector."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.lake.foreign import require
from anabranch.names import TableName
from anabranch.spark.scan import delta_frame
from anabranch.spark.session import Spark
from tests.standin.hand import Hand, imported
from tests.standin.random_commits import Commits, agrees
from tests.standin.theirs import Theirs

SEED = int(os.environ.get("ANABRANCH_FOREIGN_SEED", "7"))


@pytest.fixture
def ab(tmp_path: Path, spark: Spark) -> Iterator[Anabranch]:
    with anabranch.connect(tmp_path / "home", spark=spark.session) as opened:
        yield opened


def test_deletes_are_applied_by_place_and_by_value(ab: Anabranch, tmp_path: Path) -> None:
    """As state and as delta, in two jobs; the rest is the same as on the stand-in."""
    theirs = Theirs(tmp_path / "theirs")
    theirs.table()
    hand = Hand(theirs, "orders", random.Random(1))
    hand.append([{1: at, 2: at % 3 or None} for at in range(8)])
    ab.attach("prod", "sql", **theirs.properties)
    name = TableName.parse("prod.sales.orders")
    require(ab._runtime.lake, [name])
    before = ab._runtime.world().version(name).snapshot_id
    hand.delete_keys((2,), [{2: None}, {2: 7}], add=[{1: 0, 2: None}])
    hand.delete_by_vectors(lambda row: row[1] == 4)
    assert Counter(map(tuple, ab.table("prod.sales.orders").collect())) == Counter(hand.rows)
    version = ab._runtime.world().version(name)
    delta = delta_frame(ab.spark, version.delta(before), version.columns)
    changes: Counter[tuple[Any, ...]] = Counter()
    for *row, weight in delta.collect():
        changes[tuple(row)] += weight
    assert {row: by for row, by in changes.items() if by} == {
        (3, None): -1,
        (6, None): -1,
        (4, 1): -1,
    }


def test_imported_files_are_read_by_name_and_partition(ab: Anabranch, tmp_path: Path) -> None:
    theirs = Theirs(tmp_path / "theirs")
    imported(theirs, "old", [2023, 2024])
    ab.attach("prod", "sql", **theirs.properties)
    query = "SELECT * FROM prod.sales.old WHERE year = 2023 AND (title IS NULL OR title <> 'x')"
    found = Counter(map(tuple, ab.sql(query).collect()))
    assert found == Counter([(2023, "a2023", 2023), (1, None, 2023), (7, "new", 2023)])


@pytest.mark.extended
def test_every_kind_of_delete(ab: Anabranch, tmp_path: Path) -> None:
    """One commit of each kind, and all of them read together at the end."""
    commits = Commits.begin(ab, tmp_path, random.Random(3))
    orders, others = commits.tables
    orders.append([{1: 1, 2: 5}, {1: None, 2: 5}, {1: 2, 2: None}])
    orders.delete_keys((1, 2), [{1: None, 2: 5}, {1: 2, 2: None}], add=[{1: 2, 2: None}])
    others.delete_places(lambda row: row[1] == 1)
    commits.partition(orders)
    orders.append([{1: 1, 2: 1}, {1: 2, 2: 2}, {1: 3, 2: 3}])
    orders.delete_keys((1,), [{1: 1}])
    orders.delete_by_vectors(lambda row: row[2] == 3)
    ab.refresh()
    agrees(ab, commits)
    assert {line["action"] for line in ab.history("mart.rows", 1)} == {"DIFFERENTIAL"}
    before = Counter(map(tuple, ab.table("mart.rows").collect()))
    orders.rewrite(lambda file: True)
    ab.refresh()
    agrees(ab, commits)
    assert Counter(map(tuple, ab.table("mart.rows").collect())) == before


@pytest.mark.extended
@pytest.mark.parametrize("seed", range(SEED, SEED + 3))
def test_random_commits_equal_recompute(ab: Anabranch, tmp_path: Path, seed: int) -> None:
    commits = Commits.begin(ab, tmp_path, random.Random(seed))
    for _ in range(8):
        commits.some()
        ab.refresh()
        agrees(ab, commits)
