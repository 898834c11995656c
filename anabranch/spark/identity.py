"""When two rows are the same row: when they agree byte by byte.  NULL is NULL and NaN is NaN.

What Spark calls equal may differ: 0.0 and -0.0, texts with a collation, maps whose entries come in
another order.  A row that goes must be found among such rows: rows are looked up by what is equal,
and told apart by `EXACT`.

Expressions are SQL text: a frame takes a list of texts at once, where every step of a column that is
put together from objects is a call into the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from anabranch.model import FIRST_HIDDEN_ID, Column, Columns
from anabranch.names import quote
from anabranch.spark.types import is_collated, is_complex, parse_type, parts, sql_type, struct

HASHES = (Column("_ab_h1", "bigint", True), Column("_ab_h2", "bigint", True))
KEY, EXACT = "_ab_key", "_ab_exact"
_SALTS = (7163, 9241)


def hashable(columns: Columns) -> bool:
    """Whether rows are told apart by a stored hash; rows with nested columns are compared."""
    return not any(is_complex(parse_type(column.type)) for column in columns)


def hidden_hashes(columns: Columns) -> Columns:
    """The hash by which a stored row is found again, as hidden columns of its table."""
    own = HASHES if hashable(columns) else ()
    return tuple(replace(column, field_id=FIRST_HIDDEN_ID + at) for at, column in enumerate(own))


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
    if isinstance(parse_type(column.type), FLOATS):
        zero = f"CAST(0 AS {sql_type(column.type)})"
        return [f"CASE WHEN {value} = 0 THEN {zero} ELSE {value} END", f"{value} IS NULL"]
    return [value, f"{value} IS NULL"]


FLOATS = (T.FloatType, T.DoubleType)


def is_minus_zero(value: str) -> str:
    return f"({value} = 0 AND CAST({value} AS STRING) LIKE '-%')"


def loose(columns: Columns) -> Columns:
    """Columns in which values that are equal may differ."""
    return tuple(
        column for column in columns if any(map(_is_loose, parts(parse_type(column.type))))
    )


def _is_loose(type_: T.DataType) -> bool:
    return isinstance(type_, (T.MapType, *FLOATS)) or is_collated(type_)


def exactly(columns: Columns) -> str:
    """`_ab_exact`: what tells rows apart that are equal."""
    values = (
        f"{exact(quote(c.name), parse_type(c.type))} AS c{at}" for at, c in enumerate(columns)
    )
    return f"struct({', '.join(values)}) AS {EXACT}"


def equal(value: str, type_: T.DataType, depth: int = 0) -> str:
    """The value in a form that Spark can group by and compare: maps as sorted entries."""
    if not any(isinstance(part, T.MapType) for part in parts(type_)):
        return value
    return _inside(value, type_, depth, equal)


def exact(value: str, type_: T.DataType, depth: int = 0) -> str:
    """The same, in a form that differs where bytes do."""
    if isinstance(type_, FLOATS):
        return f"CASE WHEN {value} IS NOT NULL THEN struct({value}, {is_minus_zero(value)}) END"
    if is_collated(type_):
        return f"CAST({value} AS STRING)"
    if not any(map(_is_loose, parts(type_))):
        return value
    return _inside(value, type_, depth, exact)


Form = Callable[[str, T.DataType, int], str]


def _inside(value: str, type_: T.DataType, depth: int, form: Form) -> str:
    item = f"_ab_e{depth}"
    if isinstance(type_, T.ArrayType):
        return f"transform({value}, {item} -> {form(item, type_.elementType, depth + 1)})"
    if isinstance(type_, T.MapType):
        key = form(f"{item}.key", type_.keyType, depth + 1)
        held = form(f"{item}.value", type_.valueType, depth + 1)
        entries = (
            f"transform(map_entries({value}), {item} -> struct({key} AS key, {held} AS value))"
        )
        return f"sort_array({entries})" if form is equal else entries
    assert isinstance(type_, T.StructType)
    fields = ", ".join(
        f"{form(f'{value}.{quote(field.name)}', field.dataType, depth)} AS {quote(field.name)}"
        for field in type_
    )
    return f"CASE WHEN {value} IS NOT NULL THEN struct({fields}) END"


def equal_key(columns: Columns) -> str:
    """All columns as one value that is never NULL and equal for equal rows."""
    return _key(struct(columns), equal)


def exact_key(schema: T.StructType) -> str:
    """All columns as one value that is never NULL and equal for rows that are the same."""
    return _key(schema, exact)


def _key(schema: T.StructType, form: Form) -> str:
    values = ", ".join(
        f"{form(quote(field.name), field.dataType, 0)} AS c{at}" for at, field in enumerate(schema)
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
