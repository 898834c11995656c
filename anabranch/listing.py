"""Listings: what status(), history(), cuts() and the system views show; catalog rows only."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from anabranch.catalog import cuts as cut_rows
from anabranch.catalog import events as event_rows
from anabranch.catalog import history as history_rows
from anabranch.catalog import streams
from anabranch.catalog.store import Connection, Store
from anabranch.catalog.streams import StreamTable
from anabranch.errors import UnknownName
from anabranch.names import TableName

Rows = list[dict[str, Any]]


def status(store: Store) -> Rows:
    """Every stream table and where it stands."""
    now = datetime.now(timezone.utc)
    with store.reading() as c:
        frontiers = streams.frontiers(c)
        found = streams.all_streams(c)
    return [_status(stream, frontiers.get(name, {}), now) for name, stream in found.items()]


def _status(
    stream: StreamTable, frontier: dict[TableName, int | None], now: datetime
) -> dict[str, Any]:
    refreshed = stream.last_refresh_at
    return {
        "name": str(stream.name),
        "kind": "stream table",
        "status": stream.status.value,
        "refresh_mode": stream.refresh_mode.value,
        "schedule": stream.schedule,
        "populated": stream.populated,
        "frontier": {str(source): snapshot for source, snapshot in sorted(frontier.items())},
        "last_refresh_at": refreshed,
        "staleness_seconds": (now - refreshed).total_seconds() if refreshed else None,
        "consecutive_errors": stream.consecutive_errors,
        "group_id": None,
        "scc_id": None,
        "last_error": stream.last_error,
        "diamond_consistency": stream.diamond_consistency,
        "diamond_schedule_policy": stream.diamond_schedule_policy,
        "query": stream.query,
    }


def history(store: Store, name: TableName | None, limit: int | None = None) -> Rows:
    """Refreshes, newest first."""
    with store.reading() as c:
        found = history_rows.listing(c, name, limit)
        if name is not None and not found:
            _check_known(c, name)
    return found


def events(store: Store, name: TableName | None = None, limit: int | None = None) -> Rows:
    """What users should know of, newest first."""
    with store.reading() as c:
        found = event_rows.listing(c, name, limit)
        if name is not None and not found:
            _check_known(c, name)
    return found


def _check_known(c: Connection, name: TableName) -> None:
    known = streams.all_streams(c)
    if name not in known:
        shown = [str(each) for each in known]
        raise UnknownName(f"there is no stream table {name}", name=str(name), known=shown)


def cuts(store: Store, limit: int | None = None) -> Rows:
    """Publishes, newest first."""
    with store.reading() as c:
        return cut_rows.listing(c, limit)


def dependencies(store: Store) -> Rows:
    with store.reading() as c:
        found = streams.dependencies(c)
    return [
        {"table": str(name), "upstream": str(upstream)}
        for name, upstreams in found.items()
        for upstream in upstreams
    ]


def dependency_tree(store: Store, name: TableName) -> dict[str, Any]:
    """The table and what it reads, down to the sources."""
    with store.reading() as c:
        reads, known = streams.dependencies(c), streams.all_streams(c)

    def node(at: TableName) -> dict[str, Any]:
        return {
            "name": str(at),
            "kind": "stream table" if at in known else "source",
            "reads": [node(below) for below in reads.get(at, ())],
        }

    return node(name)


SYSTEM_VIEWS: dict[str, Callable[[Store], Rows]] = {
    "stream_tables": status,
    "refresh_history": lambda store: history(store, None),
    "dependencies": dependencies,
    "cuts": cuts,
    "events": events,
}

_TIME, _INT, _TEXT = "timestamp", "bigint", "string"
COLUMNS: dict[str, dict[str, str]] = {
    "stream_tables": {
        "name": _TEXT,
        "kind": _TEXT,
        "status": _TEXT,
        "refresh_mode": _TEXT,
        "schedule": _TEXT,
        "populated": "boolean",
        "frontier": _TEXT,
        "last_refresh_at": _TIME,
        "staleness_seconds": "double",
        "consecutive_errors": _INT,
        "group_id": _INT,
        "scc_id": _INT,
        "last_error": _TEXT,
        "query": _TEXT,
    },
    "refresh_history": {
        "refresh_id": _INT,
        "table": _TEXT,
        "cut_id": _INT,
        "action": _TEXT,
        "status": _TEXT,
        "reason": _TEXT,
        "rows_inserted": _INT,
        "rows_deleted": _INT,
        "delta_rows": _INT,
        "duration_ms": _INT,
        "epoch": _INT,
        "fixpoint_iterations": _INT,
        "tick_watermark": _INT,
        "initiated_by": _TEXT,
        "error": _TEXT,
        "started_at": _TIME,
        "source_rows": _INT,
        "scanned_rows": _INT,
        "predicted_ms": _INT,
        "alternative_ms": _INT,
    },
    "dependencies": {"table": _TEXT, "upstream": _TEXT},
    "cuts": {"cut_id": _INT, "published_at": _TIME, "kind": _TEXT, "tables": _TEXT},
    "events": {
        "event_id": _INT,
        "at": _TIME,
        "table": _TEXT,
        "kind": _TEXT,
        "message": _TEXT,
    },
    "settings": {"name": _TEXT, "value": _TEXT, "default": _TEXT, "meaning": _TEXT},
}
