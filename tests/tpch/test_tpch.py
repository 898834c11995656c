"""The 22 queries of TPC-H as stream tables on Spark: after every window each equals its query."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.refresh import sources
from anabranch.spark.session import Spark
from benchmarks.tpch import data
from benchmarks.tpch.changes import Window, apply
from benchmarks.tpch.queries import queries
from tests.e2e.world import bag

SCALE = 0.01
LARGE = 10_000  # rows, at this scale: orders and items are worth a look
QUERIES = queries()
# Orders and what they refer to; then orders alone, which lie together; then only what they refer to:
# the terms of a source that did not change vanish.
WINDOWS = (
    Window(0, orders=0.15, others=0.05, nations=True),
    Window(1, orders=0.02, keys=round(data.KEYS_PER_ORDER * data.ORDERS * SCALE)),
    Window(2, orders=0.0, others=0.05, nations=True),
)[: int(os.environ.get("ANABRANCH_TPCH_WINDOWS", "1"))]

Rows = Counter[tuple[Any, ...]]
INCREMENTAL = {"DIFFERENTIAL", "NO_DATA"}

pytestmark = [pytest.mark.timeout(900), pytest.mark.extended]


@dataclass
class Story:
    """What was seen after each window."""

    actions: dict[str, list[str]] = field(default_factory=dict)
    rows: dict[str, list[int]] = field(default_factory=dict)
    differing: dict[str, list[tuple[Rows, Rows]]] = field(default_factory=dict)  # too many, missing


@pytest.fixture(scope="module")
def story(spark: Spark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder: Path = tmp_path_factory.mktemp("tpch")
    with (
        pytest.MonkeyPatch.context() as patch,
        anabranch.connect(folder / "home", spark=spark.session) as ab,
    ):
        patch.setattr(sources, "LARGE_ROWS", LARGE)
        data.fill(ab, data.generate(SCALE, folder / "data"))
        ab.create_stream_tables(QUERIES, refresh_mode="DIFFERENTIAL", schedule=None)
        seen = Story()
        for window in WINDOWS:
            apply(ab, window.changes())
            ab.refresh()
            look(ab, seen)
        yield seen


def look(ab: Anabranch, seen: Story) -> None:
    with ab.at() as world, ab._runtime.spark.tuned(1):
        for name, query in QUERIES.items():
            kept, expected = world.table(name), world.sql(query)
            assert kept.dtypes == expected.dtypes
            stored, fresh = bag(kept), bag(expected)
            seen.rows.setdefault(name, []).append(stored.total())
            seen.differing.setdefault(name, []).append((stored - fresh, fresh - stored))
            seen.actions.setdefault(name, []).append(ab.history(name, limit=1)[0]["action"])


@pytest.mark.parametrize("name", QUERIES)
def test_kept_equals_recomputed(story: Story, name: str) -> None:
    assert not any(too_many or missing for too_many, missing in story.differing[name])
    assert any(story.rows[name]), "a table that never has a row proves nothing"
    assert "DIFFERENTIAL" in story.actions[name], "nor does one that never changes"


def test_every_refresh_was_incremental(story: Story) -> None:
    assert {name: seen for name, seen in story.actions.items() if set(seen) - INCREMENTAL} == {}
