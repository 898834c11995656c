"""Positions that are counted, in files that are read whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.model import Column, Reading
from anabranch.spark import private, whole
from anabranch.spark.scan import Among, frame
from anabranch.spark.session import Spark
from anabranch.spark.write import OP, write
from tests.spark.stores import bag, plan_of

COLUMNS = (Column("id", "bigint", True, 1), Column("s", "string", True, 2))
ROWS, FILES = 5_000, 5


@pytest.fixture(scope="module")
def small_splits(spark: Spark) -> Iterator[None]:
    """Spark splits files at every row group, and packs what is small."""
    conf, hadoop = spark.session.conf, spark.session.sparkContext._jsc.hadoopConfiguration()
    sizes = {"spark.sql.files.maxPartitionBytes": "8192", "spark.sql.files.openCostInBytes": "1"}
    for name, value in sizes.items():
        conf.set(name, value)
    hadoop.set("parquet.block.size", "16384")
    yield
    hadoop.unset("parquet.block.size")
    for name in sizes:
        conf.unset(name)


@pytest.fixture(scope="module")
def reading(spark: Spark, small_splits: None, tmp_path_factory: pytest.TempPathFactory) -> Reading:
    rows = spark.session.range(0, ROWS, 1, FILES).selectExpr("id", "repeat(uuid(), 3) AS s")
    files = write(rows, str(tmp_path_factory.mktemp("whole")), COLUMNS).add
    assert len(files) == FILES
    assert pq.read_metadata(files[0]).num_row_groups > 2
    return Reading(files, rows=ROWS, longest=ROWS // FILES)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "ROWS_PER_TASK", 1)


def test_a_spark_that_cannot_read_files_whole(
    spark: Spark, reading: Reading, counting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark numbers the rows itself, and finds the same places."""
    wanted = bag(placed(spark, reading))
    for name in ("reader_beside", "tasks_of"):
        with monkeypatch.context() as without:
            without.setattr(whole, name, lambda *given: None)
            assert bag(placed(spark, reading)) == wanted


def everything(rows: DataFrame) -> DataFrame:
    return rows


def placed(spark: Spark, reading: Reading, among: Among = everything) -> DataFrame:
    return frame(spark.session, reading, COLUMNS[:1], positions=True, among=among)


def not_counted(reading: Reading) -> Reading:
    return replace(reading, longest=0)


def test_counted_positions_are_spark_s_row_numbers(
    spark: Spark, reading: Reading, counting: None
) -> None:
    counted, numbered = placed(spark, reading), placed(spark, not_counted(reading))
    assert "monotonically_increasing_id" in plan_of(counted)
    assert "row_index" not in plan_of(counted)
    assert "row_index" in plan_of(numbered)
    assert numbered.rdd.getNumPartitions() > FILES
    assert bag(counted) == bag(numbered)
    assert len(bag(counted)) == ROWS


def test_with_marks_and_rows_that_are_looked_for(
    spark: Spark, reading: Reading, counting: None, tmp_path: Path
) -> None:
    gone = placed(spark, reading).filter("id % 7 = 3").withColumn(OP, F.lit("remove"))
    marks = write(gone.withColumn("s", F.lit("")), str(tmp_path), COLUMNS, 1).remove
    marked = replace(reading, skip=marks)
    wanted = spark.session.range(0, ROWS, 10).withColumnRenamed("id", "w")

    def among(rows: DataFrame) -> DataFrame:
        return rows.join(F.broadcast(wanted), F.expr("id = w"), "left_semi")

    found = bag(placed(spark, marked, among))
    assert found == bag(placed(spark, not_counted(marked), among))
    assert {row[0] for row in found} == {at for at in range(0, ROWS, 10) if at % 7 != 3}
    assert bag(placed(spark, marked)) == bag(placed(spark, not_counted(marked)))


def test_filters_reach_the_files_where_nothing_is_joined(
    spark: Spark, reading: Reading, counting: None
) -> None:
    found = frame(spark.session, reading, COLUMNS[:1], positions=True).filter("id = 7")
    assert "EqualTo(id,7)" in plan_of(found)


def test_a_file_without_a_task_of_its_own_is_noticed(
    spark: Spark, reading: Reading, counting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = bag(placed(spark, reading))
    for wrong in ({"maxPartitionBytes": "8192", "openCostInBytes": "1"}, {"openCostInBytes": "1"}):
        changed = {f"spark.sql.files.{name}": value for name, value in wrong.items()}
        monkeypatch.setattr(whole, "_ALONE", {**whole._ALONE, **changed})
        found = placed(spark, reading)
        assert "row_index" in plan_of(found)
        assert bag(found) == right


def test_the_reader_has_the_settings_of_the_moment(spark: Spark) -> None:
    for secret in ("old", "new"):
        spark.session.conf.set("fs.test.secret", secret)
        assert private.session_beside(spark.session, {}).conf().get("fs.test.secret") == secret
    spark.session.conf.unset("fs.test.secret")


def test_the_frame_belongs_to_the_session(spark: Spark, reading: Reading, counting: None) -> None:
    placed(spark, reading).createOrReplaceTempView("counted_rows")
    assert spark.session.table("counted_rows").count() == ROWS
    spark.session.catalog.dropTempView("counted_rows")


def test_many_small_files_and_few_large_ones_are_left_to_spark(
    spark: Spark, reading: Reading
) -> None:
    session, cores = spark.session, spark.session.sparkContext.defaultParallelism
    enough = Reading(("a",) * 8 * cores, rows=80_000_000 * cores, longest=10_000_000)
    assert whole.worth_counting(session, enough)
    assert not whole.worth_counting(session, replace(enough, rows=8 * cores * 100_000))
    assert not whole.worth_counting(session, replace(enough, longest=60_000_000))
    assert not whole.worth_counting(session, replace(enough, longest=0))
    assert not whole.worth_counting(session, Reading(()))
    assert not whole.worth_counting(session, reading)
