"""Store assignment, and rows in other forms."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.engine.conform import conform
from anabranch.engine.convert import to_frame
from anabranch.engine.session import Spark
from anabranch.engine.write import write
from anabranch.errors import AnabranchError, DataError, InvalidValue, UnknownName, UserError
from anabranch.model import Column

ONE = (Column("x", "int", True, 1),)


def taken(spark: Spark, sql: str, type_: str) -> Any:
    df = conform(spark.session.sql(sql), (Column("x", type_),), by_name=False, table="shop.t")
    return df.collect()[0][0]


@pytest.mark.parametrize(
    ("value", "type_", "expected"),
    [
        ("5L", "int", 5),
        ("5", "decimal(5,2)", Decimal("5.00")),
        ("1.5BD", "double", 1.5),
        ("1.26BD", "decimal(5,1)", Decimal("1.3")),
        ("5", "string", "5"),
        ("DATE'2020-01-02'", "string", "2020-01-02"),
        ("'2020-01-02'", "date", dt.date(2020, 1, 2)),
        ("'2020-01-02 03:04:05'", "timestamp_ntz", dt.datetime(2020, 1, 2, 3, 4, 5)),
        ("DATE'2020-01-02'", "timestamp_ntz", dt.datetime(2020, 1, 2)),
        ("NULL", "array<int>", None),
        ("array(1, NULL)", "array<bigint>", [1, None]),
        ("map('a', 1)", "map<string,decimal(4,1)>", {"a": Decimal("1.0")}),
        ("named_struct('b', 1, 'a', 2)", "struct<a:bigint,b:bigint>", (1, 2)),
        ("array(named_struct('q', 1))", "array<struct<a:bigint>>", [(1,)]),
        ("map('k', named_struct('q', 1))", "map<string,struct<a:bigint>>", {"k": (1,)}),
    ],
)
def test_safe_assignments(spark: Spark, value: str, type_: str, expected: Any) -> None:
    assert taken(spark, f"SELECT {value} AS y", type_) == expected


@pytest.mark.parametrize(
    ("value", "type_", "types"),
    [
        ("'5'", "int", "is int and cannot take string"),
        ("true", "int", "is int and cannot take boolean"),
        ("5", "boolean", "is boolean and cannot take int"),
        ("5", "date", "is date and cannot take int"),
        ("array('a')", "array<int>", "is array<int> and cannot take array<string>"),
        ("array(1)", "string", "is string and cannot take array<int>"),
        ("named_struct('a', 1)", "struct<a:int,b:int>", "cannot take struct<a:int>"),
    ],
)
def test_refused_assignments(spark: Spark, value: str, type_: str, types: str) -> None:
    with pytest.raises(UserError, match='column "x" of shop.t') as caught:
        taken(spark, f"SELECT {value} AS y", type_)
    assert types in caught.value.message


def test_by_name(spark: Spark) -> None:
    columns = (
        Column("a", "int"),
        Column("b", "string"),
        Column("s", "array<struct<u:int,v:int>>"),
    )
    df = spark.session.sql("SELECT array(named_struct('V', 1, 'u', 2)) AS S, 7 AS A")
    (row,) = conform(df, columns).collect()
    assert tuple(row) == (7, None, [(2, 1)])
    with pytest.raises(UnknownName, match='shop.t has no column "bb"') as caught:
        conform(spark.session.sql("SELECT 1 AS bb"), columns, table="shop.t")
    assert caught.value.hint == 'did you mean "b"?'


def test_by_position(spark: Spark) -> None:
    columns = (Column("a", "int"), Column("b", "string"), Column("c", "int", False))
    two = spark.session.sql("SELECT 1 AS x, 2 AS x")
    with pytest.raises(UserError, match="takes 3 values and was given 2"):
        conform(two, columns, by_name=False)
    assert [
        tuple(row) for row in conform(two, columns, by_name=False, given=["c", "B"]).collect()
    ] == [(None, "2", 1)]
    with pytest.raises(DataError, match='column "c" of t must not be NULL'):
        conform(two, columns, by_name=False, given=["a", "b"], table="t")
    with pytest.raises(UserError, match="given twice"):
        conform(two, columns, by_name=False, given=["a", "A"])
    with pytest.raises(UnknownName):
        conform(two, columns, by_name=False, given=["a", "zz"])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            Column("x", "int", False, 1),
            "IF(id = 1, NULL, 1)",
            'column "x" of shop.t must not be NULL',
        ),
        (Column("x", "tinyint", True, 1), "id + 1000", "overflow"),
        (Column("x", "decimal(3,0)", True, 1), "id + 1000", "cannot be represented"),
        (Column("x", "date", True, 1), "concat('a', id)", "cannot be cast"),
    ],
)
def test_values_that_do_not_fit_stop_the_job(
    spark: Spark, tmp_path: Path, column: Column, value: str, message: str
) -> None:
    df = conform(spark.session.sql(f"SELECT {value} AS x FROM range(3)"), (column,), table="shop.t")
    with pytest.raises(DataError, match=message):
        write(df, str(tmp_path / "d"), (column,), 1)


COLUMNS = (
    Column("id", "bigint"),
    Column("amount", "decimal(12,2)"),
    Column("at", "timestamp"),
    Column("x", "double"),
)
AT = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)


def test_rows_in_other_forms(spark: Spark) -> None:
    session = spark.session
    values = {"id": [1, 2], "amount": [Decimal("1.50"), None], "at": [AT, None], "x": [1.0, None]}
    table = pa.table(values)
    dicts = [{"id": 1, "amount": 1.5, "at": AT, "x": 1}, {"id": 2, "X": None}]
    forms = [table, table.to_batches()[0], table.to_reader(), dicts, session.createDataFrame(table)]
    for rows in forms:
        found = conform(to_frame(session, rows, COLUMNS), COLUMNS).selectExpr(
            "id", "amount", "unix_seconds(at) AS at", "x"
        )
        assert sorted(map(tuple, found.collect())) == [
            (1, Decimal("1.50"), int(AT.timestamp()), 1.0),
            (2, None, None, None),
        ]


def test_pandas(spark: Spark) -> None:
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame({"id": [1, 2], "s": ["a", None]})
    columns = (Column("id", "bigint"), Column("s", "string"))
    found = conform(to_frame(spark.session, rows, columns), columns)
    assert sorted(map(tuple, found.collect())) == [(1, "a"), (2, None)]


def test_no_rows(spark: Spark) -> None:
    assert to_frame(spark.session, [], COLUMNS).columns == [column.name for column in COLUMNS]


@pytest.mark.parametrize("rows", [5, "text", {"id": 1}, [5], object()])
def test_what_are_no_rows(spark: Spark, rows: Any) -> None:
    with pytest.raises(InvalidValue, match="cannot be turned into rows"):
        to_frame(spark.session, rows, COLUMNS)


def test_a_value_of_the_wrong_type(spark: Spark) -> None:
    with pytest.raises(AnabranchError) as caught:
        to_frame(spark.session, [{"id": "five"}], COLUMNS).collect()
    assert "id" in str(caught.value)


def test_times_in_dicts(spark: Spark) -> None:
    columns = (Column("d", "date"), Column("t", "timestamp"))
    naive = AT.replace(tzinfo=None)
    for rows in ([{"d": "2020-01-01", "t": "2020-01-01"}], [{"d": naive.date(), "t": naive}]):
        found = conform(to_frame(spark.session, rows, columns), columns)
        seconds = found.selectExpr("unix_date(d) * 86400", "unix_seconds(t)").collect()
        assert [tuple(row) for row in seconds] == [(AT.timestamp(), AT.timestamp())]
