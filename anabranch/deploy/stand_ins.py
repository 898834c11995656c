"""Source tables that a deployment alters stay as they are until it is promoted.

What is staged reads a view in their place, which shows the columns that the table will have: a new one
is NULL, which is what it is in every row there is, and a wider one is cast.  The view follows the table
by itself, and goes when the table is altered in the publish of the promote.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anabranch.deploy.snapshot import Snapshot, SnapshotObject
from anabranch.deploy.source_tables import changes
from anabranch.deploy.staging import Staging
from anabranch.lake.schemas import altered
from anabranch.lake.version import TableVersion
from anabranch.model import Column
from anabranch.names import TableName, quote
from anabranch.refresh.observe import CatalogState
from anabranch.runtime import Runtime
from anabranch.tables.source_tables import create_view


def altered_versions(
    runtime: Runtime, seen: CatalogState, staging: Staging, snapshot: Snapshot
) -> dict[TableName, TableVersion]:
    """The tables with the columns that they will have."""
    found = {}
    for key in sorted(staging.altered):
        if key.table in seen.pointers:
            stored = runtime.lake.version(key.table, seen.pointers[key.table])
            found[key.table] = as_altered(stored, snapshot.objects[key])
    return found


def as_altered(stored: TableVersion, each: SnapshotObject) -> TableVersion:
    metadata = altered(stored.metadata, stored.name, changes(each, stored.columns))
    return replace(stored, metadata=metadata)


def create_stand_ins(runtime: Runtime, staging: Staging, snapshot: Snapshot) -> None:
    """A view for every altered table that something staged reads."""
    read = {up for key in staging.keys for up in snapshot.objects[key].reads}
    world = runtime.world()
    for key in sorted(staging.altered & read):
        if world.find(staging.name(key)) is None:
            stored = world.version(key.table)
            query = shown_as(stored, as_altered(stored, snapshot.objects[key]))
            create_view(runtime, staging.name(key), query, if_not_exists=True)


def shown_as(stored: TableVersion, after: TableVersion) -> str:
    """A query over the table as it is that gives the columns it will have."""
    there = {column.field_id: column for column in stored.columns}
    items = ", ".join(_item(column, there) for column in after.columns)
    return f"SELECT {items} FROM {'.'.join(map(quote, stored.name.parts))}"


def _item(column: Column, existing: Mapping[int, Column]) -> str:
    before = existing.get(column.field_id)
    name = quote(column.name)
    if before is None:
        return f"CAST(NULL AS {column.type}) AS {name}"
    if before.type != column.type:
        return f"CAST({quote(before.name)} AS {column.type}) AS {name}"
    return name
