"""Reading by field id, with marks, whatever the paths look like."""

from __future__ import annotations

import shutil
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from anabranch.model import Column, Delta, Reading, Written
from anabranch.spark.paths import by_form
from anabranch.spark.scan import delta_frame, frame
from anabranch.spark.session import Spark
from anabranch.spark.write import write
from tests.spark.stores import bag

COLUMNS = (Column("id", "int", True, 1), Column("s", "string", True, 2))


def put(spark: Spark, folder: str, sql: str, columns: tuple[Column, ...] = COLUMNS) -> Written:
    return write(spark.session.sql(sql), folder, columns, 1)


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
@pytest.mark.parametrize("name", ["plain", "日本 ä %25+x[y]{z}*?#\"'%zz a=b"])
def test_paths_come_back_as_listed(spark: Spark, tmp_path: Path, prefix: str, name: str) -> None:
    folder = f"{prefix}{tmp_path}/{name}"
    rows = "SELECT CAST(id AS int) AS id, 'x' AS s FROM range(6)"
    one, two = put(spark, f"{folder}/1", rows), put(spark, f"{folder}/2", rows)
    files = (*one.add, *two.add)
    assert all(path.startswith(f"{folder}/") for path in files)
    placed = frame(spark.session, Reading(files), COLUMNS, positions=True)
    marked = placed.filter(F.col("_ab_file").eqNullSafe(files[0]) & F.col("id").isin(2, 5))
    marks = write(marked.withColumn("_ab_op", F.lit("remove")), f"{folder}/3", COLUMNS, 1).remove
    left = frame(spark.session, Reading(files, skip=marks), COLUMNS[:1], positions=True)
    assert sorted(row.id for row in left.collect()) == [0, 0, 1, 1, 2, 3, 3, 4, 4, 5]
    assert {row._ab_file for row in left.collect()} == set(files)
    only = frame(spark.session, Reading(files, only=marks), COLUMNS[:1])
    assert sorted(row.id for row in only.collect()) == [2, 5]
    both = frame(spark.session, Reading(files, skip=marks, only=marks), COLUMNS[:1])
    assert both.collect() == []


def test_file_names_that_spark_encodes(spark: Spark, tmp_path: Path) -> None:
    (one,) = put(spark, f"{tmp_path}/1", "SELECT CAST(id AS int) AS id, 'x' AS s FROM range(3)").add
    files = (f"{tmp_path}/a b%+ä.parquet", f"{tmp_path}/plain.parquet")
    for path in files:
        shutil.copy(one, path)
    placed = frame(spark.session, Reading(files), COLUMNS, positions=True)
    marked = placed.filter(F.col("_ab_file").eqNullSafe(files[0]) & (F.col("id") == 1))
    marks = write(marked.withColumn("_ab_op", F.lit("remove")), f"{tmp_path}/2", COLUMNS, 1).remove
    left = frame(spark.session, Reading(files, skip=marks), COLUMNS[:1])
    assert sorted(row.id for row in left.collect()) == [0, 0, 1, 2, 2]


def test_mixed_forms_and_doubled_slashes(spark: Spark, tmp_path: Path) -> None:
    rows = "SELECT 1 AS id, 'x' AS s"
    files = (
        *put(spark, f"{tmp_path}/1", rows).add,
        *put(spark, f"file:{tmp_path}/2", rows).add,
        *put(spark, f"file://{tmp_path}/3", rows).add,
        *put(spark, f"{tmp_path}//4//x", rows).add,
    )
    assert len(by_form(files)) == 3
    placed = frame(spark.session, Reading(files), COLUMNS, positions=True)
    assert Counter(row._ab_file for row in placed.collect()) == Counter(files)


def test_renamed_dropped_added_and_widened_columns(spark: Spark, tmp_path: Path) -> None:
    old = (
        Column("a", "int", True, 1),
        Column("b", "float", True, 2),
        Column("c", "decimal(5,2)", True, 3),
        Column("gone", "string", True, 4),
        Column("p", "struct<x:int,y:int>", True, 5, {"x": 6, "y": 7}),
        Column("l", "array<struct<u:int>>", True, 8, {"element": 9, "element.u": 10}),
        Column("d", "date", True, 11),
    )
    new = (
        Column("p2", "struct<z:string,x2:bigint>", True, 5, {"z": 12, "x2": 6}),
        Column("a2", "bigint", True, 1),
        Column("gone", "int", True, 13),
        Column("b", "double", True, 2),
        Column("c", "decimal(12,2)", True, 3),
        Column("l", "array<struct<w:int,u:bigint>>", True, 8, {"element.w": 14, "element.u": 10}),
        Column("d", "date", True, 11),
    )
    sql = """SELECT 1 AS a, 1.5F AS b, 2.25BD AS c, 'q' AS gone, struct(3 AS x, 4 AS y) AS p,
                    array(struct(5 AS u)) AS l, DATE'2020-01-01' AS d"""
    files = put(spark, str(tmp_path / "d"), sql, old).add
    (row,) = frame(spark.session, Reading(files), new).collect()
    assert (row.a2, row.gone, row.b, row.c) == (1, None, 1.5, Decimal("2.25"))
    assert (row.p2.z, row.p2.x2) == (None, 3)
    assert (row.l[0].w, row.l[0].u) == (None, 5)


def test_an_empty_reading(spark: Spark) -> None:
    df = frame(spark.session, Reading(()), COLUMNS, positions=True)
    assert df.columns == ["id", "s", "_ab_file", "_ab_pos"]
    assert df.collect() == []
    assert delta_frame(spark.session, Delta(), COLUMNS).columns == ["id", "s", "_ab_w"]


def test_a_delta_has_weights(spark: Spark, tmp_path: Path) -> None:
    one = put(spark, str(tmp_path / "1"), "SELECT 1 AS id, 'x' AS s").add
    two = put(spark, str(tmp_path / "2"), "SELECT 2 AS id, 'y' AS s").add
    delta = Delta((Reading(one), Reading(two)), (Reading(two),))
    assert bag(delta_frame(spark.session, delta, COLUMNS)) == {
        (1, "x", 1): 1,
        (2, "y", 1): 1,
        (2, "y", -1): 1,
    }


def test_planning_starts_no_job(spark: Spark, tmp_path: Path) -> None:
    (one,) = put(spark, str(tmp_path), "SELECT 1 AS id, 'x' AS s").add
    files = tuple(f"{tmp_path}/{at}.parquet" for at in range(100))
    for path in files:
        shutil.copy(one, path)
    tracker = spark.session.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    frame(spark.session, Reading(files), COLUMNS, positions=True)
    assert set(tracker.getJobIdsForGroup(None)) == before
