"""Snapshots and shapes: what a table was at a cut, without the metadata file of that time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, delete, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert as insert_postgresql
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from anabranch.catalog import tables
from anabranch.catalog.tables import CHUNK

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Shown:
    """A version as its rows tell it: `shape` and `snapshot` are parts of Iceberg's table metadata."""

    table_uuid: str
    shape: Record
    snapshot: Record | None


def shape_id(record: Record) -> str:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha1(text.encode()).hexdigest()


def add(c: Connection, records: Iterable[tuple[str, Record]]) -> None:
    """Keep snapshots of tables; those that are known stay as they are, for a snapshot never changes."""
    rows = [
        {
            "table_uuid": table_uuid,
            "snapshot_id": record["snapshot-id"],
            "parent_id": record.get("parent-snapshot-id"),
            "record": dict(record),
        }
        for table_uuid, record in records
    ]
    _insert_new(c, tables.snapshots, rows)


def add_shapes(c: Connection, shapes: Mapping[str, Record]) -> None:
    """Keep shapes, by their ids."""
    rows = [{"id": id_, "record": dict(record)} for id_, record in sorted(shapes.items())]
    _insert_new(c, tables.shapes, rows)


def get(c: Connection, table_uuid: str, snapshot_id: int) -> Record | None:
    table = tables.snapshots
    here = (table.c.table_uuid == table_uuid) & (table.c.snapshot_id == snapshot_id)
    found: Record | None = c.execute(select(table.c.record).where(here)).scalar_one_or_none()
    return found


def shown_as(c: Connection, location: str) -> Shown | None:
    """What rows tell of a version; None when they do not, or a table points to the file right now."""
    pointer = tables.iceberg_tables.c.metadata_location
    if c.execute(select(pointer).where(pointer == location).limit(1)).first() is not None:
        return None
    table = tables.versions
    columns = (table.c.table_uuid, table.c.snapshot_id, tables.shapes.c.record)
    statement = (
        select(*columns)
        .join_from(table, tables.shapes, tables.shapes.c.id == table.c.shape)
        .where(table.c.metadata_location == location)
        .limit(1)
    )
    row = c.execute(statement).first()
    if row is None:
        return None
    table_uuid, snapshot_id, shape = row
    snapshot = get(c, table_uuid, snapshot_id) if snapshot_id is not None else None
    if snapshot is None and snapshot_id is not None:
        return None
    return Shown(table_uuid, shape, snapshot)


def fill_in(c: Connection, location: str, table_uuid: str, shape: str, at: int | None) -> None:
    """A version of an older catalog learns what its file says."""
    table = tables.versions
    here = (table.c.metadata_location == location) & table.c.shape.is_(None)
    facts = {"table_uuid": table_uuid, "shape": shape, "snapshot_id": at}
    c.execute(update(table).where(here).values(**facts))


def records(c: Connection) -> Iterator[tuple[str, Record]]:
    """All snapshots that are kept, with the ids of their tables."""
    table = tables.snapshots
    for row in c.execute(select(table.c.table_uuid, table.c.record)):
        yield row.table_uuid, row.record


def parents(c: Connection) -> dict[tuple[str, int], int | None]:
    table = tables.snapshots
    rows = c.execute(select(table.c.table_uuid, table.c.snapshot_id, table.c.parent_id))
    return {(table_uuid, snapshot_id): parent for table_uuid, snapshot_id, parent in rows}


def forget(c: Connection, gone: Collection[tuple[str, int]]) -> None:
    table, keys = tables.snapshots, sorted(gone)
    for start in range(0, len(keys), CHUNK):
        chosen = tuple_(table.c.table_uuid, table.c.snapshot_id).in_(keys[start : start + CHUNK])
        c.execute(delete(table).where(chosen))


def forget_shapes(c: Connection) -> None:
    """Those that no version has any more."""
    used = select(tables.versions.c.shape).where(tables.versions.c.shape.is_not(None))
    c.execute(delete(tables.shapes).where(tables.shapes.c.id.not_in(used)))


def only_by_file(c: Connection, locations: Collection[str]) -> set[str]:
    """Those of some metadata files that a table points to, or that alone tell what a cut shows."""
    pointer, table = tables.iceberg_tables.c.metadata_location, tables.versions
    needed_files: set[str] = set()
    chosen = sorted(locations)
    for start in range(0, len(chosen), CHUNK):
        some = chosen[start : start + CHUNK]
        needed_files.update(c.execute(select(pointer).where(pointer.in_(some))).scalars())
        needed = table.c.metadata_location.in_(some) & table.c.shape.is_(None)
        needed_files.update(c.execute(select(table.c.metadata_location).where(needed)).scalars())
    return needed_files


def _insert_new(c: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    insert = insert_sqlite if c.dialect.name == "sqlite" else insert_postgresql
    if rows:
        c.execute(insert(table).on_conflict_do_nothing(), rows)
