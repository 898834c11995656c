"""Point look-ups: of a table and its current indexes, the one that needs the fewest files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from anabranch.catalog.indexes import Index
from anabranch.errors import FileMissing
from anabranch.indexes.keep import current
from anabranch.lake.version import TableVersion
from anabranch.model import Bound, Columns, Reading
from anabranch.names import TableName
from anabranch.spark.tails import check_tails

VersionOf = Callable[[TableName], TableVersion | None]


def cheapest(
    table: TableVersion, indexes: Iterable[Index], bounds: Sequence[Bound], version_of: VersionOf
) -> tuple[Reading, Columns]:
    """The files that may hold a row within the bounds, and the columns to read of them."""
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
