"""What the optimizer is told of the tables of a plan: a record, gathered before it starts.

Rules never look anything up, so that the same plan and the same statistics give the same plan, in a
test as well as in a refresh.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from anabranch.model import ColumnRanges, RangeSet
from anabranch.names import TableName

Limits = Mapping[str, RangeSet]  # of a node's columns: rows outside are of no interest
NONE: Limits = {}
WORTH_SHARE = 0.5  # more than this part of a table is read as all of it


@dataclass(frozen=True)
class ColumnRange:
    """Where the values of a column of one file lie; without ends it is not known.

    `nulls`: there may be some; `only_nulls`: there is nothing else.
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

    def share(self, wanted: RangeSet) -> float:
        """About what part of the rows lies in the ranges; 0 means none."""
        if wanted.nulls and self.nulls:
            return 1.0
        if self.low is None or self.high is None:
            return 1.0
        return wanted.share(self.low, self.high)


@dataclass(frozen=True)
class FileStatistics:
    rows: int
    columns: Mapping[str, ColumnRange]

    def share(self, boxes: Sequence[ColumnRanges]) -> float:
        """About what part of the rows lies in the boxes; 0 means none."""
        parts = (min(self.columns[name].share(spans) for name, spans in box) for box in boxes)
        return min(sum(parts), 1.0)


@dataclass(frozen=True)
class TableStatistics:
    """A table as it is now.

    `kinds` are the kinds of ranges that columns can have, `same` the columns of which equal values are
    the same in every respect, `changed` where the values of the changed rows lie, as far as that is
    known.  `files` tell of the columns that somebody may want ranges of.
    """

    rows: int
    kinds: Mapping[str, str] = field(default_factory=dict)
    same: frozenset[str] = frozenset()
    changed: Mapping[str, RangeSet] = field(default_factory=dict)
    files: tuple[FileStatistics, ...] | None = None

    def rows_read(self, boxes: Sequence[ColumnRanges]) -> int:
        """About how many rows are read to find those in the boxes; without boxes all."""
        if not boxes or self.files is None:
            return self.rows
        part = share(self.files, boxes)
        if part > WORTH_SHARE:
            return self.rows
        names = [[name for name, _ in box] for box in boxes]
        if all(any(lie_together(self.files, name) for name in box) for box in names):
            return round(self.rows * part)
        return sum(file.rows for file in self.files if file.share(boxes))


@dataclass(frozen=True)
class Statistics:
    """What is known of the tables of a plan, and of the relation that it is given.

    `large`: from so many rows on, reading a table twice costs more than keeping rows of it.  `few`: up
    to so many rows are sent whole to every task.
    """

    tables: Mapping[TableName, TableStatistics] = field(default_factory=dict)
    given: Limits = field(default_factory=dict)
    delta_rows: int = 0
    large: int = 500_000
    few: int = 500_000

    def kind(self, table: TableName, column: str) -> str | None:
        """The kind of ranges that a column can have."""
        found = self.tables.get(table)
        return None if found is None else found.kinds.get(column)

    def changed(self, table: TableName, column: str) -> RangeSet | None:
        """Where the values of a column of the changed rows lie."""
        found = self.tables.get(table)
        return None if found is None else found.changed.get(column)

    def rows_read(self, table: TableName, boxes: Sequence[ColumnRanges]) -> int:
        found = self.tables.get(table)
        return 0 if found is None else found.rows_read(boxes)

    def given_that(self, limits: Limits) -> Statistics:
        """The same, with what is known of the relation that the plan is given."""
        return replace(self, given=limits)


NOTHING = Statistics()


def share(files: Sequence[FileStatistics], boxes: Sequence[ColumnRanges]) -> float:
    """About what part of the rows of some files lies in the boxes; 0 means none."""
    total = sum(file.rows for file in files)
    inside = sum(file.rows * file.share(boxes) for file in files)
    return inside / total if total else 0.0


def lie_together(files: Sequence[FileStatistics], column: str) -> bool:
    """Whether rows with like values of a column lie in the same files, as they came: then a file
    has only some of the values."""
    known = (file.columns[column] for file in files)
    ends: list[tuple[int, int]] = [
        (each.low, each.high) for each in known if each.low is not None and each.high is not None
    ]
    if not ends:
        return False
    whole = max(high for _, high in ends) - min(low for low, _ in ends)
    return median(high - low for low, high in ends) <= whole / 2
