"""Values put into a column of another type: what is safe is cast, what is not is refused.

numbers into numbers (an overflow stops the job), anything simple into a string, dates and
timestamps into each other, strings into dates and timestamps; nested types part by part.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from anabranch.errors import DataError, UnknownName, UserError
from anabranch.model import Column, Columns
from anabranch.names import quote
from anabranch.spark.errors import DATA
from anabranch.spark.types import is_complex, parse_type, type_text

_TIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)


def conform(
    df: DataFrame,
    columns: Columns,
    *,
    by_name: bool = True,
    table: str = "the table",
    given: Sequence[str] | None = None,
) -> DataFrame:
    """The frame's columns as those of the table, in the table's order.

    Matched by name, or by position with `by_name=False`; `given` lists the table's columns that a
    positional frame fills.  Columns that are left out become NULL.
    """
    into = targets(columns, given, table)
    sources = matched_by_name(df, into, table) if by_name else matched_by_position(df, into, table)
    chosen: list[SparkColumn] = []
    for column in columns:
        field = sources.get(column.name)
        if field is None:
            chosen.append(missing(column, table))
            continue
        name, type_ = field
        chosen.append(assigned(F.col(name), type_, column, table, by_name=by_name))
    if not by_name:
        df = df.toDF(*(f"_ab_c{at}" for at in range(len(df.columns))))
    return df.select(*chosen)


Sources = dict[str, tuple[str, T.DataType]]


def targets(columns: Columns, given: Sequence[str] | None, table: str) -> Columns:
    if given is None:
        return columns
    by_lower = {column.name.lower(): column for column in columns}
    chosen: list[Column] = []
    for name in given:
        found = by_lower.get(name.lower())
        if found is None:
            raise UnknownName(
                f'table {table} has no column "{name}"',
                name=name,
                known=[column.name for column in columns],
            )
        if found in chosen:
            raise UserError(f'column "{found.name}" of {table} is given twice')
        chosen.append(found)
    return tuple(chosen)


def matched_by_name(df: DataFrame, columns: Columns, table: str) -> Sources:
    by_lower = {column.name.lower(): column for column in columns}
    sources: Sources = {}
    for field in df.schema:
        column = by_lower.get(field.name.lower())
        if column is None:
            raise UnknownName(
                f'table {table} has no column "{field.name}"',
                name=field.name,
                known=[column.name for column in columns],
            )
        if column.name in sources:
            raise UserError(f'column "{column.name}" of {table} is given twice')
        sources[column.name] = (quote(field.name), field.dataType)
    return sources


def matched_by_position(df: DataFrame, columns: Columns, table: str) -> Sources:
    fields = list(df.schema)
    if len(fields) != len(columns):
        wanted = ", ".join(column.name for column in columns)
        raise UserError(
            f"table {table} takes {len(columns)} values and was given {len(fields)}",
            hint=f"the columns are {wanted}",
        )
    return {
        column.name: (f"_ab_c{at}", field.dataType)
        for at, (column, field) in enumerate(zip(columns, fields, strict=True))
    }


def missing(column: Column, table: str) -> SparkColumn:
    if not column.nullable:
        raise DataError(
            f'column "{column.name}" of {table} must not be NULL and was given no value'
        )
    return F.lit(None).cast(parse_type(column.type)).alias(column.name)


def assigned(
    value: SparkColumn, source: T.DataType, column: Column, table: str, *, by_name: bool = True
) -> SparkColumn:
    """A value of type `source` as the column takes it, under the column's name."""
    target = parse_type(column.type)
    if not assignable(source, target, by_name):
        raise UserError(
            f'column "{column.name}" of {table} is {type_text(target)} and cannot take '
            f"{type_text(source)}",
            hint=f"cast it to {type_text(target)}",
        )
    found = fitted(value, source, target, by_name)
    if not column.nullable:
        message = f'{DATA}column "{column.name}" of {table} must not be NULL'
        refused = F.raise_error(F.lit(message)).cast(target)
        found = F.when(value.isNull(), refused).otherwise(found)
    return found.alias(column.name)


def assignable(source: T.DataType, target: T.DataType, by_name: bool) -> bool:
    if isinstance(source, T.NullType):
        return True
    if isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        return assignable(source.elementType, target.elementType, by_name)
    if isinstance(source, T.MapType) and isinstance(target, T.MapType):
        return assignable(source.keyType, target.keyType, by_name) and assignable(
            source.valueType, target.valueType, by_name
        )
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        pairs = field_pairs(source, target, by_name)
        return pairs is not None and all(
            one is None or assignable(one.dataType, other.dataType, by_name) for one, other in pairs
        )
    if is_complex(source) or is_complex(target):
        return False
    return simple_assignable(source, target)


def simple_assignable(source: T.DataType, target: T.DataType) -> bool:
    if type(source) is type(target) or isinstance(target, T.StringType):
        return True
    if isinstance(source, T.NumericType) and isinstance(target, T.NumericType):
        return True
    return isinstance(target, _TIMES) and isinstance(source, (*_TIMES, T.StringType))


def field_pairs(
    source: T.StructType, target: T.StructType, by_name: bool
) -> list[tuple[T.StructField | None, T.StructField]] | None:
    """Each target field with the source field it takes; None if they do not fit."""
    if not by_name:
        if len(source) != len(target):
            return None
        return list(zip(source.fields, target.fields, strict=True))
    by_lower = {field.name.lower(): field for field in source}
    pairs = [(by_lower.pop(field.name.lower(), None), field) for field in target]
    return None if by_lower else pairs


def fitted(
    value: SparkColumn, source: T.DataType, target: T.DataType, by_name: bool
) -> SparkColumn:
    """Structs inside arrays and maps are taken apart, so that fields meet by name or position."""
    if isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        one, other = source.elementType, target.elementType
        found = F.transform(value, lambda item: fitted(item, one, other, by_name))
        return found if is_complex(other) else value.cast(target)
    if isinstance(source, T.MapType) and isinstance(target, T.MapType):
        key, val, map_ = source.keyType, source.valueType, target
        found = F.transform_values(
            value, lambda _, item: fitted(item, val, map_.valueType, by_name)
        )
        found = F.transform_keys(found, lambda k, _: fitted(k, key, map_.keyType, by_name))
        return (
            found if is_complex(map_.valueType) or is_complex(map_.keyType) else value.cast(target)
        )
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        pairs = field_pairs(source, target, by_name) or []
        fields = [
            (
                F.lit(None).cast(other.dataType)
                if one is None
                else fitted(value.getField(one.name), one.dataType, other.dataType, by_name)
            ).alias(other.name)
            for one, other in pairs
        ]
        return F.when(value.isNotNull(), F.struct(*fields))
    return value.cast(target)
