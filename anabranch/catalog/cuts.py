"""Cuts, and the table versions that each of them shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    bindparam,
    delete,
    func,
    insert,
    null,
    or_,
    select,
    text,
    union_all,
    update,
)

from anabranch.catalog import tables, views
from anabranch.errors import InvalidValue, UnknownName
from anabranch.names import TableName


@dataclass(frozen=True)
class Version:
    """A table as a cut shows it; no location means that the cut dropped it."""

    name: TableName
    metadata_location: str | None
    snapshot_id: int | None = None


def current(c: Connection) -> int:
    """The newest cut; 0 when nothing was ever published."""
    return int(c.execute(select(tables.meta.c.cut)).scalar_one())


def advance(c: Connection) -> int:
    """The next cut id.  Locks the counter to the end of the transaction: publishes queue up."""
    c.execute(update(tables.meta).values(cut=tables.meta.c.cut + 1))
    return current(c)


def hold(c: Connection, *, seconds: float | None = None) -> None:
    """Wait in the same queue as publishes, without a cut: for changes of our own rows only."""
    if seconds is not None and c.dialect.name == "postgresql":  # SQLite waits only so long anyway
        c.execute(text(f"SET LOCAL lock_timeout = {int(seconds * 1000)}"))
    c.execute(select(tables.meta.c.cut).with_for_update()).scalar_one()


def add(
    c: Connection,
    cut_id: int,
    kind: str,
    versions: Iterable[Version],
    stage_id: str | None = None,
) -> None:
    """Record a cut and what it changed; older versions of the same tables end with it."""
    views.note_versions(c, cut_id - 1)
    facts = {"published_at": _next_moment(c), "kind": kind, "stage_id": stage_id}
    c.execute(insert(tables.cuts).values(cut_id=cut_id, **facts))
    rows = [
        {
            "namespace": version.name.schema,
            "name": version.name.name,
            "cut_id": cut_id,
            "metadata_location": version.metadata_location,
            "snapshot_id": version.snapshot_id,
        }
        for version in versions
    ]
    if not rows:
        return
    table = tables.versions
    ended = update(table).where(
        table.c.namespace == bindparam("b_namespace"),
        table.c.name == bindparam("b_name"),
        table.c.until_cut.is_(None),
    )
    names = [{"b_namespace": row["namespace"], "b_name": row["name"]} for row in rows]
    c.execute(ended.values(until_cut=cut_id), names)
    c.execute(insert(table), rows)


def of_stage(c: Connection, stage_id: str) -> int | None:
    """The cut that a stage was published as."""
    table = tables.cuts
    statement = select(table.c.cut_id).where(table.c.stage_id == stage_id)
    return c.execute(statement).scalar_one_or_none()


def moved_by_others(c: Connection, catalog: str) -> list[Version]:
    """Pointers that differ from the newest known versions: other programs moved them."""
    table, known = tables.iceberg_tables, tables.versions
    same = and_(
        known.c.namespace == table.c.table_namespace,
        known.c.name == table.c.table_name,
        known.c.until_cut.is_(None),
    )
    changed = (
        select(table.c.table_namespace, table.c.table_name, table.c.metadata_location)
        .select_from(table.outerjoin(known, same))
        .where(_is_table(catalog))
        .where(known.c.metadata_location.is_distinct_from(table.c.metadata_location))
    )
    dropped = (
        select(known.c.namespace, known.c.name, null())
        .select_from(known.outerjoin(table, and_(same, _is_table(catalog))))
        .where(known.c.until_cut.is_(None), known.c.metadata_location.is_not(None))
        .where(table.c.table_name.is_(None))
    )
    rows = c.execute(union_all(changed, dropped))  # one statement: asked before every read
    found = [(table_name(space, name), location) for space, name, location in rows]
    return [Version(name, location) for name, location in found if name is not None]


def newest(c: Connection) -> dict[TableName, str]:
    """The tables that the newest recorded cut shows, in one SELECT."""
    table = tables.versions
    statement = select(table.c.namespace, table.c.name, table.c.metadata_location).where(
        table.c.until_cut.is_(None), table.c.metadata_location.is_not(None)
    )
    return _named(c.execute(statement))


def pointers(c: Connection, catalog: str) -> dict[TableName, str]:
    """What the catalog points to now, in one SELECT: commits of others may belong to no cut yet."""
    table = tables.iceberg_tables
    statement = select(table.c.table_namespace, table.c.table_name, table.c.metadata_location)
    statement = statement.where(_is_table(catalog), table.c.metadata_location.is_not(None))
    return _named(c.execute(statement))


def pointers_at(c: Connection, cut_id: int) -> dict[TableName, str]:
    """The tables that a recorded cut shows."""
    if not is_recorded(c, cut_id):
        newest = current(c)
        if 0 < cut_id <= newest:
            raise InvalidValue(f"cut {cut_id} has expired", hint="see cuts() for those kept")
        raise UnknownName(f"there is no cut {cut_id}; the newest is {newest}")
    table = tables.versions
    columns = (table.c.namespace, table.c.name, table.c.metadata_location)
    statement = select(*columns).where(*_shown_at(cut_id))
    return _named(c.execute(statement))


def versions_at(c: Connection, cut_id: int) -> dict[TableName, Version]:
    """The versions that a recorded cut shows."""
    table = tables.versions
    columns = (table.c.namespace, table.c.name, table.c.metadata_location, table.c.snapshot_id)
    found = {}
    for space, name, location, snapshot in c.execute(select(*columns).where(*_shown_at(cut_id))):
        if named := table_name(space, name):
            found[named] = Version(named, location, snapshot)
    return found


def commit_times(c: Connection, cut_id: int | None = None) -> dict[TableName, datetime]:
    """When each table was last committed to, as of a cut or now; if that cut is still recorded."""
    table, made = tables.versions, tables.cuts
    shown = (table.c.until_cut.is_(None),) if cut_id is None else _shown_at(cut_id)
    statement = (
        select(table.c.namespace, table.c.name, made.c.published_at)
        .select_from(table.join(made, made.c.cut_id == table.c.cut_id))
        .where(*shown)
    )
    found = {table_name(space, name): at for space, name, at in c.execute(statement)}
    return {name: at for name, at in found.items() if name is not None}


def last_changes(c: Connection) -> dict[TableName, int]:
    """The newest cut that changed each table."""
    table = tables.versions
    statement = select(table.c.namespace, table.c.name, table.c.cut_id)
    rows = c.execute(statement.where(table.c.until_cut.is_(None)))
    found = {table_name(space, name): cut_id for space, name, cut_id in rows}
    return {name: cut_id for name, cut_id in found.items() if name is not None}


def _shown_at(cut_id: int) -> tuple[ColumnElement[bool], ...]:
    table = tables.versions
    return (
        table.c.metadata_location.is_not(None),
        table.c.cut_id <= cut_id,
        or_(table.c.until_cut.is_(None), table.c.until_cut > cut_id),
    )


def listing(c: Connection, limit: int | None = None) -> list[dict[str, Any]]:
    """Newest first; `tables` are those that the cut changed."""
    statement = select(tables.cuts).order_by(tables.cuts.c.cut_id.desc())
    if limit is not None:
        statement = statement.limit(limit)
    found = [dict(row) for row in c.execute(statement).mappings()]
    for each in found:
        del each["stage_id"]
    if not found:
        return []
    table = tables.versions
    changed: dict[int, list[str]] = {}
    oldest = found[-1]["cut_id"]
    rows = c.execute(
        select(table.c.cut_id, table.c.namespace, table.c.name).where(table.c.cut_id >= oldest)
    )
    for cut_id, space, name in rows:
        if named := table_name(space, name):
            changed.setdefault(cut_id, []).append(str(named))
    return [{**cut, "tables": sorted(changed.get(cut["cut_id"], []))} for cut in found]


def forget(c: Connection, keep_from: int, held: Collection[int] = ()) -> int:
    """Forget the cuts before `keep_from` (never the newest, nor a held one) and what only they show."""
    oldest = min(keep_from, current(c))
    kept = sorted(each for each in held if each < oldest)
    gone = tables.versions.c.until_cut <= oldest
    c.execute(delete(tables.versions).where(gone, *_not_shown(tables.versions, kept)))
    c.execute(
        delete(tables.versions).where(
            tables.versions.c.metadata_location.is_(None), tables.versions.c.cut_id < oldest
        )
    )
    views.forget(c, oldest, _not_shown(tables.view_versions, kept))
    old = tables.cuts.c.cut_id < oldest
    return c.execute(delete(tables.cuts).where(old, tables.cuts.c.cut_id.not_in(kept))).rowcount


def _not_shown(table: Table, kept: Sequence[int]) -> list[ColumnElement[bool]]:
    """Versions that none of the cuts show."""
    return [or_(table.c.cut_id > cut_id, table.c.until_cut <= cut_id) for cut_id in kept]


def is_recorded(c: Connection, cut_id: int) -> bool:
    found = select(tables.cuts.c.cut_id).where(tables.cuts.c.cut_id == cut_id)
    return c.execute(found).first() is not None


def _next_moment(c: Connection) -> datetime:
    """The time of the next cut, which is never before the last one's: clocks of hosts disagree, and
    retention goes by these times."""
    last = c.execute(select(func.max(tables.cuts.c.published_at))).scalar_one_or_none()
    return max(tables.now(c), last) if last is not None else tables.now(c)


def first_since(c: Connection, moment: datetime) -> int:
    """The oldest cut to keep so that any time since `moment` can be read."""
    before = select(func.max(tables.cuts.c.cut_id)).where(tables.cuts.c.published_at <= moment)
    return int(c.execute(before).scalar_one_or_none() or 0)


def locations_before(c: Connection, cut_id: int) -> set[str]:
    """The metadata files that recorded cuts before the given one show."""
    table = tables.versions
    statement = select(table.c.metadata_location).where(table.c.cut_id < cut_id)
    return {location for location in c.execute(statement).scalars() if location is not None}


def known_versions(c: Connection) -> list[Version]:
    """Every version that some recorded cut shows."""
    table = tables.versions
    statement = select(
        table.c.namespace, table.c.name, table.c.metadata_location, table.c.snapshot_id
    ).where(table.c.metadata_location.is_not(None))
    found = []
    for space, name, location, snapshot_id in c.execute(statement):
        if named := table_name(space, name):
            found.append(Version(named, location, snapshot_id))
    return found


def table_name(namespace: str, name: str) -> TableName | None:
    """Iceberg's row as a name; None for what has too many levels to be ours."""
    try:
        return TableName(tuple(namespace.split(".")), name)
    except InvalidValue:
        return None


def _is_table(catalog: str) -> ColumnElement[bool]:
    table = tables.iceberg_tables
    is_table = or_(table.c.iceberg_type.is_(None), table.c.iceberg_type == tables.TABLE_TYPE)
    return and_(table.c.catalog_name == catalog, is_table)


def _named(rows: Iterable[Any]) -> dict[TableName, str]:
    found: Mapping[TableName | None, str] = {
        table_name(space, name): location for space, name, location in rows
    }
    return {name: location for name, location in found.items() if name is not None}
