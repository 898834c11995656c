"""A catalog made before tables of ours had all their columns is brought up to date when opened."""

from __future__ import annotations

from sqlalchemy import inspect, text, update

from anabranch.catalog import cuts, events, history, streams, tables, views
from anabranch.catalog.history import COMPLETED, Refresh
from anabranch.catalog.lineage import lineage_of, set_lineage
from anabranch.catalog.store import Store
from anabranch.catalog.streams import StreamTable
from anabranch.model import Action
from anabranch.names import TableName

T = TableName.of("shop", "t")
ADDED = {"source_rows", "scanned_rows", "predicted_ms", "alternative_ms"}


def make_older(store: Store) -> None:
    with store.writing() as c:
        history.add(c, [Refresh(T, Action.FULL, COMPLETED, reason="old")])
        c.execute(text("DROP TABLE ab_events"))
        c.execute(text("DROP TABLE ab_boots"))
        c.execute(text("DROP INDEX ab_history_action"))
        for column in sorted(ADDED):
            c.execute(text(f"ALTER TABLE ab_history DROP COLUMN {column}"))
        c.execute(update(tables.meta).values(format_version=1))


def test_missing_columns_tables_and_indexes_are_made(catalog_url: str) -> None:
    older = Store.open(catalog_url)
    make_older(older)
    older.close()
    store = Store.open(catalog_url)
    with store.writing() as c:
        history.add(c, [Refresh(T, Action.FULL, COMPLETED, predicted_ms=3)])
        events.record(c, T, events.MODE_CHANGED, "new")
    with store.reading() as c:
        assert [line["predicted_ms"] for line in history.listing(c)] == [3, None]
        assert [line.scanned_rows for line in history.last_runs(c, T, Action.FULL, 5)] == [None] * 2
        assert [each["message"] for each in events.listing(c, T)] == ["new"]
        indexes = {each["name"] for each in inspect(c).get_indexes("ab_history")}
        assert {"ab_history_action", "ab_history_table"} <= indexes
        boots = c.execute(text("SELECT count(*) FROM ab_boots")).scalar_one()
        assert boots == (1 if store.is_sqlite else 0), (
            "a catalog in a file goes by its machine's clock"
        )
    assert store.catalog_uuid == older.catalog_uuid
    store.close()


def test_stream_tables_of_older_catalogs_have_no_lineage_yet(catalog_url: str) -> None:
    older = Store.open(catalog_url)
    with older.writing() as c:
        streams.add(c, [StreamTable(T, "SELECT 1 AS x", "f")])
        c.execute(text("ALTER TABLE ab_stream_tables DROP COLUMN lineage"))
        c.execute(update(tables.meta).values(format_version=16))
    older.close()
    store = Store.open(catalog_url)
    with store.writing() as c:
        assert lineage_of(c, [T]) == {T: None}
        set_lineage(c, {T: {"columns": [], "decides": []}})
        assert lineage_of(c, [T]) == {T: {"columns": [], "decides": []}}
    store.close()


def test_views_of_older_catalogs_are_taken_to_have_been_as_they_are(catalog_url: str) -> None:
    older = Store.open(catalog_url)
    with older.writing() as c:
        cuts.add(c, cuts.advance(c), "insert", [])
        views.add(c, T, "SELECT 1")
        c.execute(text("DROP TABLE ab_view_versions"))
        c.execute(update(tables.meta).values(format_version=1))
    older.close()
    store = Store.open(catalog_url)
    with store.writing() as c:
        views.remove(c, T)
        cuts.add(c, cuts.advance(c), "insert", [])
    with store.reading() as c:
        assert [views.views_at(c, cut) for cut in (0, 1)] == [{T: "SELECT 1"}, {}]
    store.close()
