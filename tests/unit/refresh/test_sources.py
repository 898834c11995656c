"""What the optimizer is told of the tables of a plan, and what it makes of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from anabranch.model import Column, ColumnRanges, Columns, Delta, RangeSet
from anabranch.names import TableName
from anabranch.plan.nodes import Node, ReducedScan
from anabranch.plan.read import read
from anabranch.plan.statistics import ColumnRange, FileStatistics
from anabranch.plan.walk import walk
from anabranch.refresh import sources as module
from anabranch.refresh.sources import Sources

A, B = TableName.of("a"), TableName.of("b")
CHANGED = RangeSet("integer", ((10, 19),))
TWICE = read(
    """
    UnionAll
      Join on k = l [first input small]
        Scan a [delta] (k)
        Project k as l, v
          Scan b [after] (k, v)
      Project k, _ab_w, l, v
        Join on k = l AND w < v [first input small]
          Scan a [delta] (k, w)
          Project k as l, v
            Scan b [before] (k, v)
    """
)
ONCE_WITHOUT_KEYS = read(
    """
    UnionAll
      Join on k = l [first input small]
        Scan a [delta] (k)
        Project k as l, v
          Scan b [after] (k, v)
      Join on k < l [first input small]
        Scan a [delta] (k)
        Project k as l, v
          Scan b [after] (k, v)
    """
)


@dataclass
class Version:
    """A table of ten files, of which each has a tenth of the keys if it is `clustered`."""

    rows: int
    clustered: bool = True
    asked: int = 0
    columns: Columns = (Column("k", "int"), Column("v", "int"))

    def kind(self, column: str) -> str | None:
        return "integer" if column == "k" else None

    def file_statistics(self, boxes: Sequence[ColumnRanges]) -> tuple[FileStatistics, ...]:
        self.asked += 1
        ends = [(10 * i, 10 * i + 9) if self.clustered else (0, 99) for i in range(10)]
        return tuple(
            FileStatistics(self.rows // 10, {"k": ColumnRange(low, high, nulls=False)})
            for low, high in ends
        )


class Told(Sources):
    def changed(self, table: TableName, column: str) -> RangeSet | None:
        return CHANGED if (table, column) == (A, "k") else None


def told(b: Version) -> Told:
    return Told({A: Version(10), B: b}, {}, {A: Delta()})  # type: ignore[dict-item]


@pytest.fixture(autouse=True)
def a_hundred_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGE_ROWS", 100)


@pytest.mark.parametrize(
    ("plan", "b", "rows"),
    [
        (TWICE, Version(500), 50),  # only the second file has keys from 10 to 19
        (TWICE, Version(500, clustered=False), 500),
        (ONCE_WITHOUT_KEYS, Version(500), 500),  # the second reads all
        (TWICE, Version(99), None),  # nobody asks of a small table
    ],
)
def test_how_much_the_largest_scan_reads(plan: Node, b: Version, rows: int | None) -> None:
    statistics = told(b).statistics(plan)
    assert statistics.tables[B].read_at_once == rows
    assert statistics.tables[A].read_at_once is None
    assert b.asked == (1 if plan is TWICE and b.rows > 99 else 0)


@pytest.mark.parametrize(("b", "shared"), [(Version(500), False), (Version(5_000), True)])
def test_a_scan_is_shared_if_it_reads_much_within_its_ranges(b: Version, shared: bool) -> None:
    planned = told(b).planned(TWICE)
    assert any(isinstance(node, ReducedScan) for node in walk(planned)) == shared
