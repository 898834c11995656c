"""Older versions of a table that can still be read."""

from __future__ import annotations

import re
from dataclasses import replace

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import SetSnapshotRefUpdate, update_table_metadata
from sqlalchemy import Connection, select

from anabranch.catalog import cuts, tables
from anabranch.errors import AnabranchError, FileDamaged, FileMissing, Refused
from anabranch.lake.damage import is_whole
from anabranch.lake.lake import Lake
from anabranch.lake.places import Warehouse
from anabranch.lake.version import TableVersion
from anabranch.names import TableName

_METADATA = re.compile(r"(.+)/metadata/(?:v|0*)(\d+)[^/]*\.metadata\.json$")


def older_snapshot(lake: Lake, version: TableVersion) -> int | None:
    """The newest snapshot that can be read; None if the current one can.

    Each file is read, whatever found the damage: a roll-back that ends at other damaged files would
    lose rows for nothing.
    """
    read: set[str] = set()
    if is_whole(lake, version, read):
        return None
    by_age = sorted(version.metadata.snapshots, key=lambda each: -each.sequence_number)  # type: ignore[operator]
    for each in by_age:
        metadata = with_main_at(version.metadata, each.snapshot_id)
        if is_whole(lake, replace(version, metadata=metadata), read):
            return each.snapshot_id
    raise Refused(f"no version of {version.name} can be read", hint=_what_is_left(version))


def _what_is_left(version: TableVersion) -> str:
    try:
        version.state(version.snapshot_id)
    except FileMissing:
        return _restore_or_drop(version.name)
    return f"restore its files from a backup, or DELETE FROM {version.name} and load its rows again"


def _restore_or_drop(name: TableName) -> str:
    return f"restore its files from a backup, or DROP TABLE {name} and load it again"


def with_main_at(metadata: TableMetadata, snapshot_id: int) -> TableMetadata:
    """The metadata after a roll-back to a snapshot."""
    update = SetSnapshotRefUpdate.model_validate(
        {"ref-name": MAIN_BRANCH, "type": "branch", "snapshot-id": snapshot_id}
    )
    return update_table_metadata(metadata, (update,))


def older_metadata(lake: Lake, c: Connection, name: TableName, location: str) -> str:
    """The metadata file before one that cannot be read, that can."""
    read: set[str] = set()
    for candidate in _candidates(lake, c, name, location):
        try:
            version = _from_file(lake, name, candidate)
        except AnabranchError:
            continue
        if is_whole(lake, version, read):
            return candidate
    raise Refused(
        f"no older metadata file of {name} leads to rows that can be read",
        hint=_restore_or_drop(name),
    )


def _from_file(lake: Lake, name: TableName, location: str) -> TableVersion:
    """From the file, not from memory; of a file that is gone the catalog may know what it said."""
    try:
        return lake.reread(name, location)
    except FileDamaged:
        raise
    except FileMissing:
        return lake.version(name, location)


def _candidates(lake: Lake, c: Connection, name: TableName, location: str) -> list[str]:
    """What the catalog says was there before, what cuts show, and what lies beside it; newest first."""
    table = tables.iceberg_tables
    here = (
        (table.c.catalog_name == lake.catalog_name)
        & (table.c.table_namespace == name.schema)
        & (table.c.table_name == name.name)
    )
    before = c.execute(select(table.c.previous_metadata_location).where(here)).scalar_one_or_none()
    shown = [
        each.metadata_location
        for each in reversed(cuts.known_versions(c))
        if each.name == name and each.metadata_location
    ]
    beside = metadata_files(lake.warehouse, location.rpartition("/metadata/")[0])
    locations = dict.fromkeys([*([before] if before else []), *shown, *beside])
    return [each for each in locations if each != location]


def metadata_files(warehouse: Warehouse, root: str) -> list[str]:
    """The metadata files of a table's folder, newest first."""
    numbered = [
        (int(match.group(2)), info.mtime_ns or 0, path)
        for path, info in warehouse.listing(f"{root}/metadata").items()
        if (match := _METADATA.match(path))
    ]
    return [path for *_, path in sorted(numbered, reverse=True)]


def table_folders(warehouse: Warehouse) -> list[str]:
    """The folders of a warehouse that hold tables."""
    found = (_METADATA.match(path) for path in warehouse.listing(warehouse.location))
    return sorted({match.group(1) for match in found if match})
