"""Spark's errors, said shortly."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import (
    AnabranchError,
    DataError,
    SqlSyntaxError,
    SystemFault,
    UnknownName,
    Unsupported,
    UserError,
)
from anabranch.model import Column, Reading
from anabranch.spark.errors import translated
from anabranch.spark.query import Inputs, run_sql, types_of
from anabranch.spark.scan import frame
from anabranch.spark.session import Spark
from anabranch.spark.types import columns_of
from anabranch.spark.write import write

X = (Column("x", "int", True, 1),)


def said(error: AnabranchError) -> str:
    text = str(error)
    assert len(text.splitlines()) <= 4, text
    assert (
        "SQLSTATE" not in text
        and "ansi" not in text
        and "org.apache" not in text
        and "\tat " not in text
    )
    return text


@pytest.mark.parametrize(
    ("sql", "kind", "message"),
    [
        (
            "SELECT totl FROM v_1",
            UnknownName,
            'there is no column totl\nhint: did you mean "total"?',
        ),
        ("SELECT v_1.totl FROM v_1", UnknownName, "there is no column shop.sales.totl"),
        ("SELECT * FROM nowhere.t", UnknownName, "there is no table nowhere.t"),
        ("SELECT total FROM v_1 WHERE 1 +", SqlSyntaxError, "line 1, column"),
        ("SELECT foo(total) FROM v_1", UnknownName, "there is no function foo"),
        ("SELECT total + array(1) FROM v_1", UserError, "Cannot resolve"),
        ("SELECT g, sum(total) FROM v_1", UserError, "GROUP BY"),
        ("SELECT sum(g, total) FROM v_1", UserError, "requires 1 parameters"),
    ],
)
def test_analysis(spark: Spark, sql: str, kind: type[AnabranchError], message: str) -> None:
    columns = (Column("g", "string"), Column("total", "bigint"))
    with pytest.raises(AnabranchError) as caught:
        types_of(spark.session, sql, {"v_1": columns}, {"v_1": "shop.sales"})
    assert isinstance(caught.value, kind)
    assert message in said(caught.value)
    assert "v_1" not in caught.value.message or kind is SqlSyntaxError


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1 / (id - id)", "Division by zero"),
        ("cast(concat('a', id) as int)", "cannot be cast to"),
        ("cast(2147483647 + id as int) + 1", "overflow"),
        ("cast(3000000000 + id as int)", "overflow"),
        ("array(1)[id + 5]", "out of bounds"),
        ("raise_error(concat('own ', id))", "own "),
        ("cast(id + 1000 as decimal(3,0))", "cannot be represented as Decimal(3, 0)"),
    ],
)
def test_data_errors_inside_a_write(spark: Spark, tmp_path: Path, value: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        write(spark.session.sql(f"SELECT {value} AS x FROM range(3)"), str(tmp_path / "d"), X)
    assert message in said(caught.value)


def test_data_errors_inside_a_collect(spark: Spark) -> None:
    with pytest.raises(DataError, match="Division by zero"), translated():
        spark.session.sql("SELECT 1 / (id - id) FROM range(3)").collect()


def test_a_missing_file(spark: Spark, tmp_path: Path) -> None:
    written = write(spark.session.sql("SELECT 1 AS x"), str(tmp_path / "d"), X)
    df = frame(spark.session, Reading(written.add), X)
    Path(written.add[0]).unlink()
    with pytest.raises(SystemFault, match="a data file cannot be read") as caught, translated():
        df.collect()
    assert written.add[0].rsplit("/", 1)[1] in said(caught.value)
    with pytest.raises(SystemFault, match="a data file cannot be read"):
        frame(spark.session, Reading(written.add), X).collect()


def test_a_file_without_field_ids(spark: Spark, tmp_path: Path) -> None:
    written = write(spark.session.sql("SELECT 1 AS x"), str(tmp_path / "d"), (Column("x", "int"),))
    with pytest.raises(Unsupported, match="carries no field ids"), translated():
        frame(spark.session, Reading(written.add), X).collect()


def test_other_errors_pass(spark: Spark) -> None:
    with pytest.raises(ZeroDivisionError), translated():
        _ = 1 // 0


def test_views_are_gone_after_use(spark: Spark) -> None:
    session = spark.session
    with Inputs(session) as inputs:
        inputs.bind("v_2", session.sql("SELECT 1 AS x"))
        df = run_sql(session, "SELECT x + 1 AS y FROM v_2")
    assert [row.y for row in df.collect()] == [2]
    with pytest.raises(UnknownName):
        run_sql(session, "SELECT * FROM v_2")


def test_the_types_of_a_query(spark: Spark) -> None:
    views = {"v": (Column("d", "decimal(12,2)", False), Column("t", "timestamp"))}
    query = "SELECT sum(d) AS s, count(*) AS n, map('a', max(t)) AS m, NULL AS x FROM v"
    assert types_of(spark.session, query, views) == [
        "decimal(22,2)",
        "bigint",
        "map<string,timestamp>",
        "void",
    ]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT NULL AS x", 'column "x" has no type'),
        ("SELECT INTERVAL 3 DAYS AS x", 'column "x" has type interval'),
    ],
)
def test_columns_that_no_table_can_hold(spark: Spark, query: str, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        columns_of(run_sql(spark.session, query).schema)
