"""Rows that the driver has, such as listings and lists of dicts, as a frame.

They travel as Arrow: a list of tuples would need Python on every machine of Spark, and the same one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from anabranch.errors import InvalidValue
from anabranch.lazy import lazy
from anabranch.spark.arrow import arrow_type
from anabranch.spark.types import parse_type, type_text

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")


Series = tuple[list[Any], T.DataType]  # the values of a column
EXACT = Context(prec=80, rounding=ROUND_HALF_UP)
INTEGRAL = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def rows_frame(
    session: SparkSession, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]
) -> DataFrame:
    """`columns` gives names and types."""
    series = {
        name: ([row.get(name) for row in rows], parse_type(type_))
        for name, type_ in columns.items()
    }
    return from_series(session, series)


def from_series(session: SparkSession, series: Mapping[str, Series]) -> DataFrame:
    columns = []
    for name, (values, type_) in series.items():
        try:
            columns.append(pa.array([fit(each, type_) for each in values], arrow_type(type_)))
        except (pa.ArrowException, ArithmeticError, TypeError, ValueError) as error:
            raise InvalidValue(
                f'column "{name}" is {type_text(type_)} and cannot take a value: {error}'
            ) from None
    return session.createDataFrame(pa.table(columns, names=list(series)))


def fit(value: Any, type_: T.DataType) -> Any:
    """A value of Python as Arrow takes it for a type: Arrow is strict with texts and decimals."""
    if value is None:
        return None
    if isinstance(type_, T.ArrayType):
        return [fit(each, type_.elementType) for each in value]
    if isinstance(type_, T.MapType):
        pairs = dict(value).items()
        return [(fit(key, type_.keyType), fit(each, type_.valueType)) for key, each in pairs]
    if isinstance(type_, T.StructType) and isinstance(value, Mapping):
        return {field.name: fit(value.get(field.name), field.dataType) for field in type_}
    return fit_simple(value, type_)


def fit_simple(value: Any, type_: T.DataType) -> Any:
    number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    if isinstance(type_, T.StringType):
        return value if isinstance(value, str) else str(value)
    if number and isinstance(type_, T.DecimalType):
        return EXACT.quantize(Decimal(str(value)), Decimal(1).scaleb(-type_.scale))
    if number and isinstance(type_, INTEGRAL) and value != int(value):
        raise ValueError(f"{value} is not a whole number")
    if number and isinstance(type_, (T.FloatType, T.DoubleType)):
        return float(value)
    if isinstance(value, datetime) and isinstance(type_, T.TimestampType) and not value.tzinfo:
        return value.replace(tzinfo=timezone.utc)
    return value
