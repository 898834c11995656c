"""Writing by the Iceberg REST protocol: PyIceberg's client through every call it has for tables."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from anabranch import Anabranch
from tests.serve.running import Served

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()))
SUM = "SELECT region, SUM(id) AS total FROM shop.sales GROUP BY region"


def arrow(*found: tuple[int, str]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([each[0] for each in found], pa.int64()),
            "region": pa.array([each[1] for each in found], pa.string()),
        }
    )


def rows(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(each.values()) for each in table.scan().to_arrow().to_pylist())


@pytest.fixture
def catalog(here: Served) -> Any:
    found = here.catalog()
    found.create_namespace("shop", {"owner": "ann"})
    return found


@pytest.fixture
def sales(catalog: Any) -> Table:
    made: Table = catalog.create_table("shop.sales", SCHEMA)
    made.append(arrow((1, "eu"), (2, "us")))
    return made


def test_namespaces(catalog: Any) -> None:
    assert catalog.load_namespace_properties("shop") == {"owner": "ann"}
    said = catalog.update_namespace_properties("shop", {"x", "owner"}, {"y": "1"})
    assert (said.removed, said.updated, said.missing) == (["owner"], ["y"], ["x"])
    assert catalog.load_namespace_properties("shop") == {"y": "1"}
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace("SHOP")
    catalog.create_namespace(("db", "inner"))
    catalog.create_table(("db", "inner", "t"), SCHEMA)
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("db")
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(("db", "inner"))
    catalog.drop_table(("db", "inner", "t"))
    catalog.drop_namespace(("db", "inner"))
    catalog.drop_namespace("shop")
    with pytest.raises(NoSuchNamespaceError):
        catalog.drop_namespace("shop")
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table("nowhere.t", SCHEMA)


def test_what_a_client_writes_our_own_sql_reads_and_a_stream_table_follows(
    ab: Anabranch, catalog: Any, sales: Table
) -> None:
    assert sorted(ab.table("shop.sales").collect()) == [(1, "eu"), (2, "us")]
    ab.create_stream_table("shop.totals", SUM)
    sales.append(arrow((10, "eu")))
    sales.delete("id = 2")
    ab.refresh()
    assert ab.table("shop.totals").collect() == [("eu", 11)]
    assert ab.history("shop.totals", 1)[0]["action"] == "DIFFERENTIAL"
    assert ab.verify("shop.totals")["equal"]
    kinds = [each["kind"] for each in ab.cuts() if each["tables"] == ["shop.sales"]]
    assert kinds and {*kinds} == {"rest commit"}, "no commit of the server is a foreign one"
    ab.sql("INSERT INTO shop.sales VALUES (5, 'us')")
    assert rows(sales.refresh()) == [(1, "eu"), (5, "us"), (10, "eu")]


def test_tables_are_altered_renamed_and_dropped(catalog: Any, sales: Table) -> None:
    with sales.update_schema() as update:
        update.add_column("note", StringType())
        update.rename_column("region", "place")
    with sales.transaction() as change:
        change.set_properties({"a": "1", "b": "2"})
        change.remove_properties("a")
    found = catalog.load_table("shop.sales")
    assert [each.name for each in found.schema().fields] == ["id", "place", "note"]
    assert found.properties["b"] == "2" and "a" not in found.properties
    catalog.rename_table("shop.sales", "shop.renamed")
    assert rows(catalog.load_table("shop.renamed")) == [(1, "eu", None), (2, "us", None)]
    assert not catalog.table_exists("shop.sales")
    again = catalog.create_table("shop.sales", SCHEMA)
    assert again.location() != found.location() and rows(again) == []
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("shop.sales", SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        catalog.rename_table("shop.renamed", "shop.sales")
    catalog.drop_table("shop.sales")
    catalog.purge_table("shop.renamed")
    with pytest.raises(NoSuchTableError):
        catalog.drop_table("shop.sales")
    assert catalog.list_tables("shop") == []


def test_a_table_is_created_by_a_transaction(catalog: Any) -> None:
    with catalog.create_table_transaction("shop.made", SCHEMA) as change:
        change.append(arrow((1, "eu")))
        assert not catalog.table_exists("shop.made"), "nothing is there before the commit"
    assert rows(catalog.load_table("shop.made")) == [(1, "eu")]


def test_partitions_sort_orders_and_branches(ab: Anabranch, catalog: Any) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
    made = catalog.create_table("shop.parts", SCHEMA, partition_spec=spec)
    made.append(arrow((1, "eu"), (2, "us")))
    with made.update_spec() as change:
        change.add_field("id", IdentityTransform(), "of_id")
    made.append(arrow((3, "eu")))
    made.manage_snapshots().create_tag(made.current_snapshot().snapshot_id, "v1").commit()
    made.overwrite(arrow((9, "us")), "region = 'us'")
    found = catalog.load_table("shop.parts")
    assert rows(found) == [(1, "eu"), (3, "eu"), (9, "us")] and "v1" in found.refs()
    assert sorted(ab.table("shop.parts").collect()) == rows(found)


def test_a_table_is_registered(catalog: Any, sales: Table, here: Served) -> None:
    place = sales.metadata_location
    with pytest.raises(BadRequestError, match="must not share files"):
        catalog.register_table("shop.copy", place)
    catalog.drop_table("shop.sales")
    assert rows(catalog.register_table("shop.copy", place)) == [(1, "eu"), (2, "us")]
    with pytest.raises(BadRequestError, match="missing"):
        catalog.register_table("shop.other", place.replace("metadata.json", "none.metadata.json"))


def test_a_commit_upon_an_older_version_is_a_conflict(catalog: Any, sales: Table) -> None:
    other = catalog.load_table("shop.sales")
    sales.append(arrow((3, "eu")))
    path, body = (
        "shop",
        {
            "requirements": [
                {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
            ],
            "updates": [],
        },
    )
    said = catalog._session.post(
        f"{catalog.uri}/v1/latest/namespaces/{path}/tables/sales", json=body
    )
    assert said.status_code == 409 and said.json()["error"]["type"] == "CommitFailedException"
    with pytest.raises(CommitFailedException), other.update_schema() as change:
        with catalog.load_table("shop.sales").update_schema() as first:
            first.add_column("a", LongType())
        change.add_column("b", LongType())


def test_stream_tables_and_indexes_refuse_writes(ab: Anabranch, catalog: Any, sales: Table) -> None:
    ab.sql("ALTER TABLE shop.sales ADD COLUMN note STRING")
    ab.create_stream_table("shop.totals", SUM)
    ab.sql("CREATE INDEX by_note ON shop.sales (note)")
    sales.refresh()
    totals = catalog.load_table("shop.totals")
    with pytest.raises(ForbiddenError, match="only its query fills it"):
        totals.append(totals.scan().to_arrow())
    with pytest.raises(ForbiddenError, match="only its query fills it"):
        catalog.drop_table("shop.totals")
    with pytest.raises(ForbiddenError, match="only its query fills it"):
        catalog.rename_table("shop.totals", "shop.mine")
    with pytest.raises(ForbiddenError, match="is read by"):
        catalog.drop_table("shop.sales")
    with pytest.raises(ForbiddenError, match="is read by"):
        catalog.rename_table("shop.sales", "shop.mine")
    with (
        pytest.raises(ForbiddenError, match="needs its column note"),
        sales.update_schema() as change,
    ):
        change.delete_column("note")
    copy = next(name for _, name in catalog.list_tables("shop") if name not in ("sales", "totals"))
    with pytest.raises(ForbiddenError, match="is index"):
        catalog.drop_table(("shop", copy))
    sales.append(arrow((7, "eu")))  # the index is left behind, and not read
    assert ab.sql("SELECT id FROM shop.sales WHERE note IS NULL AND id = 7").collect() == [(7,)]


def test_a_column_that_a_stream_table_reads_keeps_its_name(
    ab: Anabranch, catalog: Any, sales: Table
) -> None:
    with sales.update_schema() as change:
        change.add_column("note", StringType())
    ab.create_stream_table("shop.totals", SUM)
    for column in ("id", "region"):
        with (
            pytest.raises(ForbiddenError, match=f"{column} of shop.sales: read by"),
            sales.update_schema() as change,
        ):
            change.rename_column(column, "other")
    with sales.update_schema() as change:  # nobody reads this one
        change.delete_column("note")
    sales.append(arrow((10, "eu")))
    ab.refresh()
    assert sorted(ab.table("shop.totals").collect()) == [("eu", 11), ("us", 2)]


def test_a_cut_is_only_read(catalog: Any, sales: Table, here: Served) -> None:
    pinned = here.catalog("pinned")
    with pytest.raises(NotImplementedError):
        pinned.create_namespace("other")
    said = here.ask("POST", "/iceberg/v1/cut-1/namespaces", json={"namespace": ["x"]})
    assert said.status_code == 403 and "read-only" in said.json()["error"]["message"]


def test_a_table_lies_in_the_warehouse_and_in_no_other_tables_folder(
    catalog: Any, sales: Table
) -> None:
    for place in ("/etc", f"{sales.location()}/inside", sales.location().rpartition("/")[0]):
        with pytest.raises(BadRequestError, match="location"):
            catalog.create_table("shop.elsewhere", SCHEMA, location=place)
    top = sales.location().rpartition("/")[0]
    made = catalog.create_table("shop.chosen", SCHEMA, location=f"{top}/chosen")
    assert made.location() == f"{top}/chosen"


def test_a_snapshot_that_the_server_cannot_read_is_none(catalog: Any, sales: Table) -> None:
    snapshot = sales.current_snapshot().model_dump(mode="json", by_alias=True, exclude_none=True)
    added = {
        **snapshot,
        "snapshot-id": 7,
        "sequence-number": 9,
        "manifest-list": "file:///nowhere/snap.avro",
    }
    said = catalog._session.post(
        f"{catalog.uri}/v1/latest/namespaces/shop/tables/sales",
        json={"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": added}]},
    )
    assert said.status_code == 400 and "must reach the files" in said.json()["error"]["message"]


def test_snapshots_that_a_cut_shows_are_not_expired(
    ab: Anabranch, catalog: Any, sales: Table
) -> None:
    first = sales.current_snapshot().snapshot_id
    sales.append(arrow((3, "eu")))
    with pytest.raises(ForbiddenError, match="cut .* shows it"):
        sales.maintenance.expire_snapshots().by_id(first).commit()
    ab.sql("SET anabranch.serve.expire_snapshots = true")
    with ab.at(2), pytest.raises(ForbiddenError, match="cut 2 is being read"):
        sales.maintenance.expire_snapshots().by_id(first).commit()
    sales.maintenance.expire_snapshots().by_id(first).commit()
    assert first not in {each.snapshot_id for each in sales.refresh().snapshots()}


def transaction(here: Served, *tables: tuple[Table, dict[str, str], int | None]) -> Any:
    changes = [
        {
            "identifier": {"namespace": list(table.name()[:-1]), "name": table.name()[-1]},
            "requirements": [{"type": "assert-current-schema-id", "current-schema-id": schema}]
            if schema is not None
            else [],
            "updates": [{"action": "set-properties", "updates": values}],
        }
        for table, values, schema in tables
    ]
    path = "/iceberg/v1/latest/transactions/commit"
    return here.ask("POST", path, json={"table-changes": changes})


def test_many_tables_change_in_one_cut_or_not_at_all(
    ab: Anabranch, here: Served, catalog: Any, sales: Table
) -> None:
    other = catalog.create_table("shop.other", SCHEMA)
    before = ab.cuts(1)[0]["cut_id"]
    said = transaction(here, (sales, {"a": "1"}, None), (other, {"a": "1"}, 5))
    assert said.status_code == 409 and "a" not in sales.refresh().properties
    assert ab.cuts(1)[0]["cut_id"] == before
    assert transaction(here, (sales, {"a": "1"}, 0), (other, {"a": "1"}, 0)).status_code == 204
    newest = ab.cuts(1)[0]
    assert newest["cut_id"] == before + 1 and newest["tables"] == ["shop.other", "shop.sales"]
    assert transaction(here, (sales, {"b": "1"}, 0), (sales, {"c": "1"}, 0)).status_code == 400
    ab.create_stream_table("shop.totals", SUM)
    totals = catalog.load_table("shop.totals")
    said = transaction(here, (sales, {"b": "1"}, 0), (totals, {"b": "1"}, 0))
    assert said.status_code == 403 and "b" not in sales.refresh().properties


def test_writers_that_meet_lose_nothing(catalog: Any, sales: Table, here: Served) -> None:
    """Every append is there once, whoever had to try again."""
    failed: list[Exception] = []

    def write(number: int) -> None:
        try:
            own = here.catalog().load_table("shop.sales")
            for each in range(3):
                while True:
                    try:
                        own.append(arrow((number * 10 + each, "eu")))
                        break
                    except CommitFailedException:
                        own.refresh()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(10, 16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed
    wanted = sorted(number * 10 + each for number in range(10, 16) for each in range(3))
    assert [id_ for id_, _ in rows(sales.refresh())][2:] == wanted
