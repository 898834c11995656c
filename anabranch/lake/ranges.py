"""Where the values of columns lie, as footers and manifests tell it: no row is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from anabranch.cache import Cache
from anabranch.lake.footers import THREADS, Range, ranges
from anabranch.model import Bound, RangeSet, joined
from anabranch.plan.statistics import ColumnRange, FileStatistics

INTEGER, DATE = "integer", "date"
MOST_FILES = 64  # of a change; more of them are not opened
_FIRST_DAY = date(1970, 1, 1).toordinal()
_footers: Cache[Mapping[int, Sequence[Range | None]]] = Cache(1024, "footers")


def kind_of(field: NestedField) -> str | None:
    """The kind of ranges that the values of a column can have."""
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
            {field.name: column_range(each.data_file, field) for field in fields},
        )
        for each in files
    )


def column_range(file: DataFile, field: NestedField) -> ColumnRange:
    """Where the values of a column of a file lie, in the numbers and texts that Iceberg stores."""
    nulls = (file.null_value_counts or {}).get(field.field_id)
    return ColumnRange(
        _bound(file.lower_bounds, field),
        _bound(file.upper_bounds, field),
        nulls=nulls != 0,
        only_nulls=nulls is not None and nulls == (file.value_counts or {}).get(field.field_id),
    )


def _bound(bounds: dict[int, bytes] | None, field: NestedField) -> Any | None:
    """An end of the values; None if it is not told, or told in a form that the type does not have."""
    found = (bounds or {}).get(field.field_id)
    kind = field.field_type
    if found is None or not isinstance(kind, PrimitiveType) or not _has_form(found, kind):
        return None
    if isinstance(kind, LongType) and len(found) == 4:
        return from_bytes(IntegerType(), found)  # the column was widened since
    try:
        return from_bytes(kind, found)
    except UnicodeDecodeError:  # a text that was cut inside of a character
        return None


def _has_form(value: bytes, kind: PrimitiveType) -> bool:
    if isinstance(kind, (StringType, BinaryType, FixedType)):
        return True
    if isinstance(kind, DecimalType):
        return 0 < len(value) <= 16
    lengths = next((each for types, each in _LENGTHS if isinstance(kind, types)), ())
    return len(value) in lengths


_LENGTHS: tuple[tuple[tuple[type[IcebergType], ...], tuple[int, ...]], ...] = (
    ((BooleanType,), (1,)),
    ((IntegerType, DateType), (4,)),
    ((LongType,), (4, 8)),
    ((TimestampType, TimestamptzType), (8,)),
)


def stored_value(value: object, field: NestedField) -> Any | None:
    """A value of Python as Iceberg stores those of a column, to compare with the ends of a file; None
    if the column has no such values."""
    kind = field.field_type
    if isinstance(value, datetime):
        wanted = TimestamptzType if value.tzinfo is not None else TimestampType
        if not isinstance(kind, wanted):
            return None
        first = datetime(1970, 1, 1, tzinfo=timezone.utc if value.tzinfo is not None else None)
        return (value - first) // timedelta(microseconds=1)
    if isinstance(value, date):
        return _number(value) if isinstance(kind, DateType) else None
    if isinstance(value, bool):
        return value if isinstance(kind, BooleanType) else None
    fits = any(isinstance(value, types) and isinstance(kind, kinds) for types, kinds in _COMPARABLE)
    return value if fits else None


_COMPARABLE: tuple[tuple[type | tuple[type, ...], tuple[type[IcebergType], ...]], ...] = (
    (int, (IntegerType, LongType)),
    ((int, Decimal), (DecimalType,)),
    (str, (StringType,)),
    (bytes, (BinaryType, FixedType)),
)


# -- files that can be left out --------------------------------------------------------------------

Comparison = tuple[NestedField, str, tuple[Any, ...]]


def pruned(
    schema: Schema, files: Sequence[ManifestEntry], bounds: Sequence[Bound]
) -> list[ManifestEntry]:
    """Files that may hold a row for which all bounds are true."""
    wanted = [found for bound in bounds if (found := _comparison(schema, bound)) is not None]
    return [each for each in files if _may_match(each, wanted)]


def _may_match(entry: ManifestEntry, wanted: Sequence[Comparison]) -> bool:
    file = entry.data_file
    ranges = ((column_range(file, field), op, values) for field, op, values in wanted)
    return all(each.may_satisfy(op, values) for each, op, values in ranges)


def _comparison(schema: Schema, bound: Bound) -> Comparison | None:
    """What a bound asks of a column, in the form that ends of files have; None if that cannot be
    compared.  Of floating point nothing can: Spark puts NaN above all numbers, statistics leave it
    out."""
    column = _column(schema, bound.column)
    if column is None:
        return None
    values = tuple(stored_value(value, column) for value in bound.values)
    if bound.op != "null" and (not values or None in values):
        return None
    return column, bound.op, values


def _column(schema: Schema, name: str) -> NestedField | None:
    exact = [each for each in schema.fields if each.name == name]
    alike = [each for each in schema.fields if each.name.lower() == name.lower()]
    found = exact or alike
    return found[0] if len(found) == 1 else None
