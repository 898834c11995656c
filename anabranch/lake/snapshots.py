"""New snapshots: table metadata with one more snapshot, its manifests on disk, nothing published."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotLogEntry,
    Summary,
    UpdateMetrics,
)

from anabranch.lake.manifests import ManifestFolder, is_live, live_entries, manifests
from anabranch.lake.row_deletes import RowDeletes

MANY_MANIFESTS = 30  # more make every commit and every scan slower
SMALL_MANIFEST = 1 << 20  # larger ones are not worth rewriting
DATA, DELETES = ManifestContent.DATA, ManifestContent.DELETES


@dataclass(frozen=True)
class FileChange:
    """What a snapshot does to the files of a table.

    `drop` names the data files that go; None keeps all, `everything` drops all.  Position deletes
    that apply to no remaining file go with them.
    """

    operation: Operation
    add: Sequence[DataFile] = ()
    deletes: Sequence[DataFile] = ()
    drop: frozenset[str] | None = None
    everything: bool = False
    summary: Mapping[str, str] = field(default_factory=dict)
    most_manifests: int = MANY_MANIFESTS  # of data and of deletes; more are merged


def with_snapshot(
    io: FileIO, metadata: TableMetadata, stage_id: str, change: FileChange
) -> TableMetadata:
    parent = metadata.current_snapshot()
    parent_id = parent.snapshot_id if parent is not None else None
    snapshot_id, sequence = metadata.new_snapshot_id(), metadata.next_sequence_number()
    folder = ManifestFolder(io, metadata, stage_id, snapshot_id)
    kept, gone = _kept_and_gone(io, folder, manifests(io, parent), change)
    written = [
        *folder.added(DATA, change.add),
        *folder.added(DELETES, change.deletes),
        *folder.removed(DATA, [each for content, each in gone if content == DATA]),
        *folder.removed(DELETES, [each for content, each in gone if content == DELETES]),
        *_merged(io, folder, kept, DATA, change.most_manifests),
        *_merged(io, folder, kept, DELETES, change.most_manifests),
    ]
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": parent_id,
            "sequence-number": sequence,
            "timestamp-ms": max(int(time.time() * 1000), metadata.last_updated_ms),
            "manifest-list": folder.write_list(parent_id, sequence, written),
            "summary": _summary(change, [each for _, each in gone], written, parent),
            "schema-id": metadata.current_schema_id,
        }
    )
    return with_current(metadata, snapshot)


def with_current(metadata: TableMetadata, snapshot: Snapshot) -> TableMetadata:
    """The metadata after `snapshot` was added to the main branch."""
    log = SnapshotLogEntry.model_validate(
        {"snapshot-id": snapshot.snapshot_id, "timestamp-ms": snapshot.timestamp_ms}
    )
    main = SnapshotRef.model_validate({"snapshot-id": snapshot.snapshot_id, "type": "branch"})
    return metadata.model_copy(
        update={
            "last_updated_ms": snapshot.timestamp_ms,
            "last_sequence_number": snapshot.sequence_number,
            "snapshots": [*metadata.snapshots, snapshot],
            "current_snapshot_id": snapshot.snapshot_id,
            "snapshot_log": [*metadata.snapshot_log, log],
            "refs": {**metadata.refs, MAIN_BRANCH: main},
        }
    )


Gone = list[tuple[ManifestContent, ManifestEntry]]


def _kept_and_gone(
    io: FileIO, folder: ManifestFolder, old: Sequence[ManifestFile], change: FileChange
) -> tuple[list[ManifestFile], Gone]:
    live = [each for each in old if is_live(each)]
    if not change.everything and change.drop is None:
        return live, []
    gone: Gone = []
    kept: list[ManifestFile] = []
    staying: list[ManifestEntry] = []
    for manifest in sorted(live, key=lambda each: each.content == DELETES):
        content, entries = manifest.content, live_entries(io, manifest)
        if change.everything:
            leaving = entries
        elif content == DATA:
            drop = change.drop or frozenset()
            leaving = [each for each in entries if each.data_file.file_path in drop]
        else:  # data manifests came first, so `staying` is complete
            leaving = [each for each in entries if not RowDeletes([each]).touched(staying)]
        left = [each for each in entries if each not in leaving] if leaving else entries
        if content == DATA:
            staying += left
        gone += [(content, each) for each in leaving]
        kept += folder.kept(content, left) if leaving else [manifest]
    return kept, gone


def _merged(
    io: FileIO,
    folder: ManifestFolder,
    kept: Sequence[ManifestFile],
    content: ManifestContent,
    most: int,
) -> Sequence[ManifestFile]:
    """Few manifests instead of many small ones."""
    found = [each for each in kept if each.content == content]
    if len(found) <= most:
        return found
    small = [each for each in found if each.manifest_length < SMALL_MANIFEST]
    large = [each for each in found if each.manifest_length >= SMALL_MANIFEST]
    entries = [entry for manifest in small for entry in live_entries(io, manifest)]
    return [*large, *folder.kept(content, entries)]


def _summary(
    change: FileChange,
    gone: Sequence[ManifestEntry],
    written: Sequence[ManifestFile],
    parent: Snapshot | None,
) -> Summary:
    metrics = UpdateMetrics()
    for file in (*change.add, *change.deletes):
        metrics.add_file(file)
    for entry in gone:
        metrics.remove_file(entry.data_file)
    before = parent.summary.additional_properties if parent and parent.summary else {}
    size = before.get("total-files-size", "0" if parent is None else None)
    totals = {
        "total-data-files": _files(written, DATA),
        "total-records": _rows(written, DATA),
        "total-delete-files": _files(written, DELETES),
        "total-position-deletes": _rows(written, DELETES),
        "total-equality-deletes": 0,
    }
    if size is not None:
        totals["total-files-size"] = int(size) + metrics.added_file_size - metrics.removed_file_size
    counted = {name: str(number) for name, number in totals.items()}
    return Summary(change.operation, **metrics.to_dict(), **counted, **change.summary)


def _files(found: Sequence[ManifestFile], content: ManifestContent) -> int:
    return sum(
        (each.added_files_count or 0) + (each.existing_files_count or 0)
        for each in found
        if each.content == content
    )


def _rows(found: Sequence[ManifestFile], content: ManifestContent) -> int:
    return sum(
        (each.added_rows_count or 0) + (each.existing_rows_count or 0)
        for each in found
        if each.content == content
    )
