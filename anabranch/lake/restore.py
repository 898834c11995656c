"""restore: a backup becomes a catalog and a warehouse of their own, in an empty place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef

from anabranch.catalog import cuts
from anabranch.catalog import rows as catalog_rows
from anabranch.catalog.rewind import Row, Rows, Sources, Told, rewind
from anabranch.catalog.store import Store
from anabranch.errors import Refused, Unsupported
from anabranch.lake.adopt import broken_snapshots, relocate
from anabranch.lake.archive import Archive, Record, chosen
from anabranch.lake.lake import Lake
from anabranch.lake.publish import publish
from anabranch.lake.relocate import Move
from anabranch.lake.stage import Stage
from anabranch.lake.version import summary_of
from anabranch.names import TableName


def restore(archive: Archive, store: Store, warehouse: str, cut: int | None) -> dict[str, Any]:
    """Fill an empty catalog and an empty warehouse; every file is compared with its checksum."""
    record = chosen(archive.records(), cut, archive.location)
    rows = archive.rows(record)
    if unknown := catalog_rows.unknown_parts(rows):
        raise Unsupported(
            f"the backup was made by a newer Anabranch: {unknown[0]} is not known",
            hint="restore it with that one",
        )
    lake = Lake(store, warehouse)
    _check_empty(lake)
    archive.copy_out(record, lake.warehouse)
    move = Move(record.warehouse, lake.warehouse.location)
    if move.old != move.new:
        relocate(lake, move)
    moved: Rows = move.value(rows)
    if cut is not None:
        moved = rewind(moved, cut, lambda shown: _told(lake, shown))
    with store.writing() as c:
        if not catalog_rows.is_empty(c):
            raise _not_empty(store.shown)
        catalog_rows.load(c, moved)
        lake.fence.write(cuts.current(c), replace=True)
    _show(lake, moved)
    broken_snapshots(lake, lake.pointers())  # refused if a file of the newest rows is missing
    return _report(archive, record, lake)


def _check_empty(lake: Lake) -> None:
    with lake.store.reading() as c:
        empty = catalog_rows.is_empty(c)
    if not empty:
        raise _not_empty(lake.store.shown)
    if lake.warehouse.listing(lake.warehouse.location):
        raise _not_empty(lake.warehouse.location)


def _not_empty(place: str) -> Refused:
    return Refused(
        f"{place} is not empty: a backup is restored into an empty place only",
        hint="choose another home, or remove what an interrupted restore left there",
    )


def _told(lake: Lake, shown: Mapping[str, Row]) -> Told:
    """What the snapshots of tables say about what they were computed from."""

    def told(name: str, snapshot_id: int | None) -> tuple[Sources, str] | None:
        row = shown.get(name)
        if row is None or snapshot_id is None:
            return None
        version = lake.version(TableName.parse(name), row["metadata_location"])
        found = version.metadata.snapshot_by_id(snapshot_id)
        summary = summary_of(found) if found is not None else {}
        if "anabranch.sources" not in summary:
            return None
        return json.loads(summary["anabranch.sources"]), summary.get("anabranch.fingerprint", "")

    return told


def _show(lake: Lake, rows: Rows) -> None:
    """Tables whose newest snapshot is not the one that the cut shows get metadata that says so."""
    wanted = {
        TableName(tuple(row["namespace"].split(".")), row["name"]): row["snapshot_id"]
        for row in rows["ab_versions"]
        if row["until_cut"] is None and row["metadata_location"] is not None
    }
    with Stage(lake) as stage:
        for name, snapshot_id in wanted.items():
            metadata = stage.version(name).metadata
            if snapshot_id is None or metadata.current_snapshot_id == snapshot_id:
                continue
            main = SnapshotRef.model_validate({"snapshot-id": snapshot_id, "type": "branch"})
            changed = {
                "current_snapshot_id": snapshot_id,
                "refs": {**metadata.refs, MAIN_BRANCH: main},
            }
            stage.replace_metadata(name, metadata.model_copy(update=changed))
        if stage.changes:
            publish(stage, "restore")


def _report(archive: Archive, record: Record, lake: Lake) -> dict[str, Any]:
    with lake.store.reading() as c:
        cut_id = cuts.current(c)
    return {
        "source": archive.location,
        "cut_id": cut_id,
        "made_at": record.made_at,
        "catalog": lake.store.shown,
        "warehouse": lake.warehouse.location,
        "files": len(record.files),
        "bytes": sum(size for size, _ in record.files.values()),
    }
