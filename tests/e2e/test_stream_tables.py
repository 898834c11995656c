"""Stream tables: made, altered, dropped, refreshed; every mode, every reason."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from anabranch import Anabranch
from anabranch.errors import (
    AlreadyExists,
    BaseExpired,
    DataError,
    NotIncremental,
    Refused,
    SchemaError,
    UnknownName,
    Unsupported,
)
from tests.another_program import alter
from tests.e2e.world import Outside, bag, nothing_changes, refused, rows

pytestmark = pytest.mark.usefixtures("as_users_run_it")


@pytest.fixture
def shop(ab: Anabranch) -> Anabranch:
    """Sales, and a chain of three stream tables over them."""
    ab.sql("CREATE TABLE shop.sales (id BIGINT, region STRING, amount DECIMAL(12,2), note STRING)")
    ab.sql("""
        INSERT INTO shop.sales VALUES
        (1, 'eu', 10, 'a'), (2, 'us', 5.5, 'b'), (3, 'eu', 1, NULL), (4, NULL, 2, 'c')
    """)
    ab.create_stream_table("shop.big", "SELECT id, region, amount FROM shop.sales WHERE amount > 1")
    ab.create_stream_table(
        "shop.by_region",
        "SELECT region, sum(amount) AS revenue, count(*) AS n FROM shop.big GROUP BY region",
    )
    ab.create_stream_table("shop.total", "SELECT sum(revenue) AS total FROM shop.by_region")
    return ab


def refreshed(ab: Anabranch, name: str | None = None) -> dict[str, tuple[str, int, int]]:
    """Table -> action, rows inserted, rows deleted."""
    return {
        line["table"]: (line["action"], line["rows_inserted"], line["rows_deleted"])
        for line in ab.refresh(name)
    }


def last(ab: Anabranch, name: str) -> dict[str, Any]:
    return ab.history(name)[0]


def status(ab: Anabranch, name: str) -> dict[str, Any]:
    return next(row for row in ab.status() if row["name"] == name)


def check(ab: Anabranch, names: Iterable[str] | None = None) -> None:
    """Every stream table equals its query."""
    for name in names or [row["name"] for row in ab.status()]:
        found = ab.verify(name)
        assert found["equal"], found


def test_a_chain_is_kept_from_changes(shop: Anabranch, outside: Outside) -> None:
    assert bag(shop.table("shop.total")) == rows((Decimal("17.50"),))
    assert last(shop, "shop.big")["action"] == "FULL"
    assert last(shop, "shop.big")["reason"] == "first refresh"
    assert status(shop, "shop.total")["status"] == "ACTIVE"
    shop.sql("UPDATE shop.sales SET amount = amount + 1 WHERE region = 'eu'")
    jobs, actions = count_jobs(shop), shop.spark_actions
    assert refreshed(shop) == {
        "shop.big": ("DIFFERENTIAL", 2, 1),
        "shop.by_region": ("DIFFERENTIAL", 1, 1),
        "shop.total": ("DIFFERENTIAL", 1, 1),
    }
    assert shop.spark_actions - actions <= 2 * 3
    assert count_jobs(shop) - jobs <= 4 * 3
    shop.sql(
        "INSERT INTO shop.sales VALUES (5, 'us', 7, NULL); DELETE FROM shop.sales WHERE id = 4"
    )
    shop.refresh("shop.total")
    assert bag(shop.table("shop.by_region")) == rows(
        ("eu", Decimal("13.00"), 2), ("us", Decimal("12.50"), 2)
    )
    frontiers = {str(row["frontier"]) for row in shop.status()}
    assert len(frontiers) == 1, "all stand on the same snapshot of shop.sales"
    assert outside.bag("shop.by_region") == bag(shop.table("shop.by_region"))
    columns = outside.table("shop.by_region").schema().column_names
    assert columns == ["region", "revenue", "n"], "state is hidden"
    cut = shop.cuts()[0]
    assert cut["kind"] == "refresh"
    assert cut["tables"] == ["shop.big", "shop.by_region", "shop.total"]
    check(shop)


def count_jobs(ab: Anabranch) -> int:
    """Spark jobs so far: the number of an empty one that is started now."""
    context = ab.spark.sparkContext
    group = f"count-{time.monotonic_ns()}"
    context.setJobGroup(group, "")
    ab.spark.range(1).collect()
    context.setLocalProperty("spark.jobGroup.id", None)
    while not (found := context.statusTracker().getJobIdsForGroup(group)):
        time.sleep(0.01)  # Spark notes its jobs in a thread of its own
    return int(max(found))


def test_nothing_changed_costs_no_spark(shop: Anabranch, outside: Outside) -> None:
    shop.refresh()
    jobs, actions, cut = count_jobs(shop), shop.spark_actions, shop.cuts()[0]
    durations = []
    for _ in range(15):
        start = time.perf_counter()
        found = refreshed(shop)
        durations.append(time.perf_counter() - start)
    assert set(found.values()) == {("NO_DATA", 0, 0)}
    assert min(durations) < 0.020
    assert count_jobs(shop) == jobs + 1
    assert shop.spark_actions == actions
    assert shop.cuts()[0] == cut
    assert last(shop, "shop.big")["reason"] == "no change in the sources"


@pytest.mark.extended
def test_changes_that_do_not_reach_a_table(shop: Anabranch, outside: Outside) -> None:
    before = {name: outside.snapshots(name) for name in ("shop.big", "shop.by_region")}
    frontier = status(shop, "shop.total")["frontier"]
    windows = [
        ["UPDATE shop.sales SET note = 'unused'"],
        [
            "INSERT INTO shop.sales VALUES (9, 'eu', 99, NULL)",
            "DELETE FROM shop.sales WHERE id = 9",
        ],
        ["UPDATE shop.sales SET amount = 0 WHERE id = 3", "INSERT INTO shop.sales (id) VALUES (8)"],
    ]
    for window in windows:
        for statement in window:
            shop.sql(statement)
        actions = shop.spark_actions
        assert set(refreshed(shop).values()) == {("NO_DATA", 0, 0)}
        assert shop.spark_actions <= actions + 1, "only shop.big looks at the change"
        now = status(shop, "shop.total")["frontier"]
        assert now != frontier
        frontier = now
    assert {name: outside.snapshots(name) for name in before} == before
    check(shop)


@pytest.mark.extended
def test_schedule_mode_and_query_are_altered(shop: Anabranch, outside: Outside) -> None:
    shop.alter_stream_table("shop.big", schedule="5m", refresh_mode="FULL")
    assert status(shop, "shop.big")["schedule"] == "5m"
    shop.sql("ALTER STREAM TABLE shop.big SET SCHEDULE '10s'")
    assert status(shop, "shop.big")["schedule"] == "10s"
    shop.sql("INSERT INTO shop.sales VALUES (6, 'us', 50, NULL)")
    assert refreshed(shop)["shop.big"][0] == "FULL"
    assert last(shop, "shop.big")["reason"] == "refresh mode is FULL"
    shop.alter_stream_table("shop.big", refresh_mode="DIFFERENTIAL")

    # another query: those that read the table are brought along in the same cut
    shop.alter_stream_table(
        "shop.big", query="SELECT id, region, amount * 2 AS amount FROM shop.sales WHERE id > 1"
    )
    cut = shop.cuts()[0]
    assert cut["tables"] == ["shop.big", "shop.by_region", "shop.total"]
    assert last(shop, "shop.big")["action"] == "REINITIALIZE"
    assert "the query" in last(shop, "shop.big")["reason"]
    assert bag(shop.table("shop.total")) == rows((Decimal("117.00"),))
    check(shop)

    # other columns: one more, one of another type
    shop.sql("""
        ALTER STREAM TABLE shop.big AS
        SELECT region, CAST(amount AS DOUBLE) AS amount, upper(note) AS shout, id FROM shop.sales
    """)
    assert shop.table("shop.big").columns == ["region", "amount", "shout", "id"]
    assert dict(shop.table("shop.total").dtypes) == {"total": "double"}
    assert outside.table("shop.big").schema().column_names == ["region", "amount", "shout", "id"]
    check(shop)
    with refused(shop, outside, SchemaError, "shop.by_region", "amount"):
        shop.alter_stream_table("shop.big", query="SELECT id, region FROM shop.sales")


def test_create_and_drop(shop: Anabranch, outside: Outside) -> None:
    with refused(shop, outside, AlreadyExists, "shop.big"):
        shop.create_stream_table("shop.BIG", "SELECT 1 AS one")
    shop.create_stream_table("shop.big", "SELECT 1 AS one", if_not_exists=True)
    assert "one" not in shop.table("shop.big").columns
    shop.sql(
        "CREATE OR REPLACE STREAM TABLE shop.total SCHEDULE '3s' AS SELECT count(*) AS n FROM shop.big"
    )
    assert bag(shop.table("shop.total")) == rows((3,))
    assert status(shop, "shop.total")["schedule"] == "3s"
    tree = shop.dependency_tree("shop.by_region")
    assert tree["reads"][0]["reads"][0] == {"name": "shop.sales", "kind": "source", "reads": []}
    with refused(shop, outside, Refused, "shop.big is read by shop.by_region, shop.total"):
        shop.drop_stream_table("shop.big")
    with refused(shop, outside, Refused, "shop.sales is read by"):
        shop.sql("DROP TABLE shop.sales")
    with refused(shop, outside, Refused, "stream table"):
        shop.sql("DROP TABLE shop.total")
    with refused(shop, outside, Refused, "transaction"), shop.transaction():
        shop.create_stream_table("shop.later", "SELECT * FROM shop.big")
    shop.drop_stream_table("shop.by_region")
    shop.sql("DROP STREAM TABLE IF EXISTS shop.by_region")
    shop.sql("DROP STREAM TABLE shop.big CASCADE")
    assert shop.status() == []
    assert [row["table"] for row in shop.sql("SHOW TABLES").collect()] == ["shop.sales"]
    with pytest.raises(UnknownName):
        shop.refresh("shop.big")
    shop.sql("DROP TABLE shop.sales")


def test_a_batch_is_made_whole_or_not_at_all(shop: Anabranch, outside: Outside) -> None:
    cut = shop.cuts()[0]["cut_id"]
    shop.create_stream_tables(
        {
            "shop.c": "SELECT * FROM shop.b JOIN shop.a USING (region)",
            "shop.a": "SELECT region, max(amount) AS top FROM shop.sales GROUP BY region",
            "shop.b": "SELECT region, top AS again FROM shop.a WHERE top > 5",
        },
        schedule="1m",
    )
    assert shop.cuts()[0]["cut_id"] == cut + 1
    assert bag(shop.table("shop.c")) == rows(
        ("eu", Decimal("10.00"), Decimal("10.00")), ("us", Decimal("5.50"), Decimal("5.50"))
    )
    assert status(shop, "shop.b")["schedule"] == "1m"
    for wrong, error in [
        ({"shop.d": "SELECT 1 AS one", "shop.e": "SELECT nope FROM shop.d"}, UnknownName),
        ({"shop.d": "SELECT * FROM shop.e", "shop.e": "SELECT * FROM shop.d"}, Refused),
        ({"shop.d": "SELECT 1 AS one", "shop.a": "SELECT 1 AS one"}, AlreadyExists),
    ]:
        with refused(shop, outside, error):
            shop.create_stream_tables(wrong)
    check(shop, ["shop.a", "shop.b", "shop.c"])


def test_filled_later(shop: Anabranch, outside: Outside) -> None:
    shop.create_stream_table(
        "shop.late",
        "SELECT region, count(*) AS n FROM shop.sales GROUP BY region",
        initialize=False,
    )
    now = status(shop, "shop.late")
    assert (now["status"], now["populated"], now["frontier"]) == ("INITIALIZING", False, {})
    assert bag(shop.table("shop.late")) == rows()
    with pytest.raises(Refused, match="not been filled"):
        shop.verify("shop.late")
    assert refreshed(shop, "shop.late") == {"shop.late": ("FULL", 3, 0)}
    assert status(shop, "shop.late")["status"] == "ACTIVE"
    check(shop, ["shop.late"])


@pytest.mark.extended
def test_views(shop: Anabranch, outside: Outside) -> None:
    shop.sql("CREATE VIEW shop.eu AS SELECT * FROM shop.sales WHERE region = 'eu'")
    shop.sql("CREATE VIEW shop.names (who, much) AS SELECT id, amount FROM shop.eu")
    shop.create_stream_table("shop.top", "SELECT max(much) AS top, count(*) AS n FROM shop.names")
    assert bag(shop.table("shop.top")) == rows((Decimal("10.00"), 2))
    shop.sql("INSERT INTO shop.sales VALUES (7, 'eu', 70, NULL), (8, 'us', 80, NULL)")
    assert refreshed(shop, "shop.top") == {"shop.top": ("DIFFERENTIAL", 1, 1)}
    shop.sql("CREATE OR REPLACE VIEW shop.eu AS SELECT * FROM shop.sales WHERE region = 'us'")
    assert refreshed(shop, "shop.top")["shop.top"][0] == "REINITIALIZE"
    assert last(shop, "shop.top")["reason"] == "view shop.eu was replaced"
    assert bag(shop.table("shop.top")) == rows((Decimal("80.00"), 2))
    with refused(shop, outside, Refused, "shop.names is read by shop.top"):
        shop.sql("DROP VIEW shop.names")
    with refused(shop, outside, Refused, "a view"):
        shop.sql("INSERT INTO shop.eu VALUES (1, 'x', 1, NULL)")
    check(shop, ["shop.top"])
    shop.drop_stream_table("shop.top")
    shop.sql("DROP VIEW shop.names; DROP VIEW shop.eu")


NOT_INCREMENTAL = [
    ("SELECT id\nFROM shop.sales TABLESAMPLE (100 PERCENT)", "SAMPLE", 2, 6),
    ("SELECT region, first(id) AS some FROM shop.sales GROUP BY region",
     "ORDER_DEPENDENT_AGGREGATE", 1, 16),
    ("SELECT id, rand() AS r FROM shop.sales", "NONDETERMINISTIC_FUNCTION", 1, 12),
    ("SELECT id FROM shop.sales LIMIT 3", "LIMIT_WITHOUT_ORDER", 1, 27),
]  # fmt: skip


def test_differential_refuses_what_is_not_incremental(shop: Anabranch, outside: Outside) -> None:
    for query, code, line, column in NOT_INCREMENTAL:
        place = f"{code} at line {line}, column {column}"
        with refused(shop, outside, NotIncremental, "shop.strict", place):
            shop.create_stream_table("shop.strict", query, refresh_mode="DIFFERENTIAL")
    query, code, *_ = NOT_INCREMENTAL[0]
    with refused(shop, outside, NotIncremental, code):
        shop.alter_stream_table("shop.total", query=query, refresh_mode="DIFFERENTIAL")
    shop.create_stream_table("shop.loose", query)
    shop.sql("INSERT INTO shop.sales VALUES (11, 'eu', 0, NULL)")
    assert refreshed(shop, "shop.loose")["shop.loose"] == ("FULL", 1, 0)
    assert last(shop, "shop.loose")["reason"] == f"not incremental: {code}"
    assert code in shop.explain("shop.loose")
    with refused(shop, outside, NotIncremental, code):
        shop.alter_stream_table("shop.loose", refresh_mode="DIFFERENTIAL")
    check(shop, ["shop.loose"])


@pytest.mark.extended
def test_a_base_that_has_expired(shop: Anabranch, outside: Outside) -> None:
    shop.create_stream_table(
        "shop.strict", "SELECT id FROM shop.sales", refresh_mode="DIFFERENTIAL"
    )
    shop.sql("INSERT INTO shop.sales VALUES (12, 'eu', 12, NULL)")
    table = outside.table("shop.sales")
    old = [each.snapshot_id for each in table.metadata.snapshots[:-1]]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    assert refreshed(shop, "shop.big")["shop.big"][0] == "FULL"
    assert last(shop, "shop.big")["reason"] == "the base snapshot of shop.sales has expired"
    with pytest.raises(BaseExpired, match="shop.strict cannot be refreshed from changes"):
        shop.refresh("shop.strict")
    assert last(shop, "shop.strict")["status"] == "FAILED"
    assert "expired" in status(shop, "shop.strict")["last_error"]
    shop.alter_stream_table("shop.strict", refresh_mode="AUTO")
    shop.refresh()
    check(shop)


@pytest.mark.extended
def test_other_writers_of_a_stream_table(shop: Anabranch, outside: Outside) -> None:
    before = bag(shop.table("shop.big"))
    for wrong in [
        "INSERT INTO shop.big VALUES (1, 'x', 1)",
        "UPDATE shop.big SET id = 1",
        "DELETE FROM shop.big",
        "MERGE INTO shop.big b USING shop.sales s ON b.id = s.id WHEN MATCHED THEN DELETE",
        "ALTER TABLE shop.big ADD COLUMN x INT",
        "TRUNCATE TABLE shop.big",
    ]:
        with refused(shop, outside, Refused, "shop.big is a stream table"):
            shop.sql(wrong)
    with refused(shop, outside, Refused, "stream table"):
        shop.append("shop.big", pa.table({"id": [1]}))

    table = outside.table("shop.big")
    table.append(table.scan().to_arrow().slice(0, 1))
    found = shop.verify("shop.big")
    assert (found["equal"], found["missing_rows"], found["unexpected_rows"]) == (False, 0, 1)
    assert refreshed(shop)["shop.big"][0] == "REINITIALIZE"
    assert last(shop, "shop.big")["reason"] == "another program wrote to the table"
    assert bag(shop.table("shop.big")) == before

    outside.table("shop.big").delete(EqualTo("id", 1))
    shop.sql("INSERT INTO shop.sales VALUES (13, 'eu', 13, NULL)")
    assert refreshed(shop)["shop.big"][0] == "REINITIALIZE"
    check(shop)

    # rolled back to an older snapshot of ours
    shop.sql("INSERT INTO shop.sales VALUES (14, 'eu', 14, NULL)")
    shop.refresh()
    table = outside.table("shop.big")
    table.manage_snapshots().rollback_to_snapshot(
        table.current_snapshot().parent_snapshot_id
    ).commit()
    assert not shop.verify("shop.big")["equal"]
    assert refreshed(shop)["shop.big"][0] == "REINITIALIZE"
    check(shop)


@pytest.mark.extended
def test_a_stream_table_that_another_program_drops(shop: Anabranch, outside: Outside) -> None:
    before = bag(shop.table("shop.by_region"))
    outside.catalog.drop_table("shop.by_region")
    assert refreshed(shop)["shop.by_region"][0] == "REINITIALIZE"
    assert bag(shop.table("shop.by_region")) == outside.bag("shop.by_region") == before
    check(shop)
    outside.catalog.drop_table("shop.total")
    shop.drop_stream_table("shop.total")
    assert "shop.total" not in {row["name"] for row in shop.status()}


@pytest.mark.extended
def test_sources_of_other_programs(ab: Anabranch, outside: Outside, tmp_path: Path) -> None:
    """Any writer of the same catalog will do: appends, deletes, overwrites, partitions."""
    outside.catalog.create_namespace("ext")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "g", StringType()))
    by_g = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "g"))
    for name, spec in (("plain", PartitionSpec()), ("parted", by_g)):
        location = f"file://{tmp_path}/elsewhere/{name}"
        table = outside.catalog.create_table(f"ext.{name}", schema, location, partition_spec=spec)
        table.append(pa.table({"id": [1, 2, 3, 4], "g": ["a", "b", "b", None]}))
    ab.create_stream_tables(
        {
            "s.groups": "SELECT g, count(*) AS n, max(id) AS top FROM ext.plain GROUP BY g",
            "s.pairs": "SELECT p.id, q.g FROM ext.plain p JOIN ext.parted q ON p.g = q.g",
        }
    )
    for name in ("ext.plain", "ext.parted"):
        table = outside.table(name)
        table.append(pa.table({"id": [5, 6], "g": ["a", "c"]}))
        table.delete(EqualTo("g", "b"))
        table.overwrite(pa.table({"id": [9], "g": ["a"]}), overwrite_filter=EqualTo("id", 5))
    assert set(refreshed(ab).values()) == {("DIFFERENTIAL", 2, 2), ("DIFFERENTIAL", 4, 4)}
    check(ab)
    outside.table("ext.plain").append(pa.table({"id": [7], "g": ["c"]}))
    ab.sql("UPDATE ext.plain SET g = 'c' WHERE g IS NULL; INSERT INTO ext.plain VALUES (8, 'd')")
    ab.refresh()
    check(ab)
    assert outside.bag("ext.plain") == rows(
        (1, "a"), (6, "c"), (9, "a"), (7, "c"), (4, "c"), (8, "d")
    )
    with refused(ab, outside, Unsupported, "ext.parted is partitioned"):
        ab.sql("INSERT INTO ext.parted VALUES (1, 'x')")


@pytest.mark.extended
def test_upkeep_changes_no_row(ab: Anabranch, outside: Outside) -> None:
    ab.set("small_table_rows", 0)
    ab.sql("CREATE TABLE lake.t (id BIGINT, g STRING)")
    ab.sql(
        "INSERT INTO lake.t SELECT /*+ REPARTITION(24) */ id, concat('g', id % 7) FROM range(100)"
    )
    ab.create_stream_table("lake.copy", "SELECT id, g FROM lake.t")
    ab.create_stream_table("lake.groups", "SELECT g, count(*) AS n FROM lake.t GROUP BY g")
    ab.sql("DELETE FROM lake.t WHERE id < 25")
    ab.refresh()
    assert len(outside.table("lake.copy").inspect.delete_files()) == 1
    before = {name: bag(ab.table(name)) for name in ("lake.t", "lake.copy", "lake.groups")}
    cut = ab.cuts()[0]["cut_id"]
    assert ab.maintain()["tables_compacted"] == ["lake.copy", "lake.groups", "lake.t"]
    assert not len(outside.table("lake.copy").inspect.delete_files())
    assert len(outside.table("lake.t").inspect.files()) < 24
    actions = ab.spark_actions
    assert set(refreshed(ab).values()) == {("NO_DATA", 0, 0)}
    assert ab.spark_actions == actions
    for name, rows_before in before.items():
        assert bag(ab.table(name)) == outside.bag(name) == rows_before
    with ab.at(cut) as world:
        assert bag(world.table("lake.t")) == before["lake.t"]
    ab.sql("UPDATE lake.t SET g = 'g0' WHERE id IN (30, 31)")
    assert refreshed(ab)["lake.copy"][0] == "DIFFERENTIAL"
    check(ab)


@pytest.mark.extended
def test_data_that_breaks_a_query(shop: Anabranch, outside: Outside) -> None:
    shop.create_stream_table("shop.ratio", "SELECT id, 100 / amount AS r FROM shop.sales")
    shop.create_stream_table("shop.ratios", "SELECT sum(r) AS total FROM shop.ratio")
    before, files = bag(shop.table("shop.ratio")), outside.files()
    cut, frontier = shop.cuts()[0], status(shop, "shop.ratio")["frontier"]
    shop.sql("INSERT INTO shop.sales VALUES (20, 'zz', 0, NULL)")
    files = outside.files()
    for errors in (1, 2):
        with pytest.raises(DataError, match=r"(?i)shop.ratio: division by zero"):
            shop.refresh("shop.ratios")
        now = status(shop, "shop.ratio")
        assert (now["status"], now["consecutive_errors"]) == ("ERROR", errors)
    assert re.search("(?i)division by zero", now["last_error"])
    assert now["frontier"] == frontier
    assert shop.cuts()[1] == cut
    assert outside.files() == files
    failed, skipped = last(shop, "shop.ratio"), last(shop, "shop.ratios")
    assert (failed["status"], skipped["status"]) == ("FAILED", "SKIPPED")
    assert "zero" in failed["error"].lower()
    assert skipped["reason"] == "shop.ratio failed"
    assert bag(shop.table("shop.ratio")) == before
    check(shop, ["shop.ratio", "shop.ratios"])
    # what has nothing to do with it is refreshed all the same
    with pytest.raises(DataError):
        shop.refresh()
    assert last(shop, "shop.big")["status"] == "COMPLETED"
    shop.sql("DELETE FROM shop.sales WHERE id = 20; INSERT INTO shop.sales VALUES (21, 'z', 8, '')")
    # the row that came and went still stands between the snapshots
    assert refreshed(shop, "shop.ratios")["shop.ratio"][0] == "FULL"
    assert "cannot be computed: Division by zero" in last(shop, "shop.ratio")["reason"]
    now = status(shop, "shop.ratio")
    assert (now["status"], now["consecutive_errors"], now["last_error"]) == ("ACTIVE", 0, None)
    check(shop)
    shop.alter_stream_table("shop.ratio", refresh_mode="DIFFERENTIAL")
    shop.sql("INSERT INTO shop.sales VALUES (22, 'zz', 0, NULL), (23, 'z', 4, '')")
    with pytest.raises(DataError, match="(?i)division by zero"):
        shop.refresh("shop.ratios")
    shop.sql("DELETE FROM shop.sales WHERE id = 22")
    assert refreshed(shop, "shop.ratios")["shop.ratio"][0] == "DIFFERENTIAL"
    check(shop)
    with nothing_changes(shop, outside), pytest.raises(DataError, match="(?i)cast"):
        shop.create_stream_table("shop.bad", "SELECT CAST(note AS INT) AS n FROM shop.sales")


def test_sources_that_no_longer_fit(shop: Anabranch, outside: Outside) -> None:
    shop.create_stream_table("shop.all", "SELECT * FROM shop.sales")
    alter(shop, "ALTER TABLE shop.sales RENAME COLUMN amount TO price")
    for name in ("shop.big", "shop.all"):
        with pytest.raises(SchemaError, match=name):
            shop.refresh(name)
    assert bag(shop.sql("SELECT sum(amount) FROM shop.all")) == rows((Decimal("18.50"),))
    alter(shop, "ALTER TABLE shop.sales RENAME COLUMN price TO amount")
    shop.refresh()
    alter(shop, "ALTER TABLE shop.sales DROP COLUMN note")
    with pytest.raises(SchemaError, match="its query now gives"):
        shop.refresh("shop.all")
    shop.alter_stream_table("shop.all", query="SELECT * FROM shop.sales")
    assert "note" not in shop.table("shop.all").columns
    assert refreshed(shop)["shop.big"][0] == "NO_DATA"
    check(shop)


def test_suspended(shop: Anabranch, outside: Outside) -> None:
    """A suspended table stays as it is, and nobody mixes it with newer tables."""
    shop.create_stream_table(
        "shop.mixed",
        "SELECT r.region, r.n, b.id FROM shop.by_region r JOIN shop.big b ON r.region = b.region",
    )
    shop.sql("ALTER STREAM TABLE shop.by_region SUSPEND")
    shop.sql("INSERT INTO shop.sales VALUES (30, 'eu', 30, NULL)")
    found = refreshed(shop)
    assert found["shop.big"] == ("DIFFERENTIAL", 1, 0)
    assert "shop.by_region" not in found
    assert found["shop.mixed"] == found["shop.total"] == ("SKIP", 0, 0)
    assert last(shop, "shop.mixed")["reason"] == "shop.by_region is suspended"
    check(shop)
    with refused(shop, outside, Refused, "shop.by_region is suspended"):
        shop.refresh("shop.total")
    shop.sql("ALTER STREAM TABLE shop.by_region RESUME")
    assert refreshed(shop)["shop.mixed"][0] == "DIFFERENTIAL"
    check(shop)


def test_days_outside_of_pythons_years(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE s.t AS SELECT 1 AS id, make_date(12000, 1, 1) AS d")
    ab.sql("INSERT INTO s.t SELECT 2, DATE'-0044-03-15'")
    query = "SELECT d, MAX(CAST(d AS TIMESTAMP)) AS latest, COUNT(*) AS n FROM s.t GROUP BY d"
    ab.create_stream_table("s.days", query, refresh_mode="DIFFERENTIAL")
    ab.sql("INSERT INTO s.t SELECT 3, make_date(12000, 1, 1)")
    ab.refresh()
    ab.refresh("s.days", full=True)
    assert ab.verify("s.days")["equal"]
    text = "SELECT CAST(d AS STRING) AS d, n FROM s.days WHERE n = 2"
    assert ab.sql(text).collect() == [("+12000-01-01", 2)]
