"""Arrow tables, and what speaks Arrow, with types that Spark takes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from anabranch.errors import InvalidValue
from anabranch.lazy import lazy
from anabranch.model import Columns
from anabranch.spark.types import parse_type

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")


def as_arrow(rows: Any, columns: Columns) -> Any:
    """An Arrow table with types that Spark takes, or None if this is nothing of Arrow's.

    `columns` are those of the table that the rows are for: a dict of pandas may be a map or a struct.
    """
    if is_pandas(rows):
        table = from_pandas(rows, columns)
    elif hasattr(rows, "__arrow_c_stream__"):  # Arrow itself, Polars, DuckDB and others
        table = pa.table(rows)
    else:
        table = from_batches(rows)
    return None if table is None else with_plain_types(table)


def from_batches(rows: Any) -> Any:
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(rows, arrow.RecordBatch):
        return arrow.Table.from_batches([rows])
    return None


def is_pandas(rows: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(rows, pandas.DataFrame)


def from_pandas(rows: Any, columns: Columns) -> Any:
    """Dicts are read as maps where the table has a map, and as structs elsewhere."""
    targets = {column.name.lower(): parse_type(column.type) for column in columns}
    as_maps = {
        name: target
        for name in rows.columns
        if (target := targets.get(str(name).lower())) is not None and holds_map(target)
    }
    others = rows[[name for name in rows.columns if name not in as_maps]]
    table = pa.Table.from_pandas(others, preserve_index=False)
    for name, target in as_maps.items():
        values = pa.array(rows[name], type=arrow_type(target), from_pandas=True)
        table = table.append_column(str(name), values)
    return table


def holds_map(type_: T.DataType) -> bool:
    if isinstance(type_, T.ArrayType):
        return holds_map(type_.elementType)
    if isinstance(type_, T.StructType):
        return any(holds_map(field.dataType) for field in type_)
    return isinstance(type_, T.MapType)


def arrow_type(type_: T.DataType) -> Any:
    """The Arrow type of a column of Spark."""
    if isinstance(type_, T.ArrayType):
        return pa.list_(arrow_type(type_.elementType))
    if isinstance(type_, T.MapType):
        return pa.map_(arrow_type(type_.keyType), arrow_type(type_.valueType))
    if isinstance(type_, T.StructType):
        return pa.struct([(field.name, arrow_type(field.dataType)) for field in type_])
    if isinstance(type_, T.DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, T.TimestampType):
        return pa.timestamp("us", tz="UTC")
    if isinstance(type_, T.TimestampNTZType):
        return pa.timestamp("us")
    return {
        "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(),
        "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(),
        "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    }[type_.simpleString()]  # fmt: skip


def with_plain_types(table: Any) -> Any:
    plain = pa.schema([pa.field(field.name, plain_type(field)) for field in table.schema])
    if plain.equals(pa.schema([pa.field(field.name, field.type) for field in table.schema])):
        return table
    try:
        return table.cast(plain)
    except pa.ArrowInvalid as error:
        raise InvalidValue(f"the rows do not fit a table: {error}") from None


def plain_type(field: Any) -> Any:
    """The nearest type that Spark takes; `field` is named when there is none."""

    def plain(type_: Any) -> Any:
        kind = pa.types
        if isinstance(type_, pa.BaseExtensionType):
            return plain(type_.storage_type)
        if kind.is_dictionary(type_):
            return plain(type_.value_type)
        if kind.is_struct(type_):
            return pa.struct([inner.with_type(plain(inner.type)) for inner in type_])
        if kind.is_map(type_):
            return pa.map_(plain(type_.key_type), plain(type_.item_type))
        if kind.is_nested(type_) and not kind.is_union(type_):
            return pa.list_(plain(type_.value_type))
        if kind.is_time(type_) or kind.is_interval(type_) or kind.is_union(type_):
            raise InvalidValue(
                f'column "{field.name}" has the Arrow type {field.type}, which no table can hold',
                hint="cast it to another type, or leave it out",
            )
        return _nearest(type_)

    return plain(field.type)


def _nearest(type_: Any) -> Any:
    kind = pa.types
    if kind.is_uint64(type_):
        return pa.decimal128(20, 0)
    if kind.is_decimal256(type_):
        return pa.decimal128(min(type_.precision, 38), type_.scale)
    if kind.is_date64(type_):
        return pa.date32()
    if kind.is_float16(type_):
        return pa.float32()
    if kind.is_string_view(type_):
        return pa.string()
    return pa.binary() if kind.is_binary_view(type_) else type_
