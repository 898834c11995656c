"""Attached catalogs of others, and the pointers of their tables that were observed last.

A foreign table is named `catalog.namespace.table`.  Its versions stand in `ab_versions` like those of
our own tables, and the newest of them is its pointer: Iceberg's rows of our catalog know nothing of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Select,
    and_,
    delete,
    insert,
    select,
    tuple_,
    update,
)

from anabranch.catalog import tables
from anabranch.names import TableName

PARTS = 3  # of the name of a foreign table


@dataclass(frozen=True)
class Catalog:
    """What ATTACH CATALOG said, and why it could not be observed the last time."""

    name: str
    type: str
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    created_at: datetime | None = field(default=None, compare=False)
    problem: str | None = field(default=None, compare=False)
    problem_at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ForeignTable:
    """A foreign table as it was observed last; no location means that it is gone."""

    name: TableName
    metadata_location: str | None
    used_at: datetime
    problem: str | None = None


def catalog_of(name: TableName) -> str | None:
    """The name of the catalog that a table would belong to if it were foreign."""
    return name.namespace[0] if len(name.parts) == PARTS else None


def same(one: Catalog, other: Catalog | None) -> bool:
    """Whether both were declared alike, whatever became of them since."""
    return other is not None and (one.name, one.type, dict(one.properties)) == (
        other.name,
        other.type,
        dict(other.properties),
    )


def put(c: Connection, catalog: Catalog) -> None:
    remove(c, catalog.name)
    c.execute(
        insert(tables.catalogs).values(
            name=catalog.name,
            type=catalog.type,
            properties=dict(catalog.properties),
            created_at=catalog.created_at or tables.now(c),
        )
    )


def remove(c: Connection, name: str) -> bool:
    return c.execute(delete(tables.catalogs).where(tables.catalogs.c.name == name)).rowcount == 1


def all_catalogs(c: Connection) -> dict[str, Catalog]:
    rows = c.execute(select(tables.catalogs).order_by(tables.catalogs.c.name))
    return {
        row.name: Catalog(
            row.name, row.type, dict(row.properties), row.created_at, row.problem, row.problem_at
        )
        for row in rows
    }


def note_problems(c: Connection, problems: Mapping[str, str | None]) -> None:
    """Why catalogs could not be observed; None where they could."""
    table = tables.catalogs
    for name, problem in problems.items():
        at = tables.now(c) if problem is not None else None
        c.execute(update(table).where(table.c.name == name).values(problem=problem, problem_at=at))


def all_tables(c: Connection) -> dict[TableName, ForeignTable]:
    """Those that are there, and those that are gone."""
    found = {}
    table = tables.foreign_tables
    columns = (table.c.namespace, table.c.name, table.c.used_at, table.c.problem)
    for space, name, used_at, problem, at in c.execute(_with_pointers(*columns)):
        named = TableName((*space.split("."),), name)
        found[named] = ForeignTable(named, at, used_at, problem)
    return found


def _with_pointers(*columns: Column[Any]) -> Select[Any]:
    table, known = tables.foreign_tables, tables.versions
    same = and_(
        known.c.namespace == table.c.namespace,
        known.c.name == table.c.name,
        known.c.until_cut.is_(None),
    )
    return select(*columns, known.c.metadata_location).select_from(table.outerjoin(known, same))


def pointers(c: Connection, names: Collection[TableName]) -> dict[TableName, str]:
    """What was observed last, of some tables."""
    keys = sorted({(each.schema, each.name) for each in names if len(each.parts) == PARTS})
    if not keys:
        return {}
    table = tables.foreign_tables
    statement = _with_pointers(table.c.namespace, table.c.name).where(
        tuple_(table.c.namespace, table.c.name).in_(keys),
        tables.versions.c.metadata_location.is_not(None),
    )
    return {TableName((*space.split("."),), name): at for space, name, at in c.execute(statement)}


def note(c: Connection, rows: Iterable[ForeignTable]) -> None:
    """Note when tables were asked for and what is wrong with them, of known and of new ones."""
    table = tables.foreign_tables
    for each in rows:
        values = {
            "used_at": each.used_at,
            "problem": each.problem,
        }
        if not c.execute(update(table).where(_is(each.name)).values(values)).rowcount:
            key = {"namespace": each.name.schema, "name": each.name.name}
            c.execute(insert(table).values(**key, **values))


def uuids(c: Connection) -> set[str]:
    """The tables whose snapshots are no business of our upkeep."""
    table, known = tables.foreign_tables, tables.versions
    same = and_(known.c.namespace == table.c.namespace, known.c.name == table.c.name)
    rows = c.execute(select(known.c.table_uuid).join(table, same).distinct())
    return {each for each in rows.scalars() if each is not None}


def recently(at: datetime, now: datetime) -> bool:
    """Whether a table was asked for so lately that it still counts as one in use."""
    return now - at < timedelta(days=1)


def _is(name: TableName) -> ColumnElement[bool]:
    table = tables.foreign_tables
    return and_(table.c.namespace == name.schema, table.c.name == name.name)
