"""Indexes: sorted copies that are published with their table, and make look-ups read few files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.errors import AlreadyExists, DataError, PublishConflict, Refused, UnknownName
from anabranch.lake import indexes, upkeep
from anabranch.names import TableName
from anabranch.refresh import decide
from anabranch.refresh.execute import table as jobs
from tests.e2e.world import Outside, bag, refused, rows

pytestmark = pytest.mark.extended

ORDERS, COPY = "shop.orders", "shop.orders__by_id"


@pytest.fixture
def many(ab: Anabranch, monkeypatch: pytest.MonkeyPatch) -> Anabranch:
    """A table of eight files that all span all ids, and an index of files of 100 rows."""
    monkeypatch.setattr(jobs, "ROWS_PER_RANGE", 100)
    ab.sql(f"CREATE TABLE {ORDERS} (id BIGINT, region STRING, amount DECIMAL(12,2))")
    ids = "SELECT id, 'eu' AS region, CAST(id DIV 8 AS DECIMAL(12,2)) AS amount FROM range(800)"
    ab.append(ORDERS, ab.spark.sql(ids).repartition(8))
    ab.sql(f"CREATE INDEX by_id ON {ORDERS} (id)")
    return ab


def files(frame: Any) -> list[str]:
    return frame.inputFiles()


def is_copied(ab: Anabranch, table: str = ORDERS, copy: str = COPY) -> bool:
    """The copy holds the rows of the table, says so, and came with the same cut."""
    world = ab._runtime.world()
    own, other = (world.version(TableName.parse(name)) for name in (table, copy))
    (index,) = world.indexes[TableName.parse(table)]
    return indexes.current(other, own, index) and bag(ab.table(table)) == bag(ab.table(copy))


def test_a_look_up_reads_few_files(many: Anabranch) -> None:
    assert len(files(many.table(ORDERS))) == 8
    assert len(files(many.table(COPY))) == 8
    found = many.sql(f"SELECT * FROM {ORDERS} WHERE id = 17 AND region = 'eu'")
    assert bag(found) == bag(many.table(ORDERS).where("id = 17"))
    (file,) = files(found)
    assert "orders__by_id" in file
    assert len(files(many.table(ORDERS, where="id IN (1, 2)"))) == 1
    assert len(files(many.table(ORDERS, where="id BETWEEN 150 AND 250"))) == 2
    assert len(files(many.sql(f"SELECT * FROM {ORDERS} WHERE amount = 3"))) == 8  # no index
    assert bag(many.table(ORDERS, where="id > 790 AND amount < 99")) == rows(
        *((at, "eu", 98) for at in range(791, 792))
    )


def test_an_index_moves_with_its_table(many: Anabranch) -> None:
    cut = many.cuts()[0]["cut_id"]
    many.sql(
        f"INSERT INTO {ORDERS} VALUES (1000, 'us', 5.00), (1000, 'us', 5.00), (NULL, NULL, NULL)"
    )
    many.sql(f"DELETE FROM {ORDERS} WHERE id < 100")
    many.sql(f"UPDATE {ORDERS} SET id = 5 WHERE id = 1000")
    newest, *_ = many.cuts()
    assert set(newest["tables"]) == {ORDERS, COPY}
    assert newest["cut_id"] == cut + 3
    assert is_copied(many)
    assert bag(many.table(ORDERS, where="id = 5")) == rows(*[(5, "us", 5)] * 2)
    with many.at(cut) as before:
        assert bag(before.sql(f"SELECT id FROM {ORDERS} WHERE id = 5")) == rows((5,))
    with many.transaction():
        many.sql(f"DELETE FROM {ORDERS} WHERE id IS NULL")
        many.sql(f"INSERT INTO {ORDERS} VALUES (7, 'asia', 1.00)")
        assert bag(many.table(ORDERS, where="id = 7")) == rows((7, "asia", 1))
    assert is_copied(many)


def test_large_tables_get_only_the_changes(
    many: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "SORTED_ROWS", 0)
    kept = set(files(many.table(COPY)))
    many.sql(f"INSERT INTO {ORDERS} VALUES (3, 'us', 1.00), (3, 'us', 1.00)")
    assert len(set(files(many.table(COPY))) - kept) == 1
    many.sql(f"DELETE FROM {ORDERS} WHERE id = 3 AND amount = 1 OR id = 400")
    assert is_copied(many)
    assert kept <= set(many._runtime.world().version(TableName.parse(COPY)).reading().files)
    assert len(files(many.table(ORDERS, where="id = 790"))) <= 2
    many.sql(f"ALTER TABLE {ORDERS} ADD COLUMN note STRING")
    assert is_copied(many)
    assert many.table(ORDERS, where="id = 3").columns[-1] == "note"


def test_an_index_of_a_stream_table(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE shop.a (k INT, v INT)")
    ab.sql("INSERT INTO shop.a VALUES (1, 1), (2, 2), (2, 3)")
    ab.sql("CREATE STREAM TABLE shop.sums AS SELECT k, sum(v) AS s FROM shop.a GROUP BY k")
    ab.sql("CREATE STREAM TABLE shop.top AS SELECT max(s) AS m FROM shop.sums")
    ab.sql("CREATE INDEX by_s ON shop.sums (s)")
    assert {"index": "by_s", "table": "shop.sums", "columns": ["s"], "cluster": None,
            "copy": "shop.sums__by_s"} in ab.indexes()  # fmt: skip
    ab.sql("INSERT INTO shop.a VALUES (1, 9)")
    ab.refresh()
    assert {"shop.sums", "shop.sums__by_s"} <= set(ab.cuts()[0]["tables"]) | set(
        ab.cuts()[1]["tables"]
    )
    assert is_copied(ab, "shop.sums", "shop.sums__by_s")
    assert bag(ab.sql("SELECT k FROM shop.sums WHERE s = 10")) == rows((1,))
    ab.sql(
        "CREATE OR REPLACE STREAM TABLE shop.sums AS SELECT k, max(v) AS s FROM shop.a GROUP BY k"
    )
    assert is_copied(ab, "shop.sums", "shop.sums__by_s")
    assert ab.verify("shop.sums")["equal"]
    ab.sql("DROP STREAM TABLE shop.sums CASCADE")
    assert ab.indexes() == [] and list(ab.columns()) == [TableName.parse("shop.a")]


def test_maintain_keeps_indexes_in_use(many: Anabranch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "SORTED_ROWS", 0)
    monkeypatch.setattr(upkeep, "MANY_SMALL_FILES", 10)
    for at in (1, 400, 790):
        many.sql(f"INSERT INTO {ORDERS} VALUES ({at}, 'us', 1.00)")
    assert len(files(many.table(COPY))) == 11
    many.maintain()
    assert is_copied(many)
    assert len(files(many.table(COPY))) < 11


def test_another_program_leaves_an_index_behind(many: Anabranch, outside: Outside) -> None:
    table = outside.table(ORDERS)
    table.append(table.scan(row_filter="id = 9").to_arrow())
    assert len(files(many.table(ORDERS, where="id = 9"))) > 1  # slow, and right
    assert bag(many.table(ORDERS, where="id = 9")) == rows(*[(9, "eu", 1)] * 2)
    many.sql(f"INSERT INTO {ORDERS} VALUES (0, 'us', 1.00)")
    assert is_copied(many)


def test_rows_that_another_program_wrote_into_an_index_are_never_shown(
    many: Anabranch, outside: Outside
) -> None:
    table = outside.table(COPY)
    table.append(table.scan(row_filter="id = 9").to_arrow())
    assert bag(many.table(ORDERS, where="id = 9")) == rows((9, "eu", 1))
    many.sql(f"INSERT INTO {ORDERS} VALUES (0, 'us', 1.00)")
    assert is_copied(many)
    assert len(files(many.table(ORDERS, where="id = 9"))) == 1
    table = outside.table(COPY)
    table.append(table.scan(row_filter="id = 9").to_arrow())
    many.maintain()
    assert is_copied(many)


def test_what_is_refused(many: Anabranch, outside: Outside) -> None:
    many.sql("CREATE VIEW shop.v AS SELECT 1 AS a")
    with refused(many, outside, UnknownName, 'did you mean "id"?'):
        many.sql(f"CREATE INDEX i ON {ORDERS} (idd)")
    with refused(many, outside, AlreadyExists, "DROP INDEX by_id ON shop.orders"):
        many.sql(f"CREATE INDEX BY_ID ON {ORDERS} (id)")
    with refused(many, outside, Refused, "shop.v is a view"):
        many.sql("CREATE INDEX i ON shop.v (a)")
    with refused(many, outside, UnknownName, "there is no cluster c"):
        many.sql(f"CREATE INDEX i ON {ORDERS} (id) IN CLUSTER c")
    with refused(many, outside, Refused, "shop.orders__by_id is index by_id of shop.orders"):
        many.sql(f"DELETE FROM {COPY}")
    with refused(many, outside, Refused, "is index by_id of shop.orders"):
        many.sql(f"DROP TABLE {COPY}")
    with refused(many, outside, Refused, "column id of shop.orders: read by index by_id"):
        many.sql(f"ALTER TABLE {ORDERS} DROP COLUMN id")
    with refused(many, outside, UnknownName, "has no index nope"):
        many.sql(f"DROP INDEX nope ON {ORDERS}")
    many.sql(f"DROP INDEX IF EXISTS nope ON {ORDERS}")
    kinds = {row["table"]: row["kind"] for row in many.sql("SHOW TABLES").collect()}
    assert kinds[COPY] == "index"
    many.sql(f"DROP INDEX by_id ON {ORDERS}")
    assert many.indexes() == [] and TableName.parse(COPY) not in many.columns()
    many.sql(f"DROP TABLE {ORDERS}")


def test_an_index_that_cannot_be_sorted_stops_the_publish(
    many: Anabranch, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise DataError("the disk is full")

    monkeypatch.setattr(jobs, "in_ranges", full)
    with refused(many, outside, DataError, "the disk is full"):
        many.sql(f"INSERT INTO {ORDERS} VALUES (1, 'eu', 1.00)")
    with refused(many, outside, DataError, "the disk is full"), many.transaction():
        many.sql(f"INSERT INTO {ORDERS} VALUES (1, 'eu', 1.00)")


def test_two_who_make_indexes_at_once(ab: Anabranch, outside: Outside, tmp_path: Path) -> None:
    ab.sql("CREATE TABLE shop.a (k INT, v INT); INSERT INTO shop.a VALUES (1, 2)")
    with anabranch.connect(tmp_path, spark=ab.spark) as other:
        with pytest.raises(PublishConflict), ab.transaction():
            ab.sql("CREATE INDEX i ON shop.a (k)")
            other.sql("CREATE INDEX j ON shop.a (v)")
        assert [row["index"] for row in ab.indexes()] == ["j"]
        assert TableName.parse("shop.a__i") not in ab.columns()
        with ab.transaction():
            ab.sql("CREATE INDEX i ON shop.a (k)")
            ab.sql("CREATE INDEX h ON shop.a (k, v)")
            ab.sql("INSERT INTO shop.a VALUES (3, 4)")
    world = ab._runtime.world()
    (found,) = world.indexes.values()
    assert [index.name for index in found] == ["h", "i", "j"]
    versions = [world.version(index.copy) for index in found]
    table = world.version(found[0].table)
    assert all(indexes.current(v, table, i) for v, i in zip(versions, found, strict=True))


def test_clusters(ab: Anabranch) -> None:
    ab.sql("CREATE CLUSTER fast POOL 'quick' WITH (weight = 3); CREATE CLUSTER plain")
    ab.sql("CREATE TABLE shop.a (k INT); INSERT INTO shop.a VALUES (1)")
    ab.sql("CREATE STREAM TABLE shop.b IN CLUSTER fast AS SELECT k FROM shop.a")
    ab.sql("CREATE STREAM TABLE shop.c AS SELECT k FROM shop.a")
    ab.sql("CREATE INDEX i ON shop.b (k) IN CLUSTER plain")
    assert ab.clusters()[0] == {
        "cluster": "fast",
        "pool": "quick",
        "address": None,
        "settings": {"weight": "3"},
        "used_by": ["shop.b"],
    }
    pools = used_pools(ab, "INSERT INTO shop.a VALUES (2)")
    assert pools["shop.b"] == "quick" and pools["shop.c"] == "shop.c"
    assert pools["shop.b__i"] == "plain"
    with pytest.raises(Refused, match="cluster fast is used by shop.b"):
        ab.sql("DROP CLUSTER fast")
    with pytest.raises(Refused, match=r"plain is used by index i of shop.b"):
        ab.sql("DROP CLUSTER plain")
    with pytest.raises(AlreadyExists):
        ab.sql("CREATE CLUSTER fast")
    with pytest.raises(UnknownName, match='did you mean "fast"'):
        ab.sql("CREATE STREAM TABLE shop.d IN CLUSTER fats AS SELECT k FROM shop.a")
    ab.sql("CREATE CLUSTER far ADDRESS 'sc://localhost:1'")
    with pytest.raises(Refused, match="set spark.remote"):
        ab.sql("CREATE STREAM TABLE shop.d IN CLUSTER far AS SELECT k FROM shop.a")
    assert "shop.d" not in [row["name"] for row in ab.status()]
    assert [row["cluster"] for row in ab.sql("SELECT cluster FROM system.clusters").collect()] == [
        "far", "fast", "plain",
    ]  # fmt: skip


def used_pools(ab: Anabranch, change: str) -> dict[str, str]:
    """The pool in which each table is written during a refresh."""
    import anabranch.spark.write as writing

    found: dict[str, str] = {}
    real = writing.list_files

    def spy(directory: str) -> list[str]:
        pool = ab.spark.sparkContext.getLocalProperty("spark.scheduler.pool")
        name = Path(directory).parents[2].name.split("-")[0]
        found[f"shop.{name}"] = str(pool)
        return real(directory)

    ab.sql(change)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "list_files", spy)
        ab.refresh()
    return found
