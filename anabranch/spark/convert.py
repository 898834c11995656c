"""Rows in other forms as a Spark frame."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from anabranch.errors import AnabranchError, InvalidValue
from anabranch.model import Columns
from anabranch.spark.arrow import as_arrow
from anabranch.spark.errors import translated
from anabranch.spark.rows import Series, from_series
from anabranch.spark.session import is_remote
from anabranch.spark.types import parse_type

GLOBAL = "spark.sql.globalTempDatabase"


def to_frame(session: SparkSession, rows: Any, columns: Columns) -> DataFrame:
    """A Spark, pandas or Polars frame, an Arrow table or a list of dicts, as a Spark frame.

    `columns` are those of the table the rows are for; they type a list of dicts.
    """
    if is_spark(rows):
        return carried(session, rows)
    with readable(), translated():
        if (table := as_arrow(rows, columns)) is not None:
            return session.createDataFrame(table)
        return from_dicts(session, rows, columns)


def carried(session: SparkSession, rows: DataFrame) -> DataFrame:
    """A frame of another session as one of this: its own settings have made its plan, ours write it."""
    if rows.sparkSession is session or is_remote(session):
        return rows
    name = f"anabranch_{uuid.uuid4().hex}"
    with translated():
        rows.createGlobalTempView(name)
        try:
            return session.table(f"{session.conf.get(GLOBAL)}.{name}")
        finally:
            rows.sparkSession.catalog.dropGlobalTempView(name)


def is_spark(rows: Any) -> bool:
    return type(rows).__module__.startswith("pyspark.sql.") and hasattr(rows, "createTempView")


@contextmanager
def readable() -> Iterator[None]:
    """Inside, values that do not fit together in a column are the caller's, whoever stumbles."""
    try:
        yield
    except AnabranchError:
        raise
    except (TypeError, ValueError, OverflowError) as error:  # Arrow's own are of these kinds
        said = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InvalidValue(f"these rows cannot be read: {said}") from error


def dicts(rows: Any) -> list[Mapping[Any, Any]]:
    """A list of dicts, or an error that says what would be rows."""
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise wrong(rows)
    found = list(rows)
    for row in found:
        if not isinstance(row, Mapping):
            raise wrong(row)
    return found


def from_dicts(session: SparkSession, rows: Any, columns: Columns) -> DataFrame:
    found = dicts(rows)
    types = {column.name.lower(): parse_type(column.type) for column in columns}
    by_lower = {str(name).lower(): str(name) for row in found for name in row}
    given = by_lower or {column.name.lower(): column.name for column in columns}
    lowered = [lower_names(row) for row in found]
    series = {
        name: fitting([row.get(low) for row in lowered], types.get(low))
        for low, name in given.items()
    }
    return from_series(session, series)


def lower_names(row: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name).lower(): value for name, value in row.items()}


def fitting(values: list[Any], type_: T.DataType | None) -> Series:
    """Texts stay texts for a column of times: Spark reads them."""
    given = [value for value in values if value is not None]
    texts = all(isinstance(value, str) for value in given)
    if type_ is None or (given and texts and is_time(type_)):
        return values, T.StringType()
    return values, type_


def is_time(type_: T.DataType) -> bool:
    return isinstance(type_, (T.DateType, T.TimestampType, T.TimestampNTZType))


def wrong(rows: Any) -> InvalidValue:
    return InvalidValue(
        f"{type(rows).__name__} cannot be turned into rows",
        hint="give a Spark, pandas or Polars frame, an Arrow table or a list of dicts",
    )
