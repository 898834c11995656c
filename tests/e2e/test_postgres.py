"""The same verbs on a catalog in PostgreSQL, with the warehouse in a folder."""

from __future__ import annotations

from pathlib import Path

import anabranch
from anabranch.engine.session import Spark
from tests.postgres import postgres_url

__all__ = ["postgres_url"]  # the fixture


def test_stream_tables_on_postgresql(postgres_url: str, tmp_path: Path, spark: Spark) -> None:
    lake = str(tmp_path / "lake")
    with anabranch.connect(postgres_url, warehouse=lake, spark=spark.session) as ab:
        play(ab)


def play(ab: anabranch.Anabranch) -> None:
    ab.sql("CREATE TABLE pg.sales (id BIGINT, region STRING, amount DECIMAL(12,2))")
    ab.sql("INSERT INTO pg.sales VALUES (1, 'eu', 10), (2, 'us', 5)")
    ab.create_stream_tables(
        {
            "pg.by_region": "SELECT region, sum(amount) AS total FROM pg.sales GROUP BY region",
            "pg.total": "SELECT sum(total) AS total FROM pg.by_region",
        },
        refresh_mode="DIFFERENTIAL",
    )
    with ab.transaction():
        ab.sql("UPDATE pg.sales SET amount = 11 WHERE id = 1")
        ab.sql("DELETE FROM pg.sales WHERE id = 2")
    done = ab.refresh("pg.total")
    assert {line["table"]: line["action"] for line in done} == {
        "pg.by_region": "DIFFERENTIAL",
        "pg.total": "DIFFERENTIAL",
    }
    assert len({line["cut_id"] for line in done}) == 1
    assert [row["region"] for row in ab.table("pg.by_region").collect()] == ["eu"]
    assert ab.verify("pg.total")["equal"]
    assert ab.refresh()[0]["action"] == "NO_DATA"
