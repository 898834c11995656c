"""What the optimizer knows of the tables of a plan: a record, gathered before it starts.

Rules look nothing up themselves, so that the same plan and the same statistics give the same plan, in a
test as in a refresh.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from anabranch.model import ColumnRanges, RangeSet
from anabranch.names import TableName

Limits = Mapping[str, RangeSet]  # by column of a node: rows outside are not needed
NONE: Limits = {}
WORTH_SHARE = 0.5  # a table is read whole if more than this share of it would be read


@dataclass(frozen=True)
class ColumnRange:
    """The bounds of a column within one file; None: unknown.

    `nulls`: there may be NULLs; `only_nulls`: there is nothing else.
    """

    low: Any | None
    high: Any | None
    nulls: bool = True
    only_nulls: bool = False

    def may_satisfy(self, op: str, values: Sequence[Any]) -> bool:
        """Whether the file may hold a value for which `value op one of values` is true."""
        if op == "null":
            return self.nulls
        return not self.only_nulls and any(self._reaches(op, value) for value in values)

    def _reaches(self, op: str, value: Any) -> bool:
        starts_below = self.low is None or self.low < value or (self.low == value and op != "<")
        ends_above = self.high is None or self.high > value or (self.high == value and op != ">")
        if op in ("<", "<="):
            return starts_below
        return ends_above if op in (">", ">=") else starts_below and ends_above

    def share(self, ranges: RangeSet) -> float:
        """The estimated share of the rows within the ranges; 0 means none."""
        if ranges.nulls and self.nulls:
            return 1.0
        if self.low is None or self.high is None:
            return 1.0
        return ranges.share(self.low, self.high)


@dataclass(frozen=True)
class FileStatistics:
    rows: int
    columns: Mapping[str, ColumnRange]

    def share(self, alternatives: Sequence[ColumnRanges]) -> float:
        """The estimated share of the rows within any of the alternatives; 0 means none."""
        shares = (
            min(self.columns[name].share(ranges) for name, ranges in conjunction)
            for conjunction in alternatives
        )
        return min(sum(shares), 1.0)


@dataclass(frozen=True)
class TableStatistics:
    """A table in its current state.

    `kinds` are the kinds of ranges that columns can have, `same` the columns whose equal values are
    identical byte for byte, `changed` the ranges of values in the changed rows, where known.
    `read_at_once` are the rows that the largest scan of the plan reads, within the ranges that it is
    restricted to; None: all.
    """

    rows: int
    kinds: Mapping[str, str] = field(default_factory=dict)
    same: frozenset[str] = frozenset()
    changed: Mapping[str, RangeSet] = field(default_factory=dict)
    read_at_once: int | None = None

    def is_large(self, large: int) -> bool:
        """Whether some scan reads that many rows."""
        scanned = self.rows if self.read_at_once is None else self.read_at_once
        return min(self.rows, scanned) >= large


LargeTables = Mapping[TableName, TableStatistics]


@dataclass(frozen=True)
class Statistics:
    """What is known of the tables of a plan, and of the relation bound to its parameter.

    `large`: from this many rows on, reading a table twice costs more than storing rows of it.
    `few`: up to this many rows are broadcast.
    """

    tables: Mapping[TableName, TableStatistics] = field(default_factory=dict)
    given: Limits = field(default_factory=dict)
    delta_rows: int = 0
    large: int = 500_000
    few: int = 500_000

    def kind(self, table: TableName, column: str) -> str | None:
        """The kind of ranges that a column can have."""
        statistics = self.tables.get(table)
        return None if statistics is None else statistics.kinds.get(column)

    def changed(self, table: TableName, column: str) -> RangeSet | None:
        """The ranges of a column's values in the changed rows."""
        statistics = self.tables.get(table)
        return None if statistics is None else statistics.changed.get(column)

    def of(self, tables: Collection[TableName]) -> Statistics:
        """The same, of these tables only."""
        return replace(self, tables={name: self.tables[name] for name in tables})

    def given_that(self, limits: Limits) -> Statistics:
        """The same, with the ranges of the relation bound to the parameter."""
        return replace(self, given=limits)


NOTHING = Statistics()


def rows_read(
    rows: int, files: Sequence[FileStatistics], alternatives: Sequence[ColumnRanges]
) -> int:
    """The estimated number of rows of a table that are read to find those in the ranges; without
    ranges all."""
    if not alternatives:
        return rows
    fraction = share(files, alternatives)
    if fraction > WORTH_SHARE:
        return rows
    names = [[name for name, _ in conjunction] for conjunction in alternatives]
    if all(any(is_clustered(files, name) for name in columns) for columns in names):
        return round(rows * fraction)
    return sum(file.rows for file in files if file.share(alternatives))


def share(files: Sequence[FileStatistics], alternatives: Sequence[ColumnRanges]) -> float:
    """The estimated share of the rows of some files within the ranges; 0 means none."""
    total = sum(file.rows for file in files)
    inside = sum(file.rows * file.share(alternatives) for file in files)
    return inside / total if total else 0.0


def is_clustered(files: Sequence[FileStatistics], column: str) -> bool:
    """Whether the files are clustered by a column: similar values are stored in the same file, so that
    a file has only some of them."""
    bounds = (file.columns[column] for file in files)
    intervals: list[tuple[int, int]] = [
        (bound.low, bound.high)
        for bound in bounds
        if bound.low is not None and bound.high is not None
    ]
    if not intervals:
        return False
    extent = max(high for _, high in intervals) - min(low for low, _ in intervals)
    return median(high - low for low, high in intervals) <= extent / 2
