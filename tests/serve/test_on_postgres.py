"""The server on a PostgreSQL catalog: what its rows are asked for works there as well."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException

from anabranch import Anabranch
from tests.postgres import postgres_url
from tests.serve.running import Served, served
from tests.serve.test_views import ID, commit, texts, version
from tests.standin.engine import connect, installed

__all__ = ["postgres_url"]  # a fixture, found by its name


@pytest.fixture
def ab(postgres_url: str, tmp_path: Path) -> Iterator[Anabranch]:
    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{name}"')
    place = f"{postgres_url}&options=-csearch_path%3D{name}"
    with installed(), connect({"catalog": place, "warehouse": str(tmp_path / "w")}) as opened:
        yield opened


@pytest.fixture
def here(ab: Anabranch) -> Iterator[Served]:
    with served(ab) as running:
        yield running


def test_what_clients_do(ab: Anabranch, here: Served) -> None:
    catalog = here.catalog()
    catalog.create_namespace("shop", {"owner": "ann"})
    assert catalog.load_namespace_properties("shop") == {"owner": "ann"}
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    sales = catalog.create_table("shop.sales", rows.schema)
    sales.append(rows)
    made = catalog.create_view("shop.v", ID, version("SELECT id FROM sales"))
    pinned = here.catalog("pinned")
    sales.append(rows)
    with catalog.load_table("shop.sales").update_schema() as change:
        change.add_column("note", made.metadata.schemas[0].fields[0].field_type)
    new = version("SELECT MAX(id) AS id FROM sales").model_dump(mode="json", by_alias=True)
    updates = (
        {"action": "add-view-version", "view-version": {**new, "version-id": 2}},
        {"action": "set-current-view-version", "view-version-id": -1},
    )
    assert commit(here, "v", *updates, uuid=made.metadata.view_uuid).status_code == 200
    ab.sql("INSERT INTO shop.sales VALUES (7, 7)")
    assert texts(pinned.load_view("shop.v")) == ["SELECT id FROM sales"]
    assert texts(catalog.load_view("shop.v")) == ["SELECT MAX(id) AS id FROM sales"]
    assert ab.sql("SELECT * FROM shop.v").collect() == [(7,)]
    assert pinned.load_table("shop.sales").scan().to_arrow().num_rows == 2
    assert catalog.load_table("shop.sales").scan().to_arrow().num_rows == 5
    with pytest.raises(CommitFailedException), sales.update_schema() as change:
        change.add_column("other", made.metadata.schemas[0].fields[0].field_type)
    catalog.drop_view("shop.v")
    catalog.drop_table("shop.sales")
    catalog.drop_namespace("shop")
    assert catalog.list_namespaces() == []
