"""A project as facts: what is hashed, what is metadata, what is no change at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.deploy.snapshot import ObjectKey, SnapshotObject
from tests.unit.project.folder import ORDERS, REVENUE, project

KEY = ObjectKey("shop", "sales", "revenue")


def revenue(folder: Path, text: str) -> SnapshotObject:
    folder.mkdir(exist_ok=True)
    cluster = "CREATE CLUSTER fast"
    return (
        project(folder, orders=ORDERS, revenue=text, clusters__fast=cluster).snapshot().objects[KEY]
    )


def test_an_object(tmp_path: Path) -> None:
    found = revenue(
        tmp_path,
        "CREATE STREAM TABLE revenue SCHEDULE '2s' IN CLUSTER fast WITH (initialize = false) AS "
        "SELECT region, amount FROM orders;\n"
        "CREATE INDEX i ON revenue (Region) IN CLUSTER fast;",
    )
    assert (found.kind, found.cluster) == ("stream table", "fast")
    assert found.reads == {ObjectKey("shop", "sales", "orders")}
    assert found.query == "SELECT region, amount FROM shop.sales.orders"
    assert found.sql.startswith("CREATE STREAM TABLE revenue SCHEDULE")
    assert found.options == {"schedule": "2s", "refresh_mode": "AUTO", "initialize": "false"}
    (index,) = found.indexes
    assert (index.name, index.cluster, index.columns) == ("i", "fast", ("Region",))


def test_a_source_table(tmp_path: Path) -> None:
    found = project(tmp_path, orders=ORDERS).snapshot()
    table = found.objects[ObjectKey("shop", "sales", "orders")]
    assert table.columns[:2] == (("id", "bigint"), ("region", "string"))
    assert table.query == ""


def test_a_view_with_names_for_its_columns(tmp_path: Path) -> None:
    found = revenue(tmp_path, "CREATE VIEW revenue (a) AS SELECT 1")
    assert (found.query, found.canonical) == ("SELECT 1", "VIEW (`a`) AS SELECT 1")


def test_a_cluster(tmp_path: Path) -> None:
    text = "CREATE CLUSTER far ADDRESS 'sc://host' WITH (spark.sql.shuffle.partitions = 8)"
    found = project(tmp_path, orders=ORDERS, clusters__far=text).snapshot().clusters["far"]
    assert found.options == {"address": "sc://host", "spark.sql.shuffle.partitions": "8"}


@pytest.mark.parametrize(
    "same",
    [
        REVENUE.lower().replace("revenue as", "revenue\n-- a comment\n  as"),
        REVENUE.replace("FROM orders", "FROM sales.Orders"),
        REVENUE.replace("FROM orders", "FROM shop.sales.orders"),
        REVENUE + ";\nCREATE TEST t EXPECT NO ROWS",
    ],
)
def test_no_change(tmp_path: Path, same: str) -> None:
    before, after = revenue(tmp_path / "a", REVENUE), revenue(tmp_path / "b", same)
    assert after.hash == before.hash and after.metadata == before.metadata


@pytest.mark.parametrize(
    "changed",
    [
        REVENUE.replace("sum", "max"),
        REVENUE.replace("STREAM TABLE", "VIEW"),
        REVENUE.replace("revenue AS", "revenue IN CLUSTER fast AS"),
        REVENUE + ";\nCREATE INDEX i ON revenue (region)",
    ],
)
def test_a_change(tmp_path: Path, changed: str) -> None:
    assert revenue(tmp_path / "a", REVENUE).hash != revenue(tmp_path / "b", changed).hash


@pytest.mark.parametrize(
    "said",
    [
        REVENUE + ";\nCOMMENT ON STREAM TABLE revenue IS 'money'",
        REVENUE + ";\nCOMMENT ON COLUMN revenue.total IS 'euro'",
        REVENUE.replace("revenue AS", "revenue SCHEDULE '1h' AS"),
    ],
)
def test_metadata_only(tmp_path: Path, said: str) -> None:
    before, after = revenue(tmp_path / "a", REVENUE), revenue(tmp_path / "b", said)
    assert after.hash == before.hash
    assert after.metadata != before.metadata


def test_the_last_comment_on_a_thing_holds(tmp_path: Path) -> None:
    orders = (
        "CREATE TABLE orders (id BIGINT COMMENT 'counted', region STRING COMMENT 'where') "
        "COMMENT 'all';\n"
        "COMMENT ON TABLE orders IS 'all orders';\nCOMMENT ON COLUMN orders.ID IS NULL;"
    )
    found = project(tmp_path, orders=orders).snapshot().objects[KEY._replace(name="orders")]
    assert found.comments == {"": "all orders", "region": "where"}
