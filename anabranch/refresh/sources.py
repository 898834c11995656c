"""What a refresh reads: tables as they are, what changed in them, and how much of them is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from anabranch.lake.spans import in_files
from anabranch.lake.version import TableVersion
from anabranch.model import Box, Columns, Delta, Spans
from anabranch.names import TableName
from anabranch.plan.looks import Large, Larges, looks
from anabranch.plan.narrow import NONE, Limits, narrow
from anabranch.plan.nodes import Node, Scan, Version
from anabranch.plan.sameness import Sameness, sameness
from anabranch.plan.walk import walk

BROADCAST_ROWS = 500_000  # up to here a delta is sent whole to every task
LOOK_ROWS = 500_000  # from here on reading a table twice costs more than keeping rows of it
WORTH_SHARE = 0.5  # more than this part of a table is read as all of it


@dataclass(frozen=True)
class Sources:
    """The tables a query reads, as they are now, and what changed in each since the last refresh."""

    versions: Mapping[TableName, TableVersion]
    before: Mapping[TableName, int | None]
    deltas: Mapping[TableName, Delta]  # only those that changed
    expired: str | None = None

    @property
    def delta_rows(self) -> int:
        return sum(delta.rows for delta in self.deltas.values())

    @property
    def rows(self) -> int:
        return sum(version.rows for version in self.versions.values())

    @cached_property
    def larges(self) -> Larges:
        """The tables that are worth a look: none if there are too many keys to send to every task."""
        if self.delta_rows > BROADCAST_ROWS:
            return {}
        return {
            name: Large(version.rows, plain(version.columns))
            for name, version in self.versions.items()
            if version.rows >= LOOK_ROWS
        }

    @property
    def insert_only(self) -> bool:
        return not any(delta.minus for delta in self.deltas.values())

    def planned(self, node: Node, limits: Limits = NONE) -> Node:
        """The plan with few looks at large tables, of which no more is read than must be."""
        key = node, frozenset(limits.items())
        if key not in self._planned:
            self._planned[key] = self._plan(node, limits)
        return self._planned[key]

    @cached_property
    def _planned(self) -> dict[tuple[Node, frozenset[tuple[str, Spans]]], Node]:
        """A plan is asked for when its cost is estimated, and again when it is run."""
        return {}

    def _plan(self, node: Node, limits: Limits) -> Node:
        bare = narrow(node, self, limits)
        often = {
            scan.table for scan in walk(bare) if isinstance(scan, Scan) and self.is_large(scan)
        }
        larges = {table: large for table, large in self.larges.items() if table in often}
        return narrow(looks(node, larges), self, limits) if larges else bare

    def is_large(self, scan: Scan) -> bool:
        """Whether what a scan reads is worth a look."""
        return scan.version is not Version.DELTA and self.rows_of(scan) >= LOOK_ROWS

    def rows_of(self, scan: Scan) -> int:
        """About how many rows a scan reads."""
        version, within = self.versions[scan.table], self.within(scan)
        return version.rows_to_read(within) if within else version.rows

    def kind(self, table: TableName, column: str) -> str | None:
        return self.versions[table].kind(column)

    def changed(self, table: TableName, column: str) -> Spans | None:
        key = table, column
        if key not in self._spans:
            self._spans[key] = self._changed(table, column)
        return self._spans[key]

    @cached_property
    def _spans(self) -> dict[tuple[TableName, str], Spans | None]:
        return {}

    def _changed(self, table: TableName, column: str) -> Spans | None:
        version, delta = self.versions[table], self.deltas.get(table)
        field = version.field(column)
        if field is None or delta is None:
            return None
        files = [path for each in (*delta.plus, *delta.minus) for path in each.files]
        return in_files(version.io, files, field)

    def within(self, scan: Scan) -> tuple[Box, ...]:
        """The boxes of a scan, if they leave out enough to be worth asking for each row."""
        version = self.versions[scan.table]
        return scan.within if scan.within and version.share(scan.within) <= WORTH_SHARE else ()


def plain(columns: Columns) -> frozenset[str]:
    """Columns of which equal values are the same bits: 0.0 equals -0.0, and a map equals nothing."""
    return frozenset(each.name for each in columns if sameness(each.type) is Sameness.BYTES)
