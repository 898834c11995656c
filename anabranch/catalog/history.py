"""What every refresh did, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select, union_all

from anabranch.catalog import tables
from anabranch.catalog.tables import PARTS
from anabranch.model import Action
from anabranch.names import TableName

COMPLETED, FAILED, SKIPPED = "COMPLETED", "FAILED", "SKIPPED"


@dataclass(frozen=True)
class Refresh:
    """One line of history."""

    table: TableName
    action: Action
    status: str
    cut_id: int | None = None
    reason: str | None = None
    rows_inserted: int = 0
    rows_deleted: int = 0
    delta_rows: int = 0
    duration_ms: int = 0
    epoch: int | None = None
    fixpoint_iterations: int | None = None
    tick_watermark: int | None = None
    initiated_by: str = "manual"
    error: str | None = None
    started_at: datetime = field(default_factory=tables.now)
    source_rows: int | None = None
    scanned_rows: int | None = None  # rows that were read besides the delta
    predicted_ms: int | None = None
    alternative_ms: int | None = None  # of the way not taken, where there was a choice
    stands_at: int | None = None  # the cut whose sources the table equals its query over
    reason_code: str | None = None  # see `refresh.decide`; the reason is for people
    rounds: str | None = None  # of a fixed point, as JSON: rows that each took away and added


def began(duration_ms: int) -> datetime:
    """When a refresh began that took so long and ends now, by the clock on the wall."""
    return tables.now() - timedelta(milliseconds=duration_ms)


def add(c: Connection, refreshes: Iterable[Refresh]) -> None:
    rows, ahead = [], tables.ahead(c)
    for refresh in refreshes:
        row = vars(refresh) | {"action": refresh.action.value, "table_name": str(refresh.table)}
        row["started_at"] = refresh.started_at - ahead
        del row["table"]
        rows.append(row)
    if rows:
        c.execute(insert(tables.history), rows)


def listing(
    c: Connection, table: TableName | None = None, limit: int | None = None
) -> list[dict[str, Any]]:
    """Newest first."""
    statement = select(tables.history).order_by(tables.history.c.refresh_id.desc())
    if table is not None:
        statement = statement.where(tables.history.c.table_name == str(table))
    if limit is not None:
        statement = statement.limit(limit)
    return [_shown(dict(row)) for row in c.execute(statement).mappings()]


def tables_with_lines(c: Connection) -> set[TableName]:
    rows = c.execute(select(tables.history.c.table_name).distinct())
    return {TableName.parse(name) for name in rows.scalars()}


def last_runs(c: Connection, table: TableName, action: Action, limit: int) -> list[Refresh]:
    """The last refreshes of a table that did the given thing to the end, newest first."""
    return last_runs_of(c, [table], {action: limit})[table][action]


def last_runs_of(
    c: Connection, names: Iterable[TableName], limits: Mapping[Action, int]
) -> dict[TableName, dict[Action, list[Refresh]]]:
    """The same of several tables and things to do: as many rows are read as are asked for."""
    known = {name: {action: list[Refresh]() for action in limits} for name in names}
    wanted = [
        _last_runs(str(name), action.value, limit)
        for name in known
        for action, limit in limits.items()
    ]
    rows = [
        dict(row)
        for start in range(0, len(wanted), PARTS)
        for row in c.execute(union_all(*wanted[start : start + PARTS])).mappings()
    ]
    for row in sorted(rows, key=lambda row: int(row["refresh_id"]), reverse=True):
        line = _refresh(row)
        known[line.table][line.action].append(line)
    return known


def _last_runs(table: str, action: str, limit: int) -> Select[Any]:
    found = tables.history.c
    last = (
        select(tables.history)
        .where(found.table_name == table, found.action == action, found.status == COMPLETED)
        .order_by(found.refresh_id.desc())
        .limit(limit)
    )
    return select(last.subquery())


def latest(c: Connection) -> dict[TableName, dict[str, Any]]:
    """The last line of every table."""
    last = select(func.max(tables.history.c.refresh_id)).group_by(tables.history.c.table_name)
    rows = c.execute(select(tables.history).where(tables.history.c.refresh_id.in_(last)))
    return {TableName.parse(row["table_name"]): _shown(dict(row)) for row in rows.mappings()}


def last_fixed_points(c: Connection) -> dict[TableName, dict[str, Any]]:
    """The last line of every table that tells the rounds of a fixed point."""
    done = tables.history.c.fixpoint_iterations.is_not(None)
    last = select(func.max(tables.history.c.refresh_id)).where(done)
    last = last.group_by(tables.history.c.table_name)
    rows = c.execute(select(tables.history).where(tables.history.c.refresh_id.in_(last)))
    return {TableName.parse(row["table_name"]): _shown(dict(row)) for row in rows.mappings()}


def stuck_since(c: Connection, names: Iterable[TableName]) -> dict[TableName, datetime]:
    """Since when the tables have failed or been skipped, if that is what they did last."""
    row_of, table = tables.history.c, tables.history.alias()
    wanted = row_of.table_name.in_([str(name) for name in names])
    done = (
        select(func.coalesce(func.max(table.c.refresh_id), 0))
        .where(table.c.table_name == row_of.table_name, table.c.status == COMPLETED)
        .correlate(tables.history)
        .scalar_subquery()
    )
    first = (
        select(row_of.table_name, func.min(row_of.refresh_id).label("first"))
        .where(wanted, row_of.status != COMPLETED, row_of.refresh_id > done)
        .group_by(row_of.table_name)
        .subquery()
    )
    rows = c.execute(
        select(row_of.table_name, row_of.started_at).join(first, first.c.first == row_of.refresh_id)
    )
    return {TableName.parse(row.table_name): row.started_at for row in rows}


def forget(c: Connection, before: datetime) -> int:
    return c.execute(delete(tables.history).where(tables.history.c.started_at < before)).rowcount


def _refresh(row: dict[Any, Any]) -> Refresh:
    values = {key: value for key, value in row.items() if key not in ("refresh_id", "table_name")}
    values["action"] = Action(values["action"])
    return Refresh(table=TableName.parse(row["table_name"]), **values)


def _shown(row: dict[Any, Any]) -> dict[str, Any]:
    return {("table" if key == "table_name" else key): value for key, value in row.items()}
