"""Actions of frames that users hold tell of lost and damaged files in our words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from sqlalchemy import delete

import anabranch
from anabranch import Anabranch
from anabranch.catalog import tables
from anabranch.errors import CutExpired, FileDamaged, FileMissing
from anabranch.spark.session import Spark

ACTIONS: dict[str, Callable[[DataFrame], Any]] = {
    "collect": lambda df: df.collect(),
    "show": lambda df: df.show(),
    "toPandas": lambda df: df.limit(1).toPandas(),
    "toArrow": lambda df: df.toArrow(),
    "count": lambda df: df.filter("v IS NOT NULL").count(),
    "take": lambda df: df.take(1),
    "foreach": lambda df: df.foreach(print),
    "toLocalIterator": lambda df: list(df.toLocalIterator()),
    "grouped": lambda df: df.groupBy("k").agg(F.sum("v")).collect(),
    "joined": lambda df: df.alias("a").join(df.alias("b"), "k").select("a.v").collect(),
    "split": lambda df: df.randomSplit([1.0, 1.0], 1)[0].collect(),
    "filled": lambda df: df.na.fill(0).collect(),
    "written": lambda df: df.write.format("noop").mode("overwrite").save(),
}
ROWS = "SELECT id AS k, id * 2 AS v FROM range(100)"


def files(home: Path) -> list[Path]:
    return [each for each in home.rglob("*.parquet") if "metadata" not in each.parts]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory, spark: Spark) -> Any:
    """A table of which the file is gone once frames were made."""
    home = tmp_path_factory.mktemp("handed")
    with anabranch.connect(home, spark=spark.session) as ab:
        ab.sql(f"CREATE TABLE s.t AS {ROWS}")
        frames = {"table": ab.table("s.t"), "sql": ab.sql("SELECT * FROM s.t WHERE v >= 0")}
        assert [each.count() for each in frames.values()] == [100, 100]
        for each in files(home):
            each.unlink()
        yield frames


@pytest.mark.filterwarnings("ignore:toPandas attempted:UserWarning")
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("made", ["table", "sql"])
def test_an_action_on_a_lost_file(broken: dict[str, DataFrame], made: str, action: str) -> None:
    with pytest.raises(FileMissing, match="parquet") as caught:
        ACTIONS[action](broken[made])
    assert caught.value.hint and caught.value.__cause__ is not None


def test_a_frame_is_what_it_was(ab: Anabranch, spark: Spark) -> None:
    ab.sql(f"CREATE TABLE s.t AS {ROWS}")
    frame = ab.sql("SELECT * FROM s.t")
    plain = spark.session.range(3)
    assert isinstance(frame, type(plain)) and type(frame).__name__ == "DataFrame"
    assert type(frame).__module__ == type(plain).__module__
    assert type(plain.join(frame, plain.id == frame.k)) is type(plain)
    assert frame.filter(frame.k < 5).join(plain, frame.k == plain.id).count() == 3
    assert frame.cache().count() == 100 and frame.unpersist().is_cached is False
    with pytest.raises(AnalysisException):  # as it is: nothing is wrong with a file
        frame.select("nope")
    assert frame.transform(lambda df: plain) is plain and type(plain).__module__


def test_a_damaged_file(ab: Anabranch, tmp_path: Path) -> None:
    ab.sql(f"CREATE TABLE s.t AS {ROWS}")
    frame = ab.sql("SELECT * FROM s.t")
    for file in files(tmp_path):
        changed = bytearray(file.read_bytes())
        changed[60] ^= 1
        file.write_bytes(changed)
    with pytest.raises(FileDamaged, match="parquet"):
        frame.collect()


def test_a_frame_that_was_made_before_its_lease_expired(ab: Anabranch, tmp_path: Path) -> None:
    ab.sql(f"CREATE TABLE s.t AS {ROWS}")
    with ab.at() as world:
        frames = [world.table("s.t"), world.sql("SELECT v FROM s.t").where("v > 3")]
        with ab._store.writing() as c:  # as upkeep does once the lease is over
            c.execute(delete(tables.read_leases))
        assert [each.count() for each in frames] == [100, 98]  # the files are there still
        for each in files(tmp_path):
            each.unlink()
        for frame in frames:
            with pytest.raises(CutExpired, match="no longer held"):
                frame.collect()


def test_frames_of_spark_connect_are_guarded_too() -> None:
    pytest.importorskip("grpc")  # without it PySpark ends the process
    connect = pytest.importorskip("pyspark.sql.connect.dataframe")
    from anabranch.spark import handed

    kind = handed._guarded_class(connect.DataFrame)
    assert issubclass(kind, connect.DataFrame) and kind.__module__ == connect.DataFrame.__module__
    for name in ("collect", "toPandas", "toArrow", "show", "count", "foreach", "filter", "write"):
        assert name in vars(kind)
