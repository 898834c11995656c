"""restore: a backup becomes a catalog and a warehouse of their own, in an empty place."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef
from pyiceberg.table.snapshots import Snapshot

from anabranch.catalog import cuts, deployments, snapshots
from anabranch.catalog import rows as catalog_rows
from anabranch.catalog.deployments import OPEN
from anabranch.catalog.rewind import (
    ComputedFrom,
    Key,
    Rewound,
    Row,
    Rows,
    Sources,
    cuts_with,
    rewind,
    without_bases,
)
from anabranch.catalog.snapshots import Shown
from anabranch.catalog.store import Store
from anabranch.catalog.tables import TABLE_TYPE
from anabranch.catalog.taken_back import unowned
from anabranch.errors import FileMissing, Refused, Unsupported
from anabranch.lake import declared
from anabranch.lake.adopt import broken_snapshots, relocate, replace_file
from anabranch.lake.archive import Archive, Record, damaged
from anabranch.lake.checksums import sealed
from anabranch.lake.holdings import Holdings, folder, older
from anabranch.lake.lake import Lake
from anabranch.lake.places import MARKER
from anabranch.lake.publish import publish
from anabranch.lake.recorded import metadata_of, without
from anabranch.lake.relocate import Move
from anabranch.lake.stage import Stage
from anabranch.lake.undo import KIND, Undo, undone_if_it_fails
from anabranch.lake.version import summary_of
from anabranch.names import TableName
from anabranch.redaction import redacted_address

log = logging.getLogger("anabranch")


def restore(archive: Archive, store: Store, warehouse: str, cut: int | None) -> dict[str, Any]:
    """Fill an empty catalog and an empty warehouse; every file is compared with its checksum.

    Older cuts that need a file which the backup has not, or no longer as it was, are left out.  If it
    fails, what it wrote is removed.
    """
    record, rows = archive.chosen(cut)
    if unknown := catalog_rows.unknown_parts(rows):
        raise Unsupported(
            f"the backup was made by a newer Anabranch: {unknown[0]} is not known",
            hint="restore it with that one",
        )
    lake = Lake(store, warehouse)
    _check_empty(lake)
    with undone_if_it_fails(lake, record.files) as undo:
        return _fill(archive, record, rows, lake, cut, undo)


def _fill(
    archive: Archive, record: Record, rows: Rows, lake: Lake, cut: int | None, undo: Undo
) -> dict[str, Any]:
    bad = archive.copy_out(record, lake.warehouse)
    move = Move(record.warehouse, lake.warehouse.location)
    rows = unowned(rows)
    moved: Rows = rows
    if move.old != move.new:
        kept = (row["record"] for row in rows.get("ab_snapshots", ()))
        moved = relocate(lake, move, kept, undo.files).value(rows)
    lost: dict[Key, str] = {}
    if bad or record.missing:
        lost = _lost(lake, moved)
        _unlist(lake, moved)
    rewound = Rewound(moved)
    if cut is not None:
        records = _records(moved)
        rewound = rewind(moved, cut, lambda shown: _computed_from(lake, shown, records))
        moved = rewound.rows
    left_out = cuts_with(moved, lost)
    _check_shown(archive, lake, moved, {*bad}, left_out)
    moved = without_bases(moved, lost)
    undo.files |= {*_pointers(lake, moved).values()}
    _write_missing(lake, moved)
    with lake.store.writing() as c:
        if not catalog_rows.is_empty(c):
            raise _not_empty(lake.store.shown)
        before = catalog_rows.dump(c)
        catalog_rows.load(c, moved)
        if lost:
            cuts.forget_some(c, left_out)
            snapshots.forget(c, {(key, at) for key, at in lost if at is not None})
            snapshots.forget_shapes(c)
            deployments.forget_undos(c)
        undo.files |= {f"{lake.warehouse.location}/{each}" for each in (MARKER, declared.FILE)}
        lake.fence.write(cuts.current(c), replace=True)
        restored = cuts.current(c)
    undo.before, undo.cut = before, restored
    _show(lake, moved)
    declared.save(lake)
    broken_snapshots(lake, lake.pointers())  # refused if a file of the newest rows is missing
    if left_out:
        few = ", ".join(str(each) for each in sorted(left_out)[:5])
        log.warning(
            "not restored: %s older cuts (%s%s), because the backup has no intact copy of %s",
            len(left_out),
            few,
            ", …" if len(left_out) > 5 else "",
            _in_archive(archive, lake, left_out[min(left_out)]),
        )
    report = _report(archive, record, lake)
    damaged_files = [f"{archive.location}/files/{path}" for path in sorted(bad)]
    return {
        **report,
        **_told_of(rewound),
        "cuts_left_out": sorted(left_out),
        "damaged": damaged_files,
    }


def _told_of(found: Rewound) -> dict[str, Any]:
    """What is not as it was at the cut, for the answer and as warnings."""
    for name, why in sorted(found.stale.items()):
        log.warning("%s is recomputed by its next refresh: %s", name, why)
    for name in found.undefined:
        log.warning("%s is a source table now: the backup no longer has a query for it", name)
    for id_, why in sorted(found.ended.items()):
        log.warning("deployment %s is aborted: %s", id_, why)
    statuses = {row["id"]: row["status"] for row in found.rows.get("ab_deployments", ())}
    open_ = {id_ for id_, status in statuses.items() if status in {each.value for each in OPEN}}
    return {
        "stale": [{"table": name, "reason": why} for name, why in sorted(found.stale.items())],
        "undefined": found.undefined,
        "deployments": [
            {"id": id_, "status": statuses[id_], "reason": found.ended.get(id_)}
            for id_ in sorted({*open_, *found.ended})
        ],
    }


def _lost(lake: Lake, rows: Rows) -> dict[Key, str]:
    """Snapshots in rows of which a file is not there, and which."""
    holdings = Holdings(lake.warehouse.io)
    found: dict[Key, Snapshot | None] = {}
    for key, snapshot in older(lake, rows, holdings):
        found[key] = snapshot
        holdings.add(snapshot, folder(snapshot) if snapshot is not None else "")
    holdings.settle(_absent(lake, holdings.named))
    return holdings.losses(found)


def _absent(lake: Lake, named: Iterable[str]) -> set[str]:
    """Files that should lie in the warehouse, and do not."""
    there = lake.warehouse.listing(lake.warehouse.location)
    top = lake.warehouse.location + "/"
    return {path for path in named if path.startswith(top) and path not in there}


def _unlist(lake: Lake, rows: Rows) -> None:
    """Metadata files, which nobody has read yet, list the snapshots that are whole, and the current."""
    there = lake.warehouse.listing(lake.warehouse.location)
    written = []
    for name, location in _pointers(lake, rows).items():
        if location not in there:
            continue
        metadata = lake.reread(name, location).metadata
        holdings = Holdings(lake.warehouse.io)
        for each in metadata.snapshots:
            holdings.add(each, metadata.location.rstrip("/"))
        holdings.settle(_absent(lake, holdings.named))
        gone = {each.snapshot_id for each in metadata.snapshots if holdings.lost(each)}
        gone -= {metadata.current_snapshot_id or 0}
        if gone:
            kept = {key: ref for key, ref in metadata.refs.items() if ref.snapshot_id not in gone}
            left = without(metadata, gone)[0].model_copy(update={"refs": kept})
            replace_file(lake, location, sealed(left, location))
            written.append(location)
    lake.warehouse.make_durable(written)


def _pointers(lake: Lake, rows: Rows) -> dict[TableName, str]:
    return {
        TableName((*row["table_namespace"].split("."),), row["table_name"]): row[
            "metadata_location"
        ]
        for row in rows["iceberg_tables"]
        if row["catalog_name"] == lake.catalog_name
        and (row.get("iceberg_type") or TABLE_TYPE) == TABLE_TYPE
    }


def _check_shown(
    archive: Archive, lake: Lake, rows: Rows, bad: set[str], left_out: Mapping[int, str]
) -> None:
    """What the restored cut itself shows must be whole; nothing is in the catalog yet."""
    (meta,) = rows["ab_meta"]
    top = lake.warehouse.location + "/"
    path = left_out.get(meta["cut"])
    for location in _pointers(lake, rows).values():
        if location.removeprefix(top) in bad:
            path = location
    if path is not None:
        raise damaged(_in_archive(archive, lake, path))


def _in_archive(archive: Archive, lake: Lake, path: str) -> str:
    return f"{archive.location}/files/{path.removeprefix(lake.warehouse.location + '/')}"


def _check_empty(lake: Lake) -> None:
    with lake.store.reading() as c:
        empty = catalog_rows.is_empty(c)
    if not empty:
        raise _not_empty(lake.store.shown)
    if lake.warehouse.listing(lake.warehouse.location):
        raise _not_empty(lake.warehouse.location)


def _not_empty(place: str) -> Refused:
    return Refused(
        f"{place} is not empty: a backup can only be restored into an empty place",
        hint="choose another home, or remove what an interrupted restore left there",
    )


def _records(rows: Rows) -> dict[tuple[str | None, int | None], Mapping[str, Any]]:
    """The snapshots in rows, by table and id; a backup of an older Anabranch has none."""
    found = rows.get("ab_snapshots", ())
    return {(row["table_uuid"], row["snapshot_id"]): row["record"] for row in found}


def _computed_from(
    lake: Lake,
    shown: Mapping[str, Row],
    records: Mapping[tuple[str | None, int | None], Mapping[str, Any]],
) -> ComputedFrom:
    """What the snapshots of tables say about what they were computed from."""

    def summary(row: Row, name: str, snapshot_id: int) -> Mapping[str, str]:
        record = records.get((row.get("table_uuid"), snapshot_id))
        if record is not None:
            noted: Mapping[str, str] = record.get("summary") or {}
            return noted
        try:
            version = lake.version(TableName.parse(name), row["metadata_location"])
        except FileMissing:
            return {}
        found = version.metadata.snapshot_by_id(snapshot_id)
        return summary_of(found) if found is not None else {}

    def computed_from(name: str, snapshot_id: int | None) -> tuple[Sources, str] | None:
        row = shown.get(name)
        if row is None or snapshot_id is None:
            return None
        said = summary(row, name, snapshot_id)
        if "anabranch.tables" not in said:
            return None
        return json.loads(said["anabranch.tables"]), said.get("anabranch.fingerprint", "")

    return computed_from


def _write_missing(lake: Lake, rows: Rows) -> None:
    """Metadata files that tables will point to, and of which the backup has only rows."""
    records = _records(rows)
    shapes = {row["id"]: row["record"] for row in rows.get("ab_shapes", ())}
    pointers = {row["metadata_location"] for row in rows["iceberg_tables"]}
    written = []
    for row in rows["ab_versions"]:
        location, shape = row["metadata_location"], shapes.get(row.get("shape"))
        if location not in pointers or shape is None:
            continue
        if not lake.warehouse.io.new_input(location).exists():
            snapshot = records.get((row["table_uuid"], row["snapshot_id"]))
            metadata = metadata_of(Shown(row["table_uuid"], shape, snapshot))
            with lake.warehouse.io.new_output(location).create(overwrite=True) as stream:
                stream.write(sealed(metadata, location))
            written.append(location)
    lake.warehouse.make_durable(written)


def _show(lake: Lake, rows: Rows) -> None:
    """Tables whose newest snapshot is not the one that the cut shows get metadata that says so."""
    foreign = {(row["namespace"], row["name"]) for row in rows.get("ab_foreign_tables", ())}
    wanted = {
        TableName(tuple(row["namespace"].split(".")), row["name"]): row["snapshot_id"]
        for row in rows["ab_versions"]
        if row["until_cut"] is None and row["metadata_location"] is not None
        if (row["namespace"], row["name"]) not in foreign
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
            publish(stage, KIND)


def _report(archive: Archive, record: Record, lake: Lake) -> dict[str, Any]:
    with lake.store.reading() as c:
        cut_id = cuts.current(c)
    return {
        "source": redacted_address(archive.location),
        "cut_id": cut_id,
        "made_at": record.made_at,
        "catalog": lake.store.shown,
        "warehouse": lake.warehouse.location,
        "files": len(record.files),
        "bytes": sum(size for size, _ in record.files.values()),
    }
