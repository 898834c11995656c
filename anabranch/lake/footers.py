"""Parquet files as Iceberg's manifests describe them; only footers are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import StatsAggregator
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from pyiceberg.utils.decimal import unscaled_to_decimal

from anabranch.errors import InternalError
from anabranch.model import FILE_PATH_ID, FIRST_HIDDEN_ID, POSITION_ID
from anabranch.spark.tails import summed

THREADS = 8
BOUND_LENGTH = 16  # Iceberg's default: longer texts are cut in bounds
MAGIC = 4  # bytes before the first page
# The checksum of a file's tail goes along with its manifest entry as the size of a column that no
# table has: readers look sizes up by the ids of their columns, and whoever copies entries copies it.
TAIL_ID = FIRST_HIDDEN_ID - 1
_FIELD_ID = b"PARQUET:field_id"


def data_files(io: FileIO, schema: Schema, paths: Sequence[str]) -> list[DataFile]:
    """Files with rows; empty ones are left out."""
    read = (_data_file(io, schema, path, footer) for path, footer in _footers(io, paths))
    return [file for file in read if file.record_count]


def delete_files(io: FileIO, paths: Sequence[str]) -> list[DataFile]:
    """Position delete files; the bounds of `file_path` are kept whole, readers plan by them."""
    read = (_delete_file(path, footer) for path, footer in _footers(io, paths))
    return [file for file in read if file.record_count]


def counts(io: FileIO, paths: Sequence[str]) -> dict[str, tuple[int, int, int]]:
    """Rows, bytes and the checksum of the tail of each file that has rows."""
    return {
        path: (footer.num_rows, size, tail)
        for path, (footer, size, tail) in _footers(io, paths)
        if footer.num_rows
    }


def tail_of(file: DataFile) -> int | None:
    """The checksum of a file's tail, if its writer was one of ours."""
    return (file.column_sizes or {}).get(TAIL_ID)


def tail_in(data: bytes) -> int:
    """The checksum of the tail of a file that is at hand."""
    return summed(data[_end_of_pages(pq.read_metadata(pa.BufferReader(data))) :])


def ranges(io: FileIO, path: str) -> dict[int, list[Range | None]]:
    """By field id, for each row group: least and greatest value, and whether there are NULLs; None
    where the file does not tell."""
    ((_, (footer, _, _)),) = _footers(io, [path])
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    return {
        field_id: [_range(group.column(at)) for group in groups]
        for field_id, at in _flat_columns(footer)
    }


def _range(column: Any) -> Range | None:
    stats = column.statistics if column.is_stats_set else None
    if stats is None or not stats.has_null_count:
        return None
    try:
        if stats.has_min_max:
            return stats.min, stats.max, stats.null_count > 0
    except (ValueError, OverflowError, pa.ArrowNotImplementedError):
        return None  # a day that Python has no date for, a type without order
    return (None, None, True) if stats.null_count == column.num_values else None


Range = tuple[Any, Any, bool]
Footer = tuple[pq.FileMetaData, int, int]  # with the file's length and its tail's checksum


def _footers(io: FileIO, paths: Sequence[str]) -> Iterator[tuple[str, Footer]]:
    def read(path: str) -> Footer:
        file = io.new_input(path)
        with file.open() as stream:
            footer, size = pq.read_metadata(stream), len(file)
            start = _end_of_pages(footer)
            stream.seek(start)
            return footer, size, summed(stream.read(size - start))

    if len(paths) <= 2:
        yield from ((path, read(path)) for path in paths)
        return
    with ThreadPoolExecutor(THREADS) as pool:
        yield from zip(paths, pool.map(read, paths), strict=True)


def schema_of(io: FileIO, path: str) -> pa.Schema:
    """The columns of a file, as it names them; ids stand in their metadata."""
    with io.new_input(path).open() as stream:
        return pq.read_schema(stream)


def _end_of_pages(footer: pq.FileMetaData) -> int:
    """Where the tail begins: page indexes, filters and the footer."""
    ends = [MAGIC]
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            start, dictionary = column.data_page_offset, column.dictionary_page_offset
            first = min(start, dictionary) if dictionary is not None else start
            ends.append(first + column.total_compressed_size)
    return max(ends)


def _data_file(io: FileIO, schema: Schema, path: str, read: Footer) -> DataFile:
    footer, size, tail = read
    types = {each.field_id: each.field_type for each in schema.fields}
    flat = {field_id: at for field_id, at in _flat_columns(footer) if field_id in types}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    nulls: dict[int, int] = {}
    for field_id, at in flat.items():
        kind = types[field_id]
        if not isinstance(kind, PrimitiveType):
            continue
        low, high, missing = _column_bounds(footer, at, kind, BOUND_LENGTH)
        if low is not None and high is not None:
            lower[field_id], upper[field_id] = low, high
        if missing is not None:
            nulls[field_id] = missing
    return _file(
        DataFileContent.DATA,
        path,
        footer,
        size,
        column_sizes={
            field_id: sum(
                footer.row_group(group).column(at).total_compressed_size
                for group in range(footer.num_row_groups)
            )
            for field_id, at in flat.items()
        }
        | {TAIL_ID: tail},
        value_counts=dict.fromkeys(flat, footer.num_rows),
        null_value_counts=nulls,
        lower_bounds=lower,
        upper_bounds=upper,
    )


def _delete_file(path: str, read: Footer) -> DataFile:
    footer, size, tail = read
    flat = dict(_flat_columns(footer))
    if not {FILE_PATH_ID, POSITION_ID} <= flat.keys():
        raise InternalError(f"{path} is not a position delete file")
    low, high, _ = _column_bounds(footer, flat[FILE_PATH_ID], StringType(), None)
    bounds: dict[str, Any] = {}
    if low is not None and high is not None:
        bounds = {"lower_bounds": {FILE_PATH_ID: low}, "upper_bounds": {FILE_PATH_ID: high}}
    bounds["column_sizes"] = {TAIL_ID: tail}
    return _file(DataFileContent.POSITION_DELETES, path, footer, size, **bounds)


def _file(
    content: DataFileContent, path: str, footer: pq.FileMetaData, size: int, **stats: Any
) -> DataFile:
    file = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=footer.num_rows,
        file_size_in_bytes=size,
        split_offsets=_split_offsets(footer),
        **stats,
    )
    file.spec_id = 0
    return file


def _flat_columns(footer: pq.FileMetaData) -> Iterator[tuple[int, int]]:
    """Field id and place of every column that is not nested.

    Places are counted, not looked up by name: a column `a.b` and a field `b` of `a` look alike.
    """
    at = 0
    for field in footer.schema.to_arrow_schema():
        leaves = _leaves(field.type)
        field_id = (field.metadata or {}).get(_FIELD_ID)
        if leaves == 1 and not pa.types.is_nested(field.type) and field_id is not None:
            yield int(field_id), at
        at += leaves


def _leaves(kind: pa.DataType) -> int:
    if pa.types.is_nested(kind):
        return sum(_leaves(kind.field(at).type) for at in range(kind.num_fields))
    return 1


def _column_bounds(
    footer: pq.FileMetaData, at: int, kind: PrimitiveType, length: int | None
) -> tuple[bytes | None, bytes | None, int | None]:
    """Least and greatest value and number of NULLs, as far as every row group tells them."""
    cut = length if isinstance(kind, (StringType, BinaryType)) else None
    missing: int | None = 0
    bounds: StatsAggregator | None = None
    known = True
    for group in range(footer.num_row_groups):
        column = footer.row_group(group).column(at)
        stats = column.statistics if column.is_stats_set else None
        if stats is None or not stats.has_null_count:
            missing = None
        elif missing is not None:
            missing += stats.null_count
        if stats is None or not stats.has_min_max:
            known = known and stats is not None and stats.null_count == column.num_values
            continue
        try:
            bounds = bounds or StatsAggregator(kind, stats.physical_type, cut)
            bounds.update_min(_value(kind, stats, stats.min_raw, lambda stats=stats: stats.min))
            bounds.update_max(_value(kind, stats, stats.max_raw, lambda stats=stats: stats.max))
        except (ValueError, TypeError, OverflowError, pa.ArrowNotImplementedError):
            known = False
    if not known or bounds is None:
        return None, None, missing
    return bounds.min_as_bytes(), bounds.max_as_bytes(), missing


def _value(kind: PrimitiveType, stats: Any, raw: Any, decoded: Any) -> Any:
    if isinstance(kind, DecimalType) and stats.physical_type != "FIXED_LEN_BYTE_ARRAY":
        return unscaled_to_decimal(raw, kind.scale)
    # Python has no dates outside of the years 1 to 9999; Spark and Iceberg do.
    if isinstance(kind, DateType) and stats.physical_type == "INT32":
        return raw
    if isinstance(kind, (TimestampType, TimestamptzType)) and _is_in_micros(stats):
        return raw
    return decoded()


def _is_in_micros(stats: Any) -> bool:
    return stats.physical_type == "INT64" and "microseconds" in str(stats.logical_type)


def _split_offsets(footer: pq.FileMetaData) -> list[int]:
    offsets = []
    for group in range(footer.num_row_groups):
        column = footer.row_group(group).column(0)
        start, dictionary = column.data_page_offset, column.dictionary_page_offset
        offsets.append(min(start, dictionary) if dictionary is not None else start)
    return sorted(offsets)
