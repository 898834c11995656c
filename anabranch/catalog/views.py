"""Views: names for queries, kept as text, and the texts that older cuts show.

Whoever changes a view changes its row alone.  The next publish notes what differs as the text that
the cut before it had, so that a cut shows each view as it was when the cut ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    JSON,
    Connection,
    String,
    and_,
    cast,
    delete,
    insert,
    null,
    or_,
    select,
    union_all,
    update,
)

from anabranch.catalog import tables
from anabranch.catalog.remembered import once
from anabranch.names import TableName

Record = Mapping[str, Any]


@dataclass(frozen=True)
class View:
    """The text that we read, and its metadata as an Iceberg view, where it has any."""

    query: str
    iceberg: Record | None = None


def add(c: Connection, name: TableName, query: str, iceberg: Record | None = None) -> None:
    c.execute(
        insert(tables.views).values(
            name=str(name), query=query, created_at=tables.now(), iceberg=iceberg
        )
    )


def remove(c: Connection, name: TableName) -> bool:
    return c.execute(delete(tables.views).where(tables.views.c.name == str(name))).rowcount == 1


@once(tables.views)
def all_views(c: Connection) -> dict[TableName, str]:
    rows = c.execute(select(tables.views.c.name, tables.views.c.query).order_by("name"))
    return {TableName.parse(row.name): row.query for row in rows}


def views_at(c: Connection, cut_id: int) -> dict[TableName, str]:
    """The views as a cut before the newest had them."""
    table = tables.view_versions
    statement = select(table.c.name, table.c.query).where(
        table.c.query.is_not(None),
        table.c.cut_id <= cut_id,
        or_(table.c.until_cut.is_(None), table.c.until_cut > cut_id),
    )
    return {TableName.parse(row.name): row.query for row in c.execute(statement.order_by("name"))}


def find(c: Connection, name: TableName, cut_id: int | None = None) -> View | None:
    """One view, now or as a cut before the newest had it."""
    table = tables.views if cut_id is None else tables.view_versions
    statement = select(table.c.query, table.c.iceberg).where(table.c.name == str(name))
    if cut_id is not None:
        statement = statement.where(
            table.c.query.is_not(None),
            table.c.cut_id <= cut_id,
            or_(table.c.until_cut.is_(None), table.c.until_cut > cut_id),
        )
    row = c.execute(statement).first()
    return None if row is None else View(row.query, row.iceberg)


def note_versions(c: Connection, cut_id: int) -> None:
    """Keep the texts of now for the cut that is about to end."""
    changed = _changed(c)
    if not changed:
        return
    table = tables.view_versions
    names = list(changed)
    c.execute(delete(table).where(table.c.cut_id == cut_id, table.c.name.in_(names)))
    ended = update(table).where(table.c.until_cut.is_(None), table.c.name.in_(names))
    c.execute(ended.values(until_cut=cut_id))
    rows = [
        {
            "name": name,
            "cut_id": cut_id,
            "query": view.query if view is not None else None,
            "iceberg": view.iceberg if view is not None else None,
        }
        for name, view in changed.items()
    ]
    c.execute(insert(table), rows)


def _changed(c: Connection) -> dict[str, View | None]:
    """Views that are not what was noted last; None for those that are gone."""
    now, noted = tables.views, tables.view_versions
    same = and_(noted.c.name == now.c.name, noted.c.until_cut.is_(None))
    metadata = cast(noted.c.iceberg, String).is_distinct_from(cast(now.c.iceberg, String))
    other = (
        select(now.c.name, now.c.query, now.c.iceberg)
        .select_from(now.outerjoin(noted, same))
        .where(or_(noted.c.query.is_distinct_from(now.c.query), metadata))
    )
    gone = (
        select(noted.c.name, null(), cast(null(), JSON))
        .select_from(noted.outerjoin(now, same))
        .where(noted.c.until_cut.is_(None), noted.c.query.is_not(None), now.c.name.is_(None))
    )
    rows = c.execute(union_all(other, gone))
    return {row[0]: None if row[1] is None else View(row[1], row[2]) for row in rows}


def forget_dropped(c: Connection, oldest: int) -> None:
    """That a view was dropped need not be known before the oldest cut."""
    table = tables.view_versions
    c.execute(delete(table).where(table.c.query.is_(None), table.c.cut_id < oldest))
