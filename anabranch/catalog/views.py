"""Views: names for queries, kept as text, and the texts that older cuts show.

Whoever changes a view changes its row alone.  The next publish notes what differs as the text that
the cut before it had, so that a cut shows each view as it was when the cut ended.
"""

from __future__ import annotations

from sqlalchemy import Connection, and_, delete, insert, null, or_, select, union_all, update

from anabranch.catalog import tables
from anabranch.catalog.remembered import once
from anabranch.names import TableName


def add(c: Connection, name: TableName, query: str) -> None:
    c.execute(insert(tables.views).values(name=str(name), query=query, created_at=tables.now()))


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
    rows = [{"name": name, "cut_id": cut_id, "query": query} for name, query in changed.items()]
    c.execute(insert(table), rows)


def _changed(c: Connection) -> dict[str, str | None]:
    """Views whose text is not the last one noted; None for those that are gone."""
    now, noted = tables.views, tables.view_versions
    same = and_(noted.c.name == now.c.name, noted.c.until_cut.is_(None))
    other = (
        select(now.c.name, now.c.query)
        .select_from(now.outerjoin(noted, same))
        .where(noted.c.query.is_distinct_from(now.c.query))
    )
    gone = (
        select(noted.c.name, null())
        .select_from(noted.outerjoin(now, same))
        .where(noted.c.until_cut.is_(None), noted.c.query.is_not(None), now.c.name.is_(None))
    )
    return {row[0]: row[1] for row in c.execute(union_all(other, gone))}


def forget_dropped(c: Connection, oldest: int) -> None:
    """That a view was dropped need not be known before the oldest cut."""
    table = tables.view_versions
    c.execute(delete(table).where(table.c.query.is_(None), table.c.cut_id < oldest))
