"""The stand-in for Spark goes the way of a real refresh, and leaves nothing behind."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from anabranch.catalog import tables
from anabranch.cut_view import CutView
from anabranch.errors import AnabranchError
from anabranch.refresh.execute import table as jobs
from anabranch.spark import write
from anabranch.sql.lower.recursion import is_beyond_spark
from tests.standin.engine import connect, installed


def test_a_home_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [datetime(2030, 1, 1, tzinfo=timezone.utc)]
    monkeypatch.setattr(tables, "now", lambda *_: clock[0])
    with installed(), connect(tmp_path / "home") as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        ab.sql("INSERT INTO s.t VALUES (1, 10), (2, 20), (2, 20)")
        ab.create_stream_table("s.d", "SELECT k, SUM(v) AS v FROM s.t GROUP BY k", schedule="5s")
        ab.create_stream_table("s.e", "SELECT SUM(v) AS v FROM s.d", schedule="5s")
        before = ab.cuts()[0]["cut_id"]
        with ab.transaction():
            ab.sql("UPDATE s.t SET v = v + 1 WHERE k = 2")
            ab.sql("DELETE FROM s.t WHERE k = 1")
            ab.sql("INSERT INTO s.t VALUES (3, 1)")
        assert {each["outcome"] for each in ab.tick()} == {"SKIPPED"}
        clock[0] += timedelta(seconds=6)
        assert {each["outcome"] for each in ab.tick()} == {"PUBLISHED"}
        assert sorted(ab.table("s.d").collect()) == [(2, 42), (3, 1)]
        assert ab.table("s.e").collect() == [(43,)]
        assert ab.history("s.e")[0]["action"] == "DIFFERENTIAL"
        assert ab.verify("s.e")["equal"]
        with ab.at(before) as world:
            assert sorted(world.table("s.d").collect()) == [(1, 10), (2, 40)]
        with pytest.raises(AnabranchError, match="Conversion"):
            ab.sql("SELECT CAST('x' AS INT) AS i")


def test_merge(tmp_path: Path) -> None:
    with installed(), connect(tmp_path / "home") as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        ab.sql("CREATE TABLE s.n (k BIGINT, v BIGINT)")
        ab.sql("INSERT INTO s.t VALUES (1, 10), (2, 20), (2, 21), (4, 40), (5, 50)")
        ab.sql("INSERT INTO s.n VALUES (1, NULL), (2, 7), (3, 8)")
        ab.sql(
            "MERGE INTO s.t USING s.n AS n ON t.k = n.k "
            "WHEN MATCHED AND n.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = t.v + n.v "
            "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.k = 4 THEN DELETE"
        )
        assert sorted(ab.table("s.t").collect()) == [(2, 27), (2, 28), (3, 8), (5, 50)]
        ab.sql("INSERT INTO s.n VALUES (2, 9)")
        with pytest.raises(AnabranchError, match="more than one row"):
            ab.sql("MERGE INTO s.t USING s.n AS n ON t.k = n.k WHEN MATCHED THEN UPDATE SET v = 1")


def test_tables_that_read_each_other(tmp_path: Path) -> None:
    with installed(), connect(tmp_path / "home", allow_circular=True) as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT)")
        ab.sql("INSERT INTO s.t VALUES (1)")
        up = "SELECT k FROM s.t UNION SELECT k + 1 AS k FROM s.d WHERE k < 4"
        ab.create_stream_tables({"s.c": up, "s.d": "SELECT k FROM s.c"})
        assert sorted(ab.table("s.d").collect()) == [(1,), (2,), (3,), (4,)]
        ab.sql("INSERT INTO s.t VALUES (0)")
        ab.refresh()
        assert ab.history("s.c")[0]["action"] == "DIFFERENTIAL"
        assert sorted(ab.table("s.c").collect()) == [(0,), (1,), (2,), (3,), (4,)]
        ab.sql("DELETE FROM s.t")
        ab.refresh()
        assert ab.table("s.d").collect() == []
        assert ab.verify("s.c")["equal"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT c.k FROM s.c WHERE c.k >= ANY (SELECT t.k FROM s.t)",
        "SELECT c.k FROM s.c JOIN s.t ON t.k = c.k AND c.k >= ANY (SELECT o.k FROM s.c AS o)",
        "SELECT k FROM s.t WHERE k >= ANY (SELECT t.k FROM s.t) UNION SELECT c.k FROM s.c",
    ],
)
def test_a_circle_with_what_spark_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    real = CutView.schema

    def schema(world: CutView, text: str) -> StructType:
        assert not is_beyond_spark(text), f"Spark cannot read {text}"
        return real(world, text)

    monkeypatch.setattr(CutView, "schema", schema)
    with installed(), connect(tmp_path / "home", allow_circular=True) as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT)")
        ab.sql("INSERT INTO s.t VALUES (1), (2)")
        ab.create_stream_tables({"s.c": "SELECT k FROM s.t UNION SELECT k FROM s.d", "s.d": query})
        ab.sql("INSERT INTO s.t VALUES (3)")
        ab.refresh()
        assert sorted(ab.table("s.d").collect()) == [(1,), (2,), (3,)]
        ab.alter_stream_table("s.d", query=f"{query} UNION SELECT k FROM s.t")
        assert ab.verify("s.d")["equal"]


def test_what_is_real_comes_back() -> None:
    real = write.write, jobs.full_job, jobs.incremental_job
    with installed():
        assert jobs.incremental_job is not real[2]
    assert (write.write, jobs.full_job, jobs.incremental_job) == real
