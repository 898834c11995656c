"""A catalog made before tables of ours had all their columns is brought up to date when opened."""

from __future__ import annotations

from sqlalchemy import inspect, text

from anabranch.catalog import events, history
from anabranch.catalog.history import COMPLETED, Refresh
from anabranch.catalog.store import Store
from anabranch.model import Action
from anabranch.names import TableName

T = TableName.of("shop", "t")
ADDED = {"source_rows", "scanned_rows", "predicted_ms", "alternative_ms"}


def make_older(store: Store) -> None:
    with store.writing() as c:
        history.add(c, [Refresh(T, Action.FULL, COMPLETED, reason="old")])
        c.execute(text("DROP TABLE ab_events"))
        c.execute(text("DROP INDEX ab_history_action"))
        for column in sorted(ADDED):
            c.execute(text(f"ALTER TABLE ab_history DROP COLUMN {column}"))
        c.execute(text("ALTER TABLE ab_meta DROP COLUMN layout"))


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
    assert store.catalog_uuid == older.catalog_uuid
    store.close()
