"""Views by the Iceberg REST protocol: ours as Iceberg views, and those of other engines in our SQL."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.exceptions import ForbiddenError, NoSuchViewError, ViewAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from pyiceberg.view.metadata import SQLViewRepresentation, ViewRepresentation, ViewVersion

from anabranch import Anabranch
from anabranch.names import TableName
from tests.serve.running import Served

ID = Schema(NestedField(1, "id", LongType()))


@pytest.fixture
def catalog(ab: Anabranch, here: Served) -> Any:
    ab.sql("CREATE TABLE shop.sales (id BIGINT, region STRING)")
    ab.sql("INSERT INTO shop.sales VALUES (1, 'eu'), (2, 'us')")
    return here.catalog()


def version(sql: str, dialect: str = "spark", **given: Any) -> ViewVersion:
    text = ViewRepresentation(SQLViewRepresentation(type="sql", sql=sql, dialect=dialect))
    return ViewVersion(
        **{
            "schema-id": 0,
            "representations": [text],
            "default-namespace": ("shop",),
            "summary": {},
            **given,
        }
    )


def texts(view: Any) -> list[str]:
    current = view.metadata.versions[-1]
    return [each.root.sql for each in current.representations]


def test_a_view_of_ours_is_an_iceberg_view_with_its_columns(ab: Anabranch, catalog: Any) -> None:
    ab.sql("CREATE VIEW shop.large AS SELECT id, region FROM shop.sales WHERE id > 1")
    assert catalog.list_views("shop") == [("shop", "large")]
    assert catalog.view_exists("shop.large") and not catalog.view_exists("shop.sales")
    first = catalog.load_view("shop.large").metadata
    (schema,) = first.schemas
    assert [(each.name, each.field_type) for each in schema.fields] == [
        ("id", LongType()),
        ("region", StringType()),
    ]
    ab.sql("CREATE OR REPLACE VIEW shop.large AS SELECT id FROM shop.sales WHERE id > 2")
    second = catalog.load_view("shop.large").metadata
    assert second.view_uuid == first.view_uuid and second.current_version_id == 2
    assert [each.version_id for each in second.version_log] == [1, 2]
    with pytest.raises(NoSuchViewError):
        catalog.load_view("shop.nothing")


def test_a_cut_shows_the_views_of_its_time(ab: Anabranch, catalog: Any, here: Served) -> None:
    ab.sql("CREATE VIEW shop.v AS SELECT id FROM shop.sales")
    pinned = here.catalog("pinned")
    ab.sql("INSERT INTO shop.sales VALUES (3, 'eu')")
    ab.sql("CREATE OR REPLACE VIEW shop.v AS SELECT region FROM shop.sales")
    ab.sql("CREATE VIEW shop.later AS SELECT 1 AS x")
    ab.sql("INSERT INTO shop.sales VALUES (4, 'eu')")
    assert texts(pinned.load_view("shop.v")) == ["SELECT id FROM shop.sales"]
    assert pinned.list_views("shop") == [("shop", "v")]
    assert texts(catalog.load_view("shop.v")) == ["SELECT region FROM shop.sales"]


def test_our_sql_reads_a_view_that_another_engine_has_made(ab: Anabranch, catalog: Any) -> None:
    made = catalog.create_view(
        "shop.theirs",
        ID,
        version("SELECT id FROM sales WHERE id > 1", **{"default-catalog": "served"}),
    )
    assert texts(made) == ["SELECT id FROM sales WHERE id > 1"]
    assert ab.sql("SELECT * FROM shop.theirs").collect() == [(2,)]
    with pytest.raises(ViewAlreadyExistsError):
        catalog.create_view("shop.theirs", ID, version("SELECT 1 AS id"))
    ab.create_stream_table("shop.copy", "SELECT id FROM shop.theirs")
    assert ab.table("shop.copy").collect() == [(2,)]
    with pytest.raises(ForbiddenError, match="is read by"):
        catalog.drop_view("shop.theirs")
    ab.drop_stream_table("shop.copy")
    catalog.drop_view("shop.theirs")
    assert catalog.list_views("shop") == []


def test_a_view_without_a_text_for_us_is_kept_for_others(ab: Anabranch, catalog: Any) -> None:
    catalog.create_view("shop.trinos", ID, version("SELECT id FROM sales", "trino"))
    assert texts(catalog.load_view("shop.trinos")) == ["SELECT id FROM sales"]
    kept = ab._runtime.world().views[TableName.of("shop", "trinos")]
    assert kept.startswith("SELECT raise_error('view shop.trinos has no SQL that Anabranch reads")
    ab.sql("DROP TABLE shop.sales")  # such a view reads nothing of ours


def commit(here: Served, name: str, *updates: dict[str, Any], uuid: str | None = None) -> Any:
    needed = [] if uuid is None else [{"type": "assert-view-uuid", "uuid": uuid}]
    path = f"/iceberg/v1/latest/namespaces/shop/views/{name}"
    return here.ask("POST", path, json={"requirements": needed, "updates": list(updates)})


def test_views_are_replaced_and_renamed(ab: Anabranch, catalog: Any, here: Served) -> None:
    made = catalog.create_view("shop.v", ID, version("SELECT id FROM sales"))
    new = version("SELECT MAX(id) AS id FROM sales").model_dump(mode="json", by_alias=True)
    replace = (
        {"action": "add-view-version", "view-version": {**new, "version-id": 2}},
        {"action": "set-current-view-version", "view-version-id": -1},
        {"action": "set-properties", "updates": {"comment": "the last"}},
    )
    other = "00000000-0000-0000-0000-000000000000"
    assert commit(here, "v", *replace, uuid=other).status_code == 409
    done = commit(here, "v", *replace, uuid=made.metadata.view_uuid)
    assert done.status_code == 200 and done.json()["metadata"]["current-version-id"] == 2
    assert ab.sql("SELECT * FROM shop.v").collect() == [(2,)]
    assert commit(here, "v", {"action": "set-view-name"}).status_code == 400
    rename = {
        "source": {"namespace": ["shop"], "name": "v"},
        "destination": {"namespace": ["shop"], "name": "w"},
    }
    assert here.ask("POST", "/iceberg/v1/latest/views/rename", json=rename).status_code == 204
    assert catalog.list_views("shop") == [("shop", "w")]
    assert here.ask("POST", "/iceberg/v1/latest/views/rename", json=rename).status_code == 404
    ab.sql("CREATE STREAM TABLE shop.s AS SELECT id FROM shop.w")
    refused = commit(
        here,
        "w",
        {
            "action": "add-view-version",
            "view-version": {
                **new,
                "representations": [{"type": "sql", "sql": "SELECT 1 AS id", "dialect": "spark"}],
            },
        },
        {"action": "set-current-view-version", "view-version-id": -1},
    )
    assert refused.status_code == 403 and "is read by" in refused.json()["error"]["message"]
