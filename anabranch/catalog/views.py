"""Views: names for queries, kept as text."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from anabranch.catalog import tables
from anabranch.names import TableName


def add(c: Connection, name: TableName, query: str) -> None:
    c.execute(insert(tables.views).values(name=str(name), query=query, created_at=tables.now()))


def remove(c: Connection, name: TableName) -> bool:
    return c.execute(delete(tables.views).where(tables.views.c.name == str(name))).rowcount == 1


def all_views(c: Connection) -> dict[TableName, str]:
    rows = c.execute(select(tables.views.c.name, tables.views.c.query).order_by("name"))
    return {TableName.parse(row.name): row.query for row in rows}
