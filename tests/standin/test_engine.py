"""The stand-in for Spark goes the way of a real refresh, and leaves nothing behind."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from anabranch.catalog import tables
from anabranch.engine import write
from anabranch.errors import AnabranchError
from anabranch.refresh import apply, jobs
from tests.standin.engine import connect, installed


def test_a_home_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [datetime(2030, 1, 1, tzinfo=timezone.utc)]
    monkeypatch.setattr(tables, "now", lambda: clock[0])
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


def test_what_is_real_comes_back() -> None:
    real = write.write, jobs.full_job, apply.full_job
    with installed():
        assert apply.full_job is not real[2]
    assert (write.write, jobs.full_job, apply.full_job) == real
