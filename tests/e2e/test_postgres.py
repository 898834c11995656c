"""The same verbs on a catalog in PostgreSQL, with the warehouse in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

import anabranch
from anabranch.spark.session import Spark
from tests.postgres import postgres_url

__all__ = ["postgres_url"]  # the fixture


@pytest.mark.extended
def test_stream_tables_on_postgresql(postgres_url: str, tmp_path: Path, spark: Spark) -> None:
    lake = str(tmp_path / "lake")
    with anabranch.connect(postgres_url, warehouse=lake, spark=spark.session) as ab:
        play(ab)
        play_in_a_circle(ab)


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


def play_in_a_circle(ab: anabranch.Anabranch) -> None:
    """Rows come, go and come back; only the end of the rounds is published."""
    ab.set("allow_circular", True)
    ab.sql("CREATE TABLE pg.edges (src INT, dst INT)")
    ab.sql("INSERT INTO pg.edges VALUES (1, 2), (2, 3), (3, 2)")
    ab.create_stream_tables(
        {
            "pg.odd": "SELECT src, dst FROM pg.edges UNION "
            "SELECT e.src, p.dst FROM pg.even p JOIN pg.edges e ON e.dst = p.src",
            "pg.even": "SELECT DISTINCT e.src, o.dst FROM pg.odd o JOIN pg.edges e ON e.dst = o.src",
        },
        schedule=None,
    )
    (component,) = ab.scc_status()
    assert component["members"] == ["pg.even", "pg.odd"]
    cut = ab.cuts()[0]["cut_id"]
    ab.sql("DELETE FROM pg.edges WHERE src = 1")  # 2 and 3 only support each other
    done = ab.refresh("pg.odd")
    assert len({line["cut_id"] for line in done}) == 1
    assert {line["table"] for line in done} == {"pg.odd", "pg.even"}
    assert sorted(map(tuple, ab.table("pg.odd").collect())) == [(2, 3), (3, 2)]
    assert sorted(map(tuple, ab.table("pg.even").collect())) == [(2, 2), (3, 3)]
    with ab.at(cut=cut) as before:
        assert (1, 2) in map(tuple, before.table("pg.odd").collect())
    assert all(ab.verify(name)["equal"] for name in component["members"])
