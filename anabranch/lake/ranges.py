"""Where the values of columns lie, as footers and manifests tell it: no row is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, IntegerType, LongType, NestedField

from anabranch.cache import Cache
from anabranch.lake.footers import THREADS, Range, ranges
from anabranch.model import RangeSet, joined
from anabranch.plan.statistics import ColumnRange, FileStatistics

INTEGER, DATE = "integer", "date"
MOST_FILES = 64  # of a change; more of them are not opened
_FIRST_DAY = date(1970, 1, 1).toordinal()
_footers: Cache[Mapping[int, Sequence[Range | None]]] = Cache(1024, "footers")


def kind_of(field: NestedField) -> str | None:
    """The kind of spans that the values of a column can have."""
    if isinstance(field.field_type, (IntegerType, LongType)):
        return INTEGER
    return DATE if isinstance(field.field_type, DateType) else None


def in_files(io: FileIO, paths: Sequence[str], field: NestedField) -> RangeSet | None:
    """Where the values of a column lie in some files; None if that takes reading them."""
    kind = kind_of(field)
    if kind is None or not 0 < len(paths) <= MOST_FILES:
        return None
    total = RangeSet(kind, ())
    for found in _told_by(io, paths):
        told = found.get(field.field_id)
        if not told or None in told:
            return None
        known = [each for each in told if each is not None]
        ends = [(low, high) for low, high, _ in known if low is not None]
        total |= RangeSet(
            kind,
            joined((_number(low), _number(high)) for low, high in ends),
            any(nulls for _, _, nulls in known),
        )
    return total


def _told_by(io: FileIO, paths: Sequence[str]) -> list[Mapping[int, Sequence[Range | None]]]:
    """What footers tell, each read once.  Of one that cannot be read nothing is known: whoever reads
    the file will say why."""

    def told(path: str) -> Mapping[int, Sequence[Range | None]]:
        try:
            return _footers.get(path, partial(ranges, io, path))
        except (OSError, ValueError):
            return {}

    if len(paths) <= 2:
        return [told(path) for path in paths]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(told, paths))


def _number(value: Any) -> int:
    return value.toordinal() - _FIRST_DAY if isinstance(value, date) else int(value)


def file_statistics(
    schema: Schema, files: Sequence[ManifestEntry], names: Iterable[str]
) -> tuple[FileStatistics, ...]:
    """What manifests tell of some columns of files."""
    wanted = frozenset(names)
    fields = [field for field in schema.fields if field.name in wanted]
    return tuple(
        FileStatistics(
            each.data_file.record_count,
            {field.name: _range(each.data_file, field) for field in fields},
        )
        for each in files
    )


def _range(file: DataFile, field: NestedField) -> ColumnRange:
    return ColumnRange(
        _bound(file.lower_bounds, field),
        _bound(file.upper_bounds, field),
        (file.null_value_counts or {}).get(field.field_id) != 0,
    )


def _bound(bounds: dict[int, bytes] | None, field: NestedField) -> int | None:
    value = (bounds or {}).get(field.field_id)
    if value is None:
        return None
    if len(value) == 4:  # also of a column that was widened since
        return int(from_bytes(IntegerType(), value))
    return int(from_bytes(LongType(), value)) if len(value) == 8 else None
