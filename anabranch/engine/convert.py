"""Rows in other forms as a Spark frame."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from anabranch.engine.errors import translated
from anabranch.engine.types import parse_type
from anabranch.errors import InvalidValue
from anabranch.model import Columns


def to_frame(session: SparkSession, rows: Any, columns: Columns) -> DataFrame:
    """A Spark frame, an Arrow table or batch, a pandas frame or a list of dicts, as a Spark frame.

    `columns` are those of the table the rows are for; they type a list of dicts.
    """
    if is_spark(rows):
        found: DataFrame = rows
        return found
    with translated():
        if (table := as_arrow(rows)) is not None:
            return session.createDataFrame(table)
        if is_pandas(rows):
            import pyarrow

            return session.createDataFrame(pyarrow.Table.from_pandas(rows, preserve_index=False))
        return from_dicts(session, rows, columns)


def is_spark(rows: Any) -> bool:
    return type(rows).__module__.startswith("pyspark.sql.") and hasattr(rows, "createTempView")


def as_arrow(rows: Any) -> Any:
    """An Arrow table, or None if this is nothing of Arrow's."""
    arrow = sys.modules.get("pyarrow")
    if arrow is None:
        return None
    if isinstance(rows, arrow.Table):
        return rows
    if isinstance(rows, arrow.RecordBatch):
        return arrow.Table.from_batches([rows])
    if isinstance(rows, arrow.RecordBatchReader):
        return rows.read_all()
    return None


def is_pandas(rows: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(rows, pandas.DataFrame)


def from_dicts(session: SparkSession, rows: Any, columns: Columns) -> DataFrame:
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise wrong(rows)
    found = list(rows)
    for row in found:
        if not isinstance(row, Mapping):
            raise wrong(row)
    types = {column.name.lower(): parse_type(column.type) for column in columns}
    by_lower = {str(name).lower(): str(name) for row in found for name in row}
    given = by_lower or {column.name.lower(): column.name for column in columns}
    series = {
        name: fitting([lowered.get(low) for lowered in map(lower_names, found)], types.get(low))
        for low, name in given.items()
    }
    fields = [T.StructField(name, type_, True) for name, (_, type_) in series.items()]
    values = zip(*(column for column, _ in series.values()), strict=True)
    return session.createDataFrame(list(values), T.StructType(fields))


def lower_names(row: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name).lower(): value for name, value in row.items()}


def fitting(values: list[Any], type_: T.DataType | None) -> tuple[list[Any], T.DataType]:
    """Values as Spark takes them for a type: Python is laxer about numbers and times."""
    given = [value for value in values if value is not None]
    if type_ is None or (
        given and all(isinstance(value, str) for value in given) and is_time(type_)
    ):
        return values, T.StringType()
    return [fit(value, type_) for value in values], type_


def is_time(type_: T.DataType) -> bool:
    return isinstance(type_, (T.DateType, T.TimestampType, T.TimestampNTZType))


def fit(value: Any, type_: T.DataType) -> Any:
    number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    if number and isinstance(type_, T.DecimalType):
        return Decimal(str(value))
    if number and isinstance(type_, (T.FloatType, T.DoubleType)):
        return float(value)
    if isinstance(value, datetime) and isinstance(type_, T.TimestampType) and not value.tzinfo:
        return value.replace(tzinfo=timezone.utc)  # Spark would take it for this machine's time
    return value


def wrong(rows: Any) -> InvalidValue:
    return InvalidValue(
        f"{type(rows).__name__} cannot be turned into rows",
        hint="give a Spark or pandas DataFrame, an Arrow table or a list of dicts",
    )
