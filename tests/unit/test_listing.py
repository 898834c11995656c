"""Listings from catalog rows alone."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from anabranch import listing
from anabranch.catalog import events, history, refresh_groups, streams, views
from anabranch.catalog.history import COMPLETED, Refresh
from anabranch.catalog.refresh_groups import RefreshGroup
from anabranch.catalog.store import Store
from anabranch.catalog.streams import StreamTable
from anabranch.catalog.tables import now
from anabranch.errors import UnknownName
from anabranch.model import Action, Status
from anabranch.names import TableName
from anabranch.settings import Settings


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "catalog.db")


def fill(store: Store, reads: dict[str, list[str]], **options: object) -> None:
    graph = {TableName.of("shop", name): ups for name, ups in reads.items()}
    rows = [
        StreamTable(name, "SELECT 1", "f", status=Status.ACTIVE, last_refresh_at=now(), **options)  # type: ignore[arg-type]
        for name in graph
    ]
    with store.writing() as c:
        streams.add(c, rows)
        streams.set_dependencies(
            c, {name: [TableName.of("shop", up) for up in ups] for name, ups in graph.items()}
        )


def test_the_graph_with_groups_and_epochs(store: Store) -> None:
    fill(store, {"b": ["a"], "c": ["a"], "d": ["b", "c"], "e": ["x"], "f": ["y"]}, epoch=4)
    with store.writing() as c:
        members = (TableName.of("shop", "e"), TableName.of("shop", "f"))
        refresh_groups.add(c, RefreshGroup("night", members))
    shown = listing.graph(store)
    groups = {group.members: (group.declared, group.epoch) for group in shown.groups}
    assert groups == {
        ("shop.b", "shop.c", "shop.d"): ((), 4),
        ("shop.e", "shop.f"): (("night",), 4),
    }
    facts = shown.tables[-1].facts
    assert facts and facts.status == "ACTIVE" and 0 <= (facts.staleness_seconds or 0) < 60


def test_views_are_called_views(store: Store) -> None:
    fill(store, {"b": ["a", "v"]})
    with store.writing() as c:
        views.add(c, TableName.of("shop", "v"), "SELECT 1")
    kinds = {each.name: each.kind for each in listing.graph(store).tables}
    assert kinds == {"shop.a": "source table", "shop.v": "view", "shop.b": "stream table"}


def test_tables_that_opted_out_are_in_no_group(store: Store) -> None:
    fill(store, {"b": ["a"], "c": ["a"], "d": ["b", "c"]}, diamond_consistency="none")
    shown = listing.graph(store)
    assert shown.groups == ()
    assert [each.name for each in shown.tables if each.converges] == ["shop.d"]


def test_the_graph_around_a_table(store: Store) -> None:
    fill(store, {"b": ["a"], "z": ["y"]})
    shown = listing.graph(store, TableName.of("shop", "a"))
    assert [each.name for each in shown.tables] == ["shop.a", "shop.b"]
    with pytest.raises(UnknownName, match="no stream table is or reads shop.q"):
        listing.graph(store, TableName.of("shop", "q"))


def test_a_thousand_tables_well_under_a_second(store: Store) -> None:
    fill(store, {f"t{at}": [f"t{at - 40}" if at >= 40 else "a"] for at in range(1000)})
    started = time.process_time()
    assert len(listing.graph(store).tables) == 1001
    assert time.process_time() - started < 3  # 0.3 s on a quiet machine: machines differ


def test_names_are_found_whatever_their_case(store: Store) -> None:
    fill(store, {"By_Region": ["Sales"]})
    gone, kept = TableName.of("shop", "Gone"), TableName.of("shop", "By_Region")
    with store.writing() as c:
        history.add(c, [Refresh(each, Action.FULL, COMPLETED) for each in (gone, kept)])
        events.record(c, kept, events.REINITIALIZED, "anew")
    asked = TableName.of("SHOP", "by_region")
    assert [line["table"] for line in listing.history(store, asked)] == ["shop.By_Region"]
    assert [each["message"] for each in listing.events(store, asked)] == ["anew"]
    assert listing.dependency_tree(store, asked)["name"] == "shop.By_Region"
    assert listing.dependency_tree(store, TableName.of("shop", "SALES"))["name"] == "shop.Sales"
    assert {each.name for each in listing.graph(store, asked).tables} == {
        "shop.By_Region", "shop.Sales",
    }  # fmt: skip
    assert [line["table"] for line in listing.history(store, TableName.of("shop", "GONE"))] == [
        "shop.Gone"
    ]
    assert listing.events(store, TableName.of("shop", "BY_REGION"), limit=1)
    for ask in (listing.history, listing.events, listing.dependency_tree, listing.graph):
        with pytest.raises(UnknownName, match="shop.by_regoin"):
            ask(store, TableName.of("shop", "by_regoin"))


def test_a_table_without_lines_has_an_empty_history(store: Store) -> None:
    fill(store, {"b": ["a"]})
    assert listing.history(store, TableName.of("shop", "B")) == []
    assert listing.events(store, TableName.of("shop", "B")) == []


def test_every_listing_has_the_columns_of_its_view() -> None:
    assert listing.COLUMNS.keys() == {*listing.SYSTEM_VIEWS, "settings"}
    assert set(listing.COLUMNS["settings"]) == set(Settings().rows()[0])
