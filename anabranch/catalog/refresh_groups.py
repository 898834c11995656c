"""Refresh groups: stream tables that the user declared to move together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from anabranch.catalog import tables
from anabranch.catalog.remembered import once
from anabranch.names import TableName


@dataclass(frozen=True)
class RefreshGroup:
    name: str
    members: tuple[TableName, ...]
    isolation: str = "repeatable_read"
    snapshot_timeout_ms: int = 0
    created_at: datetime = field(default_factory=tables.now)


def add(c: Connection, group: RefreshGroup) -> None:
    c.execute(insert(tables.refresh_groups).values(**_row(group)))


def change(c: Connection, group: RefreshGroup) -> None:
    """Replace what is kept of a group."""
    table = tables.refresh_groups
    values = _row(group)
    c.execute(update(table).where(table.c.name == values.pop("name")).values(**values))


def remove(c: Connection, name: str) -> bool:
    table = tables.refresh_groups
    return c.execute(delete(table).where(table.c.name == name)).rowcount == 1


@once(tables.refresh_groups)
def all_groups(c: Connection) -> dict[str, RefreshGroup]:
    table = tables.refresh_groups
    rows = c.execute(select(table).order_by(table.c.name)).mappings()
    return {row["name"]: _group(dict(row)) for row in rows}


def find(name: str, known: Iterable[str]) -> str | None:
    """A group's name as it is kept: the same letters, else the only one that differs in case."""
    alike = [each for each in known if each.lower() == name.lower()]
    return name if name in alike else alike[0] if len(alike) == 1 else None


def leave(c: Connection, member: TableName) -> list[RefreshGroup]:
    """Take a table out of its group; groups of fewer than two tables end and are returned."""
    ended = []
    for group in all_groups(c).values():
        if member not in group.members:
            continue
        rest = [str(each) for each in group.members if each != member]
        if len(rest) < 2:
            remove(c, group.name)
            ended.append(group)
            continue
        table = tables.refresh_groups
        c.execute(update(table).where(table.c.name == group.name).values(members=rest))
    return ended


def _row(group: RefreshGroup) -> dict[str, Any]:
    return {**vars(group), "members": [str(each) for each in group.members]}


def _group(row: dict[Any, Any]) -> RefreshGroup:
    members = tuple(TableName.parse(each) for each in row["members"])
    return RefreshGroup(**{**row, "members": members})
