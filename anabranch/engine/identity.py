"""When two rows are the same row: NULL is NULL, 0.0 is -0.0, maps are sets of entries.

Expressions are SQL text: a frame takes a list of texts at once, where every step of a column that is
put together from objects is a call into the JVM.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from anabranch.engine.types import is_complex, parse_type, parts, sql_type, struct
from anabranch.model import Column, Columns
from anabranch.names import quote

HASHES = (Column("_ab_h1", "bigint", True), Column("_ab_h2", "bigint", True))
KEY = "_ab_key"
_SALTS = (7163, 9241)


def hashable(columns: Columns) -> bool:
    """Whether rows are told apart by a stored hash; rows with nested columns are compared."""
    return not any(is_complex(parse_type(column.type)) for column in columns)


def row_hash(columns: Columns) -> tuple[str, ...]:
    """`_ab_h1, _ab_h2`: 128 bits of all columns.  A change of a column's type changes them."""
    values = ", ".join(part for column in columns for part in hashed(column))
    return tuple(
        f"xxhash64({salt}, {values}) AS {column.name}"
        for salt, column in zip(_SALTS, HASHES, strict=True)
    )


def hashed(column: Column) -> list[str]:
    """xxhash64 passes over NULL, so (NULL, 5) and (5, NULL) differ only by the flags."""
    value = quote(column.name)
    if isinstance(parse_type(column.type), (T.FloatType, T.DoubleType)):
        zero = f"CAST(0 AS {sql_type(column.type)})"
        return [f"CASE WHEN {value} = 0 THEN {zero} ELSE {value} END", f"{value} IS NULL"]
    return [value, f"{value} IS NULL"]


def canonical(value: str, type_: T.DataType, depth: int = 0) -> str:
    """The value in a form that Spark can group by and compare: maps as sorted entries."""
    if not any(isinstance(part, T.MapType) for part in parts(type_)):
        return value
    item = f"_ab_e{depth}"
    if isinstance(type_, T.ArrayType):
        return f"transform({value}, {item} -> {canonical(item, type_.elementType, depth + 1)})"
    if isinstance(type_, T.MapType):
        key = canonical(f"{item}.key", type_.keyType, depth + 1)
        held = canonical(f"{item}.value", type_.valueType, depth + 1)
        entries = (
            f"transform(map_entries({value}), {item} -> struct({key} AS key, {held} AS value))"
        )
        return f"sort_array({entries})"
    assert isinstance(type_, T.StructType)
    fields = ", ".join(
        f"{canonical(f'{value}.{quote(field.name)}', field.dataType, depth)} AS {quote(field.name)}"
        for field in type_
    )
    return f"CASE WHEN {value} IS NOT NULL THEN struct({fields}) END"


def row_key(columns: Columns) -> str:
    return whole_key(struct(columns))


def whole_key(schema: T.StructType) -> str:
    """All columns as one value that is never NULL and equal for equal rows."""
    values = ", ".join(
        f"{canonical(quote(field.name), field.dataType)} AS c{at}"
        for at, field in enumerate(schema)
    )
    return f"struct({values}) AS {KEY}"


def same(left: Sequence[str], right: Sequence[str]) -> str:
    """NULL-safe equality of two lists of expressions."""
    pairs = zip(left, right, strict=True)
    return " AND ".join(f"{one} <=> {other}" for one, other in pairs) or "TRUE"


def typed(df: DataFrame, columns: Columns, *more: str) -> DataFrame:
    """The columns in their stored types (a hash of 5 INT is not one of 5 BIGINT), then `more`."""
    return df.selectExpr(*(cast(column) for column in columns), *more)


def cast(column: Column, value: str | None = None) -> str:
    """A value, by default the column's own, in the type and under the name of the column."""
    name = quote(column.name)
    return f"CAST({name if value is None else value} AS {sql_type(column.type)}) AS {name}"
