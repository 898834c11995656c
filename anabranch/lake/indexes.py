"""Sorted copies of tables, and which version of its table a copy holds.

    current(copy, table, index)  =  the table's uuid and snapshot are those that the copy notes, and
                                    nobody but us has written its rows

A copy is read only where that is true, so an index that was left behind, by another program or another
version of Anabranch, is slow to use and never wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from anabranch.catalog.indexes import COPY_OF, Index, all_indexes
from anabranch.errors import FileMissing, Refused
from anabranch.lake.stage import Stage
from anabranch.lake.version import TableVersion
from anabranch.model import Bound, Columns, Reading
from anabranch.names import TableName, shown
from anabranch.spark.tails import check_tails

UUID = COPY_OF  # properties of the copy: which table, and which version of it
SNAPSHOT = "anabranch.index.snapshot"
SORTED_BY = "anabranch.index.columns"
Indexes = Mapping[TableName, tuple[Index, ...]]  # of each table
VersionOf = Callable[[TableName], TableVersion | None]


def current(copy: TableVersion, table: TableVersion, index: Index) -> bool:
    """Does the copy hold the rows of this very version of the table, sorted as the index says?"""
    same = all(copy.properties.get(key) == value for key, value in noted(table, index).items())
    return same and copy.ours and shape(copy.columns) == shape(table.columns)


def noted(table: TableVersion, index: Index) -> dict[str, str]:
    """What the copy says of itself."""
    return {
        UUID: str(table.metadata.table_uuid),
        SNAPSHOT: "" if table.snapshot_id is None else str(table.snapshot_id),
        SORTED_BY: json.dumps(index.columns),
    }


def shape(columns: Columns) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in columns]


def readable(copy: TableVersion) -> TableVersion:
    """The copy itself; raises FileMissing if its metadata is gone or damaged."""
    copy.state(copy.snapshot_id)
    return copy


def is_current(stage: Stage, index: Index) -> bool:
    """Whether a copy holds the rows of its table; one that cannot be read does not."""
    if not stage.exists(index.copy):
        return False
    table = stage.version(index.table)
    with suppress(FileMissing):
        return current(readable(stage.version(index.copy)), table, index)
    return False


def check_columns(index: Index, columns: Columns) -> None:
    known = [column.name.lower() for column in columns]
    for name in index.columns:
        if name.lower() not in known:
            raise Refused(
                f"index {shown(index.name)} of {index.table} needs its column {shown(name)}",
                hint=f"DROP INDEX {shown(index.name)} ON {index.table}",
            )


# -- what a publish takes along -----------------------------------------------------------------


@dataclass(frozen=True)
class Along:
    """The indexes that a publish brings along, and the tables whose rows in the catalog change."""

    indexes: tuple[Index, ...] = ()
    rows: Indexes = field(default_factory=dict)


def along(stage: Stage, declared: Indexes, there: Indexes | None = None) -> Along:
    """The indexes of every table that a stage changes; copies that nothing wants are dropped.

    `declared` are those that the work itself makes or drops, `there` those that the catalog has, where
    that is known.
    """
    changed = {*stage.changes, *declared}
    if not changed:
        return Along()
    if there is None:
        with stage.lake.store.reading() as c:
            there = all_indexes(c)
    rows, wanted = dict(declared), list[Index]()
    for table in sorted(changed):
        known = there.get(table, ())
        if not stage.exists(table) and (table in rows or known):
            rows[table] = ()
        kept = rows.get(table, known)
        for copy in sorted({each.copy for each in known} - {each.copy for each in kept}):
            if stage.exists(copy):
                stage.drop(copy)
        wanted += kept
    return Along(tuple(wanted), rows)


# -- look-ups ------------------------------------------------------------------------------------


def cheapest(
    table: TableVersion, indexes: Iterable[Index], bounds: Sequence[Bound], version_of: VersionOf
) -> tuple[Reading, Columns]:
    """The files that may hold a row within the bounds, and the columns to read of them: of the table
    or of a current index, whichever needs the fewest."""
    asked = {bound.column.lower() for bound in bounds}
    found = [(table.reading(prune=bounds), table.columns)]
    for index in indexes:
        if index.columns[0].lower() not in asked:
            continue
        with suppress(FileMissing):  # the table has the same rows; upkeep makes the copy again
            copy = version_of(index.copy)
            if copy is not None and current(copy, table, index):
                reading = copy.reading(prune=bounds)
                check_tails(reading)
                found.append((reading, copy.columns))
    return min(found, key=lambda each: (len(each[0].files) + len(each[0].skip), each[0].bytes))
