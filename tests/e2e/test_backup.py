"""Position deletes that Spark wrote name their data files by path: they apply in the new place, too."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

import anabranch
from anabranch.names import TableName
from anabranch.spark.session import Spark
from tests.e2e.world import bag


@pytest.mark.extended
def test_marked_rows_stay_deleted_elsewhere(tmp_path: Path, spark: Spark) -> None:
    given = {"spark": spark.session, "small_table_rows": 0}
    with anabranch.connect(tmp_path / "home", **given) as ab:
        ab.sql(
            "CREATE TABLE b.t (id BIGINT, d DECIMAL(9,2), at TIMESTAMP, day DATE, l ARRAY<INT>, "
            "s STRUCT<x: INT, y: STRING>, m MAP<STRING, INT>)"
        )
        ab.sql(
            "INSERT INTO b.t SELECT id, id * 1.5, timestamp'2024-01-01 00:00:00' + make_interval("
            "0, 0, 0, id), date'2024-01-01', array(1, 2), struct(1, 'x'), map('k', 1) FROM range(50)"
        )
        ab.create_stream_table("b.d", "SELECT id % 5 AS g, SUM(d) AS d FROM b.t GROUP BY id % 5")
        ab.create_stream_table("b.c", "SELECT id, d, at, day FROM b.t WHERE id > 10")
        ab.sql("DELETE FROM b.t WHERE id % 7 = 0")
        assert ab._runtime.lake.current(TableName.parse("b.t")).marked > 0
        before = {name: bag(ab.table(name)) for name in ("b.t", "b.d", "b.c")}
        ab.backup(tmp_path / "backup")
    shutil.move(tmp_path / "home", tmp_path / "moved")
    anabranch.restore(tmp_path / "backup", tmp_path / "again")
    for home in ("again", "moved"):
        with anabranch.connect(tmp_path / home, **given) as ab:
            if home == "moved":
                ab.adopt()
            assert {name: bag(ab.table(name)) for name in before} == before
            assert {line["action"] for line in ab.refresh()} == {"DIFFERENTIAL"}
            assert ab.verify("b.d")["equal"] and ab.verify("b.c")["equal"]
            ab.sql("DELETE FROM b.t WHERE id = 1")
            ab.refresh()
            assert ab.verify("b.d")["equal"] and ab.verify("b.c")["equal"]
        uri = f"sqlite:///{tmp_path}/{home}/catalog.db"
        with closing(SqlCatalog("anabranch", uri=uri)) as catalog:
            assert catalog.load_table("b.t").scan().to_arrow().num_rows == 41
