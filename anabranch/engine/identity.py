"""When two rows are the same row: NULL is NULL, 0.0 is -0.0, maps are sets of entries."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from anabranch.engine.types import is_complex, parse_type, parts, struct
from anabranch.model import Column, Columns
from anabranch.names import quote

HASHES = (Column("_ab_h1", "bigint", True), Column("_ab_h2", "bigint", True))
KEY = "_ab_key"
_SALTS = (7163, 9241)


def hashable(columns: Columns) -> bool:
    """Whether rows are told apart by a stored hash; rows with nested columns are compared."""
    return not any(is_complex(parse_type(column.type)) for column in columns)


def row_hash(columns: Columns) -> tuple[SparkColumn, SparkColumn]:
    """`_ab_h1, _ab_h2`: 128 bits of all columns.  A change of a column's type changes them."""
    values = [part for column in columns for part in hashed(column)]
    first, second = (
        F.xxhash64(F.lit(salt), *values).alias(column.name)
        for salt, column in zip(_SALTS, HASHES, strict=True)
    )
    return first, second


def hashed(column: Column) -> list[SparkColumn]:
    """xxhash64 passes over NULL, so (NULL, 5) and (5, NULL) differ only by the flags."""
    value = F.col(quote(column.name))
    if isinstance(parse_type(column.type), (T.FloatType, T.DoubleType)):
        return [F.when(value == 0, F.lit(0).cast(column.type)).otherwise(value), value.isNull()]
    return [value, value.isNull()]


def canonical(value: SparkColumn, type_: T.DataType) -> SparkColumn:
    """The value in a form that Spark can group by and compare: maps as sorted entries."""
    if not any(isinstance(part, T.MapType) for part in parts(type_)):
        return value
    if isinstance(type_, T.ArrayType):
        element = type_.elementType
        return F.transform(value, lambda item: canonical(item, element))
    if isinstance(type_, T.MapType):
        return F.sort_array(F.transform(F.map_entries(value), lambda item: entry(item, type_)))
    assert isinstance(type_, T.StructType)
    fields = [
        canonical(value.getField(field.name), field.dataType).alias(field.name) for field in type_
    ]
    return F.when(value.isNotNull(), F.struct(*fields))


def entry(item: SparkColumn, type_: T.MapType) -> SparkColumn:
    key = canonical(item.getField("key"), type_.keyType)
    return F.struct(
        key.alias("key"), canonical(item.getField("value"), type_.valueType).alias("value")
    )


def row_key(columns: Columns) -> SparkColumn:
    return whole_key(struct(columns))


def whole_key(schema: T.StructType) -> SparkColumn:
    """All columns as one value that is never NULL and equal for equal rows."""
    values = [
        canonical(F.col(quote(field.name)), field.dataType).alias(f"c{at}")
        for at, field in enumerate(schema)
    ]
    return F.struct(*values).alias(KEY)


def same_key(left: Sequence[SparkColumn], right: Sequence[SparkColumn]) -> SparkColumn:
    """NULL-safe equality of two lists of columns."""
    met = F.lit(True)
    for one, other in zip(left, right, strict=True):
        met = met & one.eqNullSafe(other)
    return met


def typed(df: DataFrame, columns: Columns, *more: str) -> DataFrame:
    """The columns in their stored types (a hash of 5 INT is not one of 5 BIGINT), then `more`."""
    chosen = [
        F.col(quote(column.name)).cast(parse_type(column.type)).alias(column.name)
        for column in columns
    ]
    return df.select(*chosen, *more)
