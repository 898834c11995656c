"""Rows are computed in a session of our own: what others set in theirs changes nothing for us."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from pyspark import RDD
from pyspark.sql import SparkSession

import anabranch
from anabranch.api import Anabranch
from anabranch.spark.convert import carried
from anabranch.spark.session import RUNTIME, Spark, beside

ODD = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.caseSensitive": "true",
}
ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def theirs(spark: Spark) -> SparkSession:
    return spark.session.newSession()


@pytest.fixture
def ab(tmp_path: Path, theirs: SparkSession) -> Iterator[Anabranch]:
    with anabranch.connect(tmp_path, spark=theirs) as opened:
        yield opened


def test_what_a_query_means_does_not_follow_the_session_of_the_user(
    ab: Anabranch, theirs: SparkSession
) -> None:
    ab.sql("CREATE TABLE z.t (id INT, ts TIMESTAMP, x INT)")
    ab.sql("INSERT INTO z.t VALUES (1, TIMESTAMP'2024-01-01 23:30:00Z', 1)")
    days = "SELECT CAST(ts AS DATE) AS d, COUNT(*) AS n FROM z.t GROUP BY CAST(ts AS DATE)"
    ab.create_stream_table("z.days", days, refresh_mode="DIFFERENTIAL")
    for name, value in ODD.items():
        theirs.conf.set(name, value)
    ab.sql("INSERT INTO z.t VALUES (2, TIMESTAMP'2024-01-02 02:30:00', 0)")
    ab.refresh()
    assert sorted(map(tuple, ab.table("z.days").collect())) == [
        (date(2024, 1, 1), 1),
        (date(2024, 1, 2), 1),
    ]
    assert ab.verify("z.days")["equal"]
    ab.create_stream_table("z.parts", "SELECT id, 10 / x AS part FROM z.t", initialize=False)
    with pytest.raises(anabranch.AnabranchError, match=r"(?i)division by zero"):
        ab.refresh("z.parts")


def test_the_session_of_the_user_stays_as_it_is(ab: Anabranch, theirs: SparkSession) -> None:
    for name, value in ODD.items():
        theirs.conf.set(name, value)
    before = theirs.conf.getAll
    ab.sql("CREATE TABLE z.t (id INT)")
    ab.sql("INSERT INTO z.t VALUES (1)")
    ab.create_stream_table("z.s", "SELECT id FROM z.t")
    assert ab.table("z.s").count() == 1
    assert ab.spark is theirs and theirs.conf.getAll == before
    assert theirs.catalog.listTables() == []


def test_frames_of_the_user_are_appended_and_joined(ab: Anabranch, theirs: SparkSession) -> None:
    theirs.conf.set(ZONE, "America/New_York")
    ab.sql("CREATE TABLE z.t (id BIGINT, ts TIMESTAMP, d DATE)")
    theirs.range(3).createOrReplaceTempView("mine")
    noon = "SELECT id, TIMESTAMP'2024-01-01 23:30:00' AS ts FROM mine"
    ab.append("z.t", theirs.sql(f"SELECT id, ts, CAST(ts AS DATE) AS d FROM ({noon})"))
    (row,) = ab.sql("SELECT DISTINCT CAST(ts AS STRING), d FROM z.t").collect()
    assert tuple(row) == ("2024-01-02 04:30:00", date(2024, 1, 1))  # the user's zone made them
    ab.sql("ALTER TABLE z.t RENAME COLUMN id TO number")
    mine, ours = theirs.table("mine"), ab.table("z.t")
    assert mine.join(ours, mine.id == ours.number).count() == 3


def test_settings_of_the_moment_go_along(theirs: SparkSession) -> None:
    theirs.conf.set("fs.test.secret", "s3cret")
    theirs.conf.set("spark.sql.files.maxPartitionBytes", "12345678")
    own = Spark({}, theirs).session
    assert own.conf.get("fs.test.secret") == "s3cret"
    assert own.conf.get("spark.sql.files.maxPartitionBytes").rstrip("b") == "12345678"  # type: ignore[union-attr]
    assert {name: own.conf.get(name) for name in RUNTIME} == RUNTIME


def test_a_session_with_functions_of_the_user_is_shared_and_settled(theirs: SparkSession) -> None:
    spark = Spark({"allow_external_code": True}, theirs)
    assert spark.session is theirs
    theirs.conf.set(ZONE, "America/New_York")
    with spark.tuned(10):
        assert theirs.conf.get(ZONE) == "UTC"


def test_frames_of_rdds_stay_with_the_user(spark: Spark, theirs: SparkSession) -> None:
    before = RDD.toDF
    theirs.newSession()
    own = beside(theirs)
    made = spark.session.sparkContext.parallelize([(1,)]).toDF(["x"])
    assert made.sparkSession is theirs and carried(own, made).sparkSession is own
    RDD.toDF = before  # type: ignore[method-assign]


def test_settings_of_older_versions_and_variables_change_no_query(theirs: SparkSession) -> None:
    theirs.conf.set("spark.my.v", "ten")
    spark = Spark({"spark.conf.spark.sql.legacy.setopsPrecedence.enabled": "true"}, None)
    for session in (Spark({}, theirs).session, spark.session):
        (row,) = session.sql("SELECT '${spark.my.v}' AS v").collect()
        assert row.v == "${spark.my.v}"
        found = session.sql("SELECT 1 AS i UNION SELECT 11 INTERSECT SELECT 11").collect()
        assert {each.i for each in found} == {1, 11}
