"""Store assignment, and rows in other forms."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.errors import AnabranchError, DataError, InvalidValue, UnknownName, UserError
from anabranch.model import Column
from anabranch.spark.conform import conform
from anabranch.spark.convert import to_frame
from anabranch.spark.rows import rows_frame
from anabranch.spark.session import Spark
from anabranch.spark.write import write
from tests.spark.stores import plan_of

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


def test_dicts_in_pandas_are_maps_where_the_table_has_maps(spark: Spark) -> None:
    import pandas

    columns = (
        Column("id", "int"),
        Column("m", "map<string,int>"),
        Column("s", "struct<a:int,b:int>"),
        Column("l", "array<map<string,timestamp>>"),
    )
    rows = pandas.DataFrame(
        {
            "L": [[{"at": AT}], None],
            "m": [{"k": 1, "n": None}, {}],
            "s": [{"a": 1}, {"b": 2}],
            "id": [1, 2],
        }
    )
    found = conform(to_frame(spark.session, rows, columns), columns)
    assert [tuple(row) for row in found.orderBy("id").select("m", "s").collect()] == [
        ({"k": 1, "n": None}, (1, None)),
        ({}, (None, 2)),
    ]
    assert found.selectExpr("unix_seconds(l[0]['at'])").first()[0] == AT.timestamp()


class Stream:
    """A frame of another library: all it has is Arrow's stream."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self.table.__arrow_c_stream__(schema)


def test_types_of_arrow_that_spark_lacks(spark: Spark) -> None:
    day = dt.date(2020, 1, 2)
    given = {
        "u": pa.array([7], pa.uint64()),
        "d": pa.array([day], pa.date64()),
        "v": pa.array(["x"], pa.string_view()),
        "b": pa.array([b"y"], pa.binary_view()),
        "h": pa.array([1.5], pa.float16()),
        "w": pa.array([Decimal("1.5")], pa.decimal256(40, 1)),
        "l": pa.array([[8]], pa.large_list(pa.uint64())),
        "c": pa.array([{"z": "q"}], pa.struct([("z", pa.dictionary(pa.int8(), pa.string()))])),
    }
    columns = tuple(
        Column(name, type_)
        for name, type_ in zip(
            given,
            "bigint date string binary float decimal(12,2) array<int> struct<z:string>".split(),
            strict=True,
        )
    )
    frame = to_frame(spark.session, Stream(pa.table(given)), columns)
    (row,) = conform(frame, columns).collect()
    assert tuple(row) == (7, day, "x", b"y", 1.5, Decimal("1.50"), [8], ("q",))


def test_types_of_arrow_that_no_table_holds(spark: Spark) -> None:
    with pytest.raises(InvalidValue, match=r'column "t" has the Arrow type time64\[us\]'):
        to_frame(spark.session, pa.table({"t": pa.array([1], pa.time64("us"))}), COLUMNS)
    wide = pa.array([Decimal(10) ** 60], pa.decimal256(70, 0))
    with pytest.raises(InvalidValue, match="do not fit"):
        to_frame(spark.session, pa.table({"amount": wide}), COLUMNS)


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


def test_values_in_dicts(spark: Spark) -> None:
    columns = (
        Column("s", "string"),
        Column("d", "decimal(38,2)"),
        Column("i", "int"),
        Column("n", "struct<m:map<string,array<decimal(4,1)>>>"),
    )
    wide = Decimal("123456789012345678901234567890.125")
    rows = [{"s": 5, "d": wide, "i": 7.0, "n": {"m": {"k": [1.25, None]}}}]
    (row,) = conform(to_frame(spark.session, rows, columns), columns).collect()
    expected = Decimal("123456789012345678901234567890.13")
    assert tuple(row) == ("5", expected, 7, ({"k": [Decimal("1.3"), None]},))
    for wrong in ({"i": 7.5}, {"i": 2**31}, {"i": True}, {"d": Decimal(10) ** 37}, {"n": 5}):
        (name,) = wrong
        with pytest.raises(InvalidValue, match=f'column "{name}" is .* cannot take a value'):
            to_frame(spark.session, [wrong], columns)


def test_rows_of_the_driver_need_no_python_in_spark(spark: Spark) -> None:
    frames = [
        to_frame(spark.session, [{"id": 1}], COLUMNS),
        rows_frame(spark.session, [{"a": ["x"], "m": {"k": 1}}], LISTING),
        rows_frame(spark.session, [], LISTING),
    ]
    for frame in frames:
        plan = plan_of(frame)
        assert "Python" not in plan and "ExistingRDD" not in plan, plan
    assert [tuple(row) for row in frames[1].collect()] == [(["x"], {"k": 1}, None)]
    assert frames[2].collect() == []


LISTING = {"a": "array<string>", "m": "map<string,bigint>", "t": "timestamp"}


def test_times_in_dicts(spark: Spark) -> None:
    columns = (Column("d", "date"), Column("t", "timestamp"))
    naive = AT.replace(tzinfo=None)
    for rows in ([{"d": "2020-01-01", "t": "2020-01-01"}], [{"d": naive.date(), "t": naive}]):
        found = conform(to_frame(spark.session, rows, columns), columns)
        seconds = found.selectExpr("unix_date(d) * 86400", "unix_seconds(t)").collect()
        assert [tuple(row) for row in seconds] == [(AT.timestamp(), AT.timestamp())]
