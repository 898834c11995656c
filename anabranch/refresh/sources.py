"""What a refresh reads: tables as they are, what changed in them, and how much of them is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from anabranch.lake.ranges import in_files
from anabranch.lake.version import TableVersion
from anabranch.model import ColumnRanges, Columns, Delta, RangeSet
from anabranch.names import TableName
from anabranch.plan.nodes import Node, Scan, Version
from anabranch.plan.optimize import DELTA_RULES, KEY_RULES, RANGE_RULES, optimize
from anabranch.plan.rules.push_ranges import ranges_of
from anabranch.plan.sameness import Sameness, sameness
from anabranch.plan.statistics import (
    NONE,
    WORTH_SHARE,
    Limits,
    Statistics,
    TableStatistics,
    rows_read,
)
from anabranch.plan.walk import scans_of

BROADCAST_ROWS = 500_000  # up to here a delta is sent whole to every task
LARGE_ROWS = 500_000  # from here on reading a table twice costs more than keeping rows of it


@dataclass(frozen=True)
class Sources:
    """The tables a query reads, as they are now, and what changed in each since the last refresh."""

    versions: Mapping[TableName, TableVersion]
    before: Mapping[TableName, int | None]
    deltas: Mapping[TableName, Delta]  # only those that changed
    expired: str | None = None
    lost: str | None = None  # what is said of a file, where that is why

    @property
    def delta_rows(self) -> int:
        return sum(delta.rows for delta in self.deltas.values())

    @property
    def rows(self) -> int:
        return sum(version.rows for version in self.versions.values())

    @property
    def insert_only(self) -> bool:
        return not any(delta.minus for delta in self.deltas.values())

    def planned(self, node: Node, limits: Limits = NONE) -> Node:
        """The optimized plan; `limits` are those of the relation that it is given."""
        key = node, frozenset(limits.items())
        if key not in self._planned:
            self._planned[key] = optimize(node, DELTA_RULES, self.statistics(node, limits))
        return self._planned[key]

    @cached_property
    def _planned(self) -> dict[tuple[Node, frozenset[tuple[str, RangeSet]]], Node]:
        """A plan is asked for when its cost is estimated, and again when it is run."""
        return {}

    def statistics(self, node: Node, limits: Limits = NONE) -> Statistics:
        """What the optimizer is told.  Footers of changed files are read only if the plan reads more
        than changes, and manifests only of large tables that it may read a part of."""
        again = any(scan.version is not Version.DELTA for scan in scans_of(node))
        statistics = self._statistics(node, limits, footers=again)
        if all(table.rows < LARGE_ROWS for table in statistics.tables.values()):
            return statistics
        scans: dict[TableName, list[Scan]] = {}
        for scan in scans_of(optimize(node, RANGE_RULES, statistics)):
            table = statistics.tables.get(scan.table)
            if scan.version is not Version.DELTA and table and table.rows >= LARGE_ROWS:
                scans.setdefault(scan.table, []).append(scan)
        read = {
            name: replace(statistics.tables[name], read_at_once=self._read_at_once(name, own))
            for name, own in scans.items()
        }
        return replace(statistics, tables={**statistics.tables, **read})

    def _read_at_once(self, table: TableName, scans: Sequence[Scan]) -> int:
        """About how many rows the largest of some scans of a table reads."""
        version = self.versions[table]
        if not all(scan.ranges for scan in scans):
            return version.rows
        files = version.file_statistics([box for scan in scans for box in scan.ranges])
        return max(rows_read(version.rows, files, scan.ranges) for scan in scans)

    def _statistics(self, node: Node, limits: Limits, *, footers: bool) -> Statistics:
        columns: dict[TableName, dict[str, None]] = {}
        for scan in scans_of(node):
            columns.setdefault(scan.table, {}).update(dict.fromkeys(scan.names))
        tables = {
            table: self._table(table, names, footers=footers)
            for table, names in columns.items()
            if table in self.versions
        }
        return Statistics(tables, limits, self.delta_rows, large=LARGE_ROWS, few=BROADCAST_ROWS)

    def _table(self, table: TableName, names: Iterable[str], *, footers: bool) -> TableStatistics:
        version = self.versions[table]
        kinds = {name: kind for name in names if (kind := version.kind(name)) is not None}
        told = kinds if footers and table in self.deltas else ()
        spans = ((name, self.changed(table, name)) for name in told)
        changed = {name: found for name, found in spans if found is not None}
        same = plain(version.columns) if version.rows >= LARGE_ROWS else frozenset[str]()
        return TableStatistics(version.rows, kinds, same, changed)

    def rows_of(self, scan: Scan) -> int:
        """About how many rows a scan reads."""
        version = self.versions[scan.table]
        if not scan.ranges:
            return version.rows
        return rows_read(version.rows, version.file_statistics(scan.ranges), scan.ranges)

    def ranges(self, node: Node) -> Limits:
        """Where the values of the columns of a plan lie, as far as is known."""
        node = optimize(node, KEY_RULES)
        return ranges_of(node, self._statistics(node, NONE, footers=True))

    def changed(self, table: TableName, column: str) -> RangeSet | None:
        key = table, column
        if key not in self._spans:
            self._spans[key] = self._changed(table, column)
        return self._spans[key]

    @cached_property
    def _spans(self) -> dict[tuple[TableName, str], RangeSet | None]:
        return {}

    def _changed(self, table: TableName, column: str) -> RangeSet | None:
        version, delta = self.versions[table], self.deltas.get(table)
        field = version.field(column)
        if field is None or delta is None:
            return None
        files = [path for each in (*delta.plus, *delta.minus) for path in each.files]
        return in_files(version.io, files, field)

    def within(self, scan: Scan) -> tuple[ColumnRanges, ...]:
        """The boxes of a scan, if they leave out enough to be worth asking for each row."""
        version = self.versions[scan.table]
        return scan.ranges if scan.ranges and version.share(scan.ranges) <= WORTH_SHARE else ()


def plain(columns: Columns) -> frozenset[str]:
    """Columns of which equal values are the same bits: 0.0 equals -0.0, and a map equals nothing."""
    return frozenset(each.name for each in columns if sameness(each.type) is Sameness.BYTES)
