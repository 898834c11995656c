"""Our rows come back as they were written."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from anabranch.catalog import cuts, events, history, streams, tables, views
from anabranch.catalog.cuts import Version
from anabranch.catalog.history import COMPLETED, FAILED, Refresh
from anabranch.catalog.store import Store
from anabranch.catalog.streams import Input, StreamTable
from anabranch.model import Action, RefreshMode, Status
from anabranch.names import TableName
from anabranch.settings import Settings
from anabranch.tables.options import with_defaults

A, B = TableName.of("shop", "a"), TableName.of("my shop", "x.y")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "catalog.db")


PART = st.text(min_size=1, max_size=6).filter(lambda part: "\0" not in part)


@given(st.lists(PART, min_size=1, max_size=3))
def test_names_are_kept_without_doubt(parts: list[str]) -> None:
    name = TableName.of(*parts)
    assert TableName.parse(str(name)) == name


def test_stream_tables(store: Store) -> None:
    a = StreamTable(A, "SELECT 1", "f1", schedule="2s", options={"x": [1, "y"]})
    b = StreamTable(B, "SELECT 2", "f2", RefreshMode.FULL, status=Status.ACTIVE, populated=True)
    with store.writing() as c:
        streams.add(c, [a, b])
        streams.add(c, [])
        moment = tables.now()
        assert streams.change(c, A, status=Status.ERROR, last_error="boom", consecutive_errors=2)
        assert not streams.change(c, TableName.of("no", "such"), populated=True)
        streams.touch(c, [B], moment)
    with store.reading() as c:
        changed = replace(a, status=Status.ERROR, last_error="boom", consecutive_errors=2)
        assert streams.all_streams(c) == {A: changed, B: replace(b, last_refresh_at=moment)}
        assert streams.get(c, A) == changed and streams.get(c, TableName.of("no", "x")) is None
    with store.writing() as c:
        streams.set_dependencies(c, {A: [B, B], B: []})
        assert streams.remove(c, A) and not streams.remove(c, A)
        assert streams.dependencies(c) == {}


def kept_consistency(store: Store, said: dict[str, str], setting: str) -> str:
    """What the catalog holds of a table that was made with these options."""
    options = with_defaults(said, Settings().with_("diamond_consistency", setting))
    with store.writing() as c:
        streams.add(c, [StreamTable(A, "SELECT 1", "f", **options)])
    with store.reading() as c:
        found = streams.get(c, A)
    assert found is not None
    return found.diamond_consistency


@pytest.mark.parametrize("setting", ["atomic", "none"])
def test_catalog_diamond_consistency_default(store: Store, setting: str) -> None:
    assert kept_consistency(store, {}, setting) == setting


@pytest.mark.parametrize("said", ["atomic", "none"])
@pytest.mark.parametrize("setting", ["atomic", "none"])
def test_catalog_diamond_consistency_override(store: Store, setting: str, said: str) -> None:
    assert kept_consistency(store, {"diamond_consistency": said}, setting) == said


def test_what_tables_stand_on(store: Store) -> None:
    s, t = TableName.of("s"), TableName.of("t")
    with store.writing() as c:
        streams.set_dependencies(c, {A: [s, t], B: [A]})
        streams.set_dependencies(c, {A: [s]})
        streams.set_inputs(
            c, {A: {s: Input("m1", 1), t: Input("m2", None)}, B: {A: Input("m3", 3)}}
        )
        streams.set_inputs(c, {A: {s: Input("m4", 4)}})
        streams.set_frontiers(c, {A: {s: 5, t: None}, B: {s: 4}})
    with store.reading() as c:
        assert streams.dependencies(c) == {A: (s,), B: (A,)}
        assert streams.inputs(c) == {A: {s: Input("m4", 4)}, B: {A: Input("m3", 3)}}
        assert streams.frontiers(c) == {A: {s: 5, t: None}, B: {s: 4}}
        assert streams.needed_snapshots(c) == {s: {4, 5}, A: {3}}


def test_views(store: Store) -> None:
    with store.writing() as c:
        views.add(c, B, "SELECT 1")
        assert views.all_views(c) == {B: "SELECT 1"}
        assert views.remove(c, B) and not views.remove(c, B)


def publish(store: Store) -> int:
    with store.writing() as c:
        cut_id = cuts.advance(c)
        cuts.add(c, cut_id, "insert", [])
    return cut_id


def replace_view(store: Store, text: str | None) -> None:
    with store.writing() as c:
        views.remove(c, B)
        if text is not None:
            views.add(c, B, text)


def test_a_cut_shows_views_as_they_were_when_it_ended(store: Store) -> None:
    before = publish(store)
    for text in ("first", "second", None, "third"):
        replace_view(store, "never seen by a cut that ended")
        replace_view(store, text)
        publish(store)
        publish(store)  # nothing changed in between
    replace_view(store, "newest")
    with store.reading() as c:
        seen = [views.views_at(c, cut).get(B) for cut in range(before - 1, cuts.current(c))]
        assert seen == [
            None, "first", "first", "second", "second", None, None, "third", "third",
        ]  # fmt: skip
        assert views.all_views(c) == {B: "newest"}
    with store.writing() as c:
        cuts.forget(c, 4)
    with store.reading() as c:
        assert [views.views_at(c, cut).get(B) for cut in (4, 5, 6, 7)] == [
            "second", None, None, "third",
        ]  # fmt: skip
        left = c.execute(select(tables.view_versions.c.query)).scalars().all()
        assert sorted(left, key=str) == [None, "second", "third"]


def test_history(store: Store) -> None:
    old = Refresh(A, Action.FULL, COMPLETED, started_at=tables.now() - timedelta(days=9))
    new = Refresh(A, Action.DIFFERENTIAL, COMPLETED, cut_id=3, reason="2 rows", rows_inserted=2)
    other = Refresh(B, Action.NO_DATA, COMPLETED)
    with store.writing() as c:
        history.add(c, [old, new, other])
    with store.reading() as c:
        found = history.listing(c, A)
        assert [line["action"] for line in found] == ["DIFFERENTIAL", "FULL"]
        assert found[0]["table"] == "shop.a" and found[0]["rows_inserted"] == 2
        assert [line["refresh_id"] for line in history.listing(c, limit=2)] == [3, 2]
        assert {name: line["cut_id"] for name, line in history.latest(c).items()} == {A: 3, B: None}
    with store.writing() as c:
        assert history.forget(c, tables.now() - timedelta(days=1)) == 1


def test_the_last_runs_of_a_table(store: Store) -> None:
    full = Refresh(A, Action.FULL, COMPLETED, source_rows=7, scanned_rows=9, predicted_ms=400)
    many = [Refresh(A, Action.DIFFERENTIAL, COMPLETED, delta_rows=at) for at in range(5)]
    failed = replace(many[0], status=FAILED, delta_rows=99)
    with store.writing() as c:
        history.add(c, [full, *many, failed, replace(full, table=B)])
    with store.reading() as c:
        assert history.last_runs(c, A, Action.FULL, 3) == [full]
        found = history.last_runs(c, A, Action.DIFFERENTIAL, 3)
        assert [line.delta_rows for line in found] == [4, 3, 2]
        assert history.last_runs(c, A, Action.REINITIALIZE, 3) == []


def test_events(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="anabranch")
    with store.writing() as c:
        events.record(c, A, events.MODE_CHANGED, "FULL after DIFFERENTIAL")
        events.record(c, None, "STARTED", "the scheduler has begun")
        assert caplog.messages == [], "nothing has happened before the commit"
    assert caplog.messages == [
        "shop.a: FULL after DIFFERENTIAL (MODE_CHANGED)",
        "the scheduler has begun (STARTED)",
    ]
    with pytest.raises(ZeroDivisionError), store.writing() as c:
        events.record(c, B, events.REINITIALIZED, "never said")
        raise ZeroDivisionError
    assert len(caplog.messages) == 2
    with store.reading() as c:
        found = events.listing(c)
        assert [each["event_id"] for each in found] == [2, 1]
        assert set(found[0]) == {"event_id", "at", "table", "kind", "message"}
        assert [each["table"] for each in events.listing(c, A, limit=5)] == ["shop.a"]
        assert events.listing(c, limit=1) == found[:1]
    with store.writing() as c:
        assert events.forget(c, tables.now() + timedelta(seconds=1)) == 2


def test_cuts(store: Store) -> None:
    with store.writing() as c:
        for versions in ([Version(A, "a1", 1)], [Version(B, "b1")], [Version(A, "a2", 2)]):
            cuts.add(c, cuts.advance(c), "test", versions)
        cuts.add(c, cuts.advance(c), "test", [Version(A, None)])
        shown = [cuts.pointers_at(c, cut) for cut in (1, 2, 3, 4)]
        assert shown == [{A: "a1"}, {A: "a1", B: "b1"}, {A: "a2", B: "b1"}, {B: "b1"}]
        assert [line["tables"] for line in cuts.listing(c)] == [
            [str(A)],
            [str(A)],
            [str(B)],
            [str(A)],
        ]
        assert cuts.forget(c, 3) == 2
        assert cuts.pointers_at(c, 3) == shown[2] and cuts.pointers_at(c, 4) == shown[3]
        assert {each.metadata_location for each in cuts.known_versions(c)} == {"a2", "b1"}
        assert cuts.forget(c, 99) == 1
        assert cuts.pointers_at(c, 4) == shown[3]


def test_looking_through_a_thousand_tables(store: Store) -> None:
    names = [TableName.of("shop", f"t{at}") for at in range(1000)]
    with store.writing() as c:
        streams.add(c, [StreamTable(name, "SELECT 1", "f") for name in names])
        streams.set_inputs(c, {name: {A: Input("m", 1)} for name in names})
        streams.touch(c, names, tables.now())
        history.add(c, [Refresh(name, Action.NO_DATA, COMPLETED) for name in names])
    with store.reading() as c:
        assert len(streams.all_streams(c)) == len(streams.inputs(c)) == 1000
        assert len(history.latest(c)) == 1000
