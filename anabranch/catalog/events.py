"""What happened that somebody should know of: rows of the catalog, and lines of the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, event, func, insert, select

from anabranch.catalog import tables
from anabranch.names import TableName

MODE_CHANGED = "MODE_CHANGED"
REINITIALIZED = "REINITIALIZED"
FALLBACK = "FALLBACK"  # the way that was chosen failed, another was taken
ANALYSIS_FAILED = "ANALYSIS_FAILED"  # by a fault of ours: Spark judges the query alone
ROWS_LOST = "ROWS_LOST"  # files did not hold what Spark produced: refused
SUSPENDED = "SUSPENDED"
RESUMED = "RESUMED"
BEHIND = "BEHIND"  # a table that cannot keep its schedule
SNAPSHOT_TIMEOUT = "SNAPSHOT_TIMEOUT"
DIAMOND = "DIAMOND"  # a table that closes one
LEFT_OUT = "LEFT_OUT"  # a table that joins members of a refresh group without being in it
GROUP_ENDED = "GROUP_ENDED"
FOREIGN_WRITE = "FOREIGN_WRITE"  # another program wrote to a stream table
CATALOG_SILENT = "CATALOG_SILENT"  # an attached catalog that does not answer, or answers rubbish
CATALOG_BACK = "CATALOG_BACK"
UNSETTLED = "UNSETTLED"  # foreign tables that moved while they were observed, again and again
FOREIGN_GONE = "FOREIGN_GONE"  # a foreign table that its catalog does not have any more
FOREIGN_REPLACED = "FOREIGN_REPLACED"  # another table of the same name
FOREIGN_COLUMNS = "FOREIGN_COLUMNS"  # a foreign table whose columns changed
FOREIGN_UNREADABLE = "FOREIGN_UNREADABLE"  # a foreign table whose metadata cannot be read
WAITING = "WAITING"  # a table that cannot be refreshed because one that it reads cannot be
COLUMNS_KEPT = "COLUMNS_KEPT"  # of a source table, after a roll-back
CLUSTER_KEPT = "CLUSTER_KEPT"  # after a roll-back: somebody changed it since
OPTIONS_KEPT = "OPTIONS_KEPT"  # of a stream table, likewise
VIEW_BROKEN = "VIEW_BROKEN"  # by a deployment: somebody agreed to it
UNBOUNDED = "UNBOUNDED"  # a cycle in which counts may grow for ever
RECURSION = "RECURSION"  # a recursion that is recomputed for a change
UPKEEP = "UPKEEP"  # a table, or everything, that could not be tidied
COLLATION = "COLLATION"  # a column that is stored without its collation
LOUD = {
    FALLBACK,
    ANALYSIS_FAILED,
    ROWS_LOST,
    UPKEEP,
    SUSPENDED,
    BEHIND,
    SNAPSHOT_TIMEOUT,
    DIAMOND,
    LEFT_OUT,
    GROUP_ENDED,
    FOREIGN_WRITE,
    CATALOG_SILENT,
    UNSETTLED,
    FOREIGN_GONE,
    FOREIGN_REPLACED,
    FOREIGN_UNREADABLE,
    WAITING,
    UNBOUNDED,
    RECURSION,
    COLLATION,
    VIEW_BROKEN,
}  # shown unasked

log = logging.getLogger("anabranch")


@dataclass(frozen=True)
class Event:
    """`table` is None for what concerns no single table."""

    table: TableName | None
    kind: str
    message: str


def record(c: Connection, table: TableName | None, kind: str, message: str) -> None:
    add(c, [Event(table, kind, message)])


def add(c: Connection, events: Iterable[Event]) -> None:
    """Keep events; they are logged when the transaction commits, and not if it does not."""
    recorded = list(events)
    if not recorded:
        return
    at = tables.noted(c)
    rows = [
        {
            "at": at,
            "table_name": str(each.table) if each.table is not None else None,
            "kind": each.kind,
            "message": each.message,
        }
        for each in recorded
    ]
    c.execute(insert(tables.events), rows)

    def announce(_: Connection) -> None:
        for each in recorded:
            where = f"{each.table}: " if each.table is not None else ""
            level = logging.WARNING if each.kind in LOUD else logging.INFO
            log.log(level, "%s%s (%s)", where, each.message, each.kind)

    event.listen(c, "commit", announce, once=True)


def listing(
    c: Connection, table: TableName | None = None, limit: int | None = None
) -> list[dict[str, Any]]:
    """Newest first."""
    statement = select(tables.events).order_by(tables.events.c.event_id.desc())
    if table is not None:
        statement = statement.where(tables.events.c.table_name == str(table))
    if limit is not None:
        statement = statement.limit(limit)
    return [_shown(dict(row)) for row in c.execute(statement).mappings()]


def suspended_since(c: Connection, names: Iterable[TableName]) -> dict[TableName, datetime]:
    """When the tables were put out the last time, by somebody or after failures."""
    found = tables.events.c
    wanted = found.table_name.in_([str(name) for name in names])
    chosen = select(found.table_name, func.max(found.at).label("at"))
    rows = c.execute(chosen.where(wanted, found.kind == SUSPENDED).group_by(found.table_name))
    return {TableName.parse(row.table_name): row.at for row in rows}


def tables_with_events(c: Connection) -> set[TableName]:
    found = tables.events.c.table_name
    rows = c.execute(select(found).where(found.is_not(None)).distinct())
    return {TableName.parse(name) for name in rows.scalars()}


def forget(c: Connection, before: datetime) -> int:
    return c.execute(delete(tables.events).where(tables.events.c.at < before)).rowcount


def _shown(row: dict[Any, Any]) -> dict[str, Any]:
    return {("table" if key == "table_name" else key): value for key, value in row.items()}
