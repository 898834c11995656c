"""Reading by the Iceberg REST protocol, with PyIceberg's own client: versions, pages, tags."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.exceptions import BadRequestError, NoSuchNamespaceError, NoSuchTableError

from anabranch import Anabranch
from anabranch.catalog import cuts, read_leases, tables
from tests.serve.running import Served


@pytest.fixture
def shop(ab: Anabranch) -> Anabranch:
    ab.sql("CREATE TABLE shop.sales (id BIGINT, region STRING)")
    ab.sql("INSERT INTO shop.sales VALUES (1, 'eu')")
    ab.create_stream_table(
        "shop.by_region", "SELECT region, COUNT(*) AS n FROM shop.sales GROUP BY region"
    )
    return ab


def rows(catalog: Any, name: str) -> list[tuple[Any, ...]]:
    found = catalog.load_table(name).scan().to_arrow().to_pylist()
    return sorted(tuple(each.values()) for each in found)


def newest(ab: Anabranch) -> int:
    return int(ab.cuts(1)[0]["cut_id"])


def test_tables_are_read_with_only_the_columns_of_their_users(
    shop: Anabranch, here: Served
) -> None:
    catalog = here.catalog()
    assert catalog.list_namespaces() == [("shop",)]
    assert catalog.list_tables("shop") == [("shop", "by_region"), ("shop", "sales")]
    assert rows(catalog, "shop.by_region") == [("eu", 1)]
    assert catalog.table_exists("shop.sales") and not catalog.table_exists("shop.nothing")
    assert catalog.namespace_exists("shop") and not catalog.namespace_exists("elsewhere")
    with pytest.raises(NoSuchTableError):
        catalog.load_table("shop.nothing")
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables("elsewhere")


def test_latest_follows_and_a_cut_stays(shop: Anabranch, here: Served) -> None:
    before = newest(shop)
    latest, pinned, numbered = (
        here.catalog("latest"),
        here.catalog("pinned"),
        here.catalog(f"cut:{before}"),
    )
    shop.sql("INSERT INTO shop.sales VALUES (2, 'eu')")
    shop.refresh()
    assert rows(latest, "shop.by_region") == [("eu", 2)]
    for still in (pinned, numbered):
        assert rows(still, "shop.by_region") == [("eu", 1)]
        assert rows(still, "shop.sales") == [(1, "eu")]
    shop.sql("CREATE TABLE shop.later (x INT)")
    assert ("shop", "later") in latest.list_tables("shop")
    assert ("shop", "later") not in pinned.list_tables("shop")
    assert not pinned.table_exists("shop.later")


def test_a_pinned_cut_outlives_upkeep_and_a_cut_that_is_gone_is_no_missing_table(
    shop: Anabranch, here: Served
) -> None:
    pinned, before = here.catalog("pinned"), newest(shop)
    for number in range(3):
        shop.sql(f"INSERT INTO shop.sales VALUES ({number + 10}, 'eu')")
        shop.refresh()
    for name in ("snapshot_retention", "keep_all_cuts", "keep_minute_cuts"):
        shop.sql(f"SET anabranch.{name} = '0s'")
    shop.maintain()
    kept = [each["cut_id"] for each in shop.cuts()]
    assert before in kept and before + 1 not in kept
    assert rows(pinned, "shop.by_region") == [("eu", 1)]
    with pytest.raises(BadRequestError, match=f"cut {before + 1} has expired"):
        here.catalog(f"cut:{before + 1}")
    with pytest.raises(BadRequestError, match="there is no cut 999"):
        here.catalog("cut:999")
    gone = here.ask("GET", f"/iceberg/v1/cut-{before + 1}/namespaces/shop/tables/sales")
    assert gone.status_code == 400 and "expired" in gone.json()["error"]["message"]


def test_an_idle_pin_ends_and_is_taken_again(shop: Anabranch, here: Served) -> None:
    pinned, before = here.catalog("pinned"), newest(shop)
    shop.sql("SET anabranch.serve.pin_idle = '1ms'")

    def held() -> set[int]:
        with shop._store.writing() as c:
            return set(read_leases.held_cuts(c, tables.now(c)))

    assert held() == {before}
    here.app.server.pins.sweep()
    assert held() == set()
    assert rows(pinned, "shop.by_region") == [("eu", 1)]
    assert held() == {before}


def test_a_table_that_did_not_change_is_not_sent_again(shop: Anabranch, here: Served) -> None:
    path = "/iceberg/v1/latest/namespaces/shop/tables/sales"
    first = here.ask("GET", path)
    tag = first.headers["ETag"]
    again = here.ask("GET", path, headers={"If-None-Match": tag})
    assert again.status_code == 304 and again.content == b"" and again.headers["ETag"] == tag
    assert here.ask("GET", f"{path}?snapshots=refs").headers["ETag"] != tag
    shop.sql("INSERT INTO shop.sales VALUES (2, 'us')")
    changed = here.ask("GET", path, headers={"If-None-Match": tag})
    assert changed.status_code == 200 and changed.headers["ETag"] != tag
    refs = here.ask("GET", f"{path}?snapshots=refs").json()["metadata"]
    assert len(refs["snapshots"]) == 1 and len(changed.json()["metadata"]["snapshots"]) == 2


def test_listings_have_pages(shop: Anabranch, here: Served) -> None:
    for number in range(5):
        shop.sql(f"CREATE TABLE many.t{number} (x INT)")
    catalog = here.catalog(**{"rest-page-size": "2"})
    assert [name for _, name in catalog.list_tables("many")] == [f"t{each}" for each in range(5)]
    first = here.ask("GET", "/iceberg/v1/latest/namespaces/many/tables?pageSize=2").json()
    assert len(first["identifiers"]) == 2 and first["next-page-token"]
    assert here.ask("GET", "/iceberg/v1/latest/namespaces?pageSize=0").status_code == 400


def test_namespaces_have_levels_and_names_any_letters(shop: Anabranch, here: Served) -> None:
    shop.sql("CREATE TABLE db.inner.t (x INT)")
    shop.sql("CREATE TABLE shop.`a/b c+d%ü` (x INT)")
    catalog = here.catalog()
    assert ("db",) in catalog.list_namespaces()
    assert catalog.list_namespaces("db") == [("db", "inner")]
    assert catalog.list_tables(("db", "inner")) == [("db", "inner", "t")]
    assert catalog.load_table(("shop", "a/b c+d%ü")).name() == ("shop", "a/b c+d%ü")


def test_only_what_is_there_is_advertised(here: Served) -> None:
    latest = set(here.ask("GET", "/iceberg/v1/config").json()["endpoints"])
    answer = here.ask("GET", "/iceberg/v1/config?warehouse=pinned").json()
    assert answer["overrides"] == {"prefix": "cut-0"}
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in answer["endpoints"]
    assert set(answer["endpoints"]) <= latest
    assert not any(each.startswith(("POST", "DELETE")) for each in answer["endpoints"])
    assert here.ask("GET", "/iceberg/v1/config?warehouse=other").status_code == 404


def test_reading_starts_no_spark(shop: Anabranch, here: Served) -> None:
    with shop._store.reading() as c:
        assert cuts.current(c) > 0
    assert here.ask("GET", "/healthz", token="none").json()["status"] == "ok"
