"""Files that another program imported into a table: without field ids, or without partition columns.

Iceberg reads a file without ids by the table's name mapping, and a column of an identity partition that
a file lacks from the partition's value: what Hive left in the name of a folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntry
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
)

from anabranch.cache import Cache
from anabranch.errors import Unsupported
from anabranch.lake.footers import THREADS, schema_of

MAPPING = "schema.name-mapping.default"
_ID = b"PARQUET:field_id"
_EPOCH = date(1970, 1, 1)
_PLAIN = (BooleanType, DateType, DecimalType, IntegerType, LongType, StringType)
_known: Cache[pa.Schema] = Cache(10_000, "schemas of imported files", of_files=True)


def names_of(
    io: FileIO, metadata: TableMetadata, paths: Sequence[str], table: object
) -> dict[str, dict[int, str]]:
    """By path, what the columns of files without ids are called, by field id."""
    text = metadata.properties.get(MAPPING)
    if text is None or not paths:
        return {}
    mapping = parse_mapping_from_json(text)
    names = {}
    for path, schema in _schemas(io, paths):
        if not any(_has_id(field) for field in schema):
            names[path] = _named(mapping, metadata.schema(), schema, table)
    return names


def _schemas(io: FileIO, paths: Sequence[str]) -> Iterator[tuple[str, pa.Schema]]:
    """Footers are read once, side by side."""

    def read(path: str) -> pa.Schema:
        return _known.get(path, lambda: schema_of(io, path))

    with ThreadPoolExecutor(THREADS) as pool:
        yield from zip(paths, pool.map(read, paths), strict=True)


def _has_id(field: pa.Field) -> bool:
    if field.metadata is not None and _ID in field.metadata:
        return True
    return any(_has_id(field.type.field(at)) for at in range(field.type.num_fields))


def _named(mapping: NameMapping, now: Schema, file: pa.Schema, table: object) -> dict[int, str]:
    ids = {name: each.field_id for each in mapping for name in each.names}
    fields = {each.field_id: each for each in now.fields}
    names = {}
    for field in file:
        field_id = ids.get(field.name)
        if field_id is None:
            continue
        names[field_id] = field.name
        if field_id in fields and not _inner(field.type) <= _names_in(fields[field_id]):
            raise Unsupported(
                f"table {table} has files without field ids, and a field inside column "
                f"{fields[field_id].name} was renamed or dropped since",
                hint="rewrite the table with Iceberg, so that its files carry ids",
            )
    return names


def _inner(kind: pa.DataType) -> set[str]:
    """Names of struct fields at any depth; lists and maps name theirs as they like."""
    own = {each.name for each in kind} if pa.types.is_struct(kind) else set()
    return own.union(*(_inner(kind.field(at).type) for at in range(kind.num_fields)))


def _names_in(field: NestedField) -> set[str]:
    return {part for name in Schema(field).column_names for part in name.split(".")}


def constants_of(
    metadata: TableMetadata, files: Sequence[ManifestEntry], table: object
) -> dict[str, dict[int, str | None]]:
    """By path, the values of partition columns that a file does not hold, by field id."""
    specs = {
        spec_id: sources
        for spec_id, spec in metadata.specs().items()
        if (sources := _identities(spec))
    }
    if not specs:
        return {}
    fields = {each.field_id: each for s in metadata.schemas for each in s.fields}
    constants: dict[str, dict[int, str | None]] = {}
    for entry in files:
        file = entry.data_file
        if not file.column_sizes:
            continue  # not told: whoever wrote it with Iceberg wrote all columns
        for at, source in specs.get(file.spec_id, ()):
            if source not in file.column_sizes and source in fields:
                value = _text(fields[source], file.partition[at], table)
                constants.setdefault(file.file_path, {})[source] = value
    return constants


def _identities(spec: PartitionSpec) -> list[tuple[int, int]]:
    return [
        (at, each.source_id)
        for at, each in enumerate(spec.fields)
        if isinstance(each.transform, IdentityTransform)
    ]


def _text(field: NestedField, value: Any, table: object) -> str | None:
    if value is None:
        return None
    if not isinstance(field.field_type, _PLAIN):
        raise Unsupported(
            f"table {table} has files without their partition column {field.name}, of type "
            f"{field.field_type}",
            hint="rewrite it with Iceberg",
        )
    if isinstance(field.field_type, DateType) and isinstance(value, int):
        return (_EPOCH + timedelta(days=value)).isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)
