"""Frames and a session of the stand-in: DuckDB, with as much of Spark as is asked of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import types as T
from sqlglot.errors import SqlglotError

from anabranch.errors import DataError, SqlSyntaxError, UserError
from anabranch.model import Columns
from anabranch.spark import arrow
from anabranch.spark import session as spark_sessions
from anabranch.spark.types import FILE, POSITION, parse_type
from tests.oracle.duck import duck

Row = tuple[Any, ...]
PLACES = (FILE.name, POSITION.name)
_TEXTS: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.null(): "void",
}


class Frame:
    """Rows that are there already, with as much of a Spark frame as is asked of one."""

    def __init__(self, session: Session, data: pa.Table) -> None:
        self.session, self.data = session, data

    @property
    def columns(self) -> list[str]:
        return list(self.data.column_names)

    @property
    def schema(self) -> T.StructType:
        return T.StructType(
            [
                T.StructField(each.name, parse_type(text_of(each.type)), True)
                for each in self.data.schema
            ]
        )

    def collect(self) -> list[Row]:
        columns = [column.to_pylist() for column in self.data.columns]
        return list(zip(*columns, strict=True)) if columns else []

    def count(self) -> int:
        return int(self.data.num_rows)

    def toArrow(self) -> pa.Table:
        return self.data

    def createOrReplaceTempView(self, name: str) -> None:
        self.session.bind(name.strip("`"), self.data)

    def same(self, *given: Any, **named: Any) -> Frame:
        return self

    hint = repartition = coalesce = localCheckpoint = same


class Session:
    """One DuckDB, with as much of a Spark session as is asked of one."""

    def __init__(self) -> None:
        self._duck = duckdb.connect(config={"threads": 1})
        self._duck.execute("SET default_null_order = 'nulls_first'")
        self._lock = threading.RLock()
        self.conf = _Conf()
        self.catalog = self.sparkContext = self
        spark_sessions._ours.add(self)  # type: ignore[arg-type]

    def sql(self, text: str) -> Frame:
        with self._lock, _translated():
            found = self._duck.sql(duck(text))
            if found is None:
                raise UserError(f"not a query: {text}")
            kinds = [str(kind) for kind in found.types]
            table = found.to_arrow_table()
            for at, kind in enumerate(kinds):
                if kind == "HUGEINT":  # Spark's sums of integers are bigint
                    column = table.column(at).cast(pa.int64())
                    table = table.set_column(at, table.column_names[at], column)
        return Frame(self, table)

    def bind(self, name: str, data: pa.Table) -> None:
        with self._lock:
            self._duck.register(name, data)

    def dropTempView(self, name: str) -> None:
        with self._lock:
            self._duck.unregister(name)

    def getLocalProperty(self, name: str) -> str | None:
        return None

    def setLocalProperty(self, name: str, value: str | None) -> None: ...

    def interruptAll(self) -> list[str]:
        return []

    def stop(self) -> None:
        self._duck.close()


class _Conf(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        self.pop(name, None)

    @property
    def getAll(self) -> dict[str, str]:
        return dict(self)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (
        duckdb.ConversionException,
        duckdb.OutOfRangeException,
        duckdb.InvalidInputException,
    ) as e:
        raise DataError(str(e)) from e
    except SqlglotError as e:
        raise SqlSyntaxError("this cannot be read as SQL") from e
    except pa.ArrowInvalid as e:
        raise DataError(str(e)) from e
    except duckdb.Error as e:
        raise UserError(str(e)) from e


def text_of(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_list(type_):
        return f"array<{text_of(type_.value_type)}>"
    if pa.types.is_struct(type_):
        return f"struct<{','.join(f'{each.name}:{text_of(each.type)}' for each in type_)}>"
    if type_ not in _TEXTS:
        raise UserError(f"the stand-in has no type {type_}")
    return _TEXTS[type_]


def arrow_of(text: str) -> pa.DataType:
    return arrow.arrow_type(parse_type(text))


def table_of(rows: Sequence[Row], columns: Columns) -> pa.Table:
    arrays = [
        pa.array([row[at] for row in rows], arrow_of(column.type))
        for at, column in enumerate(columns)
    ]
    return pa.table(arrays, names=[column.name for column in columns])
