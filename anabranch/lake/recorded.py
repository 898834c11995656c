"""Table metadata in rows: a shape and a snapshot tell what the metadata file of a version did.

A shape is the metadata without its snapshots, and so hardly ever changes; a table's own metadata lists
the last few snapshots only.  The rest is in rows, for as long as a cut or a stream table needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot
from sqlalchemy import Connection

from anabranch.catalog import snapshots
from anabranch.catalog.cuts import Version
from anabranch.catalog.snapshots import Record, Shown, shape_id
from anabranch.lake.checksums import SEAL
from anabranch.lake.version import TableVersion

LISTED = 20  # snapshots in a table's own metadata, for time travel by other engines
LONG_WAY = 50  # snapshots kept between a needed one and the newest, for their cheap deltas
_OF_ONE_VERSION = {
    "snapshots",
    "current_snapshot_id",
    "snapshot_log",
    "metadata_log",
    "last_sequence_number",
    "last_updated_ms",
    "statistics",
    "partition_statistics",
}


@dataclass(frozen=True)
class Facts:
    """What a publish records of a version."""

    table_uuid: str
    shape: Record
    new: tuple[Record, ...]

    @cached_property
    def shape_id(self) -> str:
        return shape_id(self.shape)

    def version(self, version: TableVersion) -> Version:
        at = version.snapshot_id
        return Version(version.name, version.location, at, self.table_uuid, self.shape_id)


def add(c: Connection, versions: Sequence[Facts]) -> None:
    """Write the rows of some versions."""
    snapshots.add_shapes(c, {each.shape_id: each.shape for each in versions})
    snapshots.add(c, [(each.table_uuid, record) for each in versions for record in each.new])


def facts(metadata: TableMetadata, new: Iterable[Snapshot]) -> Facts:
    return Facts(str(metadata.table_uuid), shape_of(metadata), tuple(map(record_of, new)))


def shape_of(metadata: TableMetadata) -> Record:
    found = metadata.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude=_OF_ONE_VERSION
    )
    properties: dict[str, str] = found.get("properties") or {}
    found["properties"] = {key: value for key, value in properties.items() if key != SEAL}
    refs: dict[str, Any] = found.get("refs") or {}
    found["refs"] = {name: ref for name, ref in refs.items() if name != MAIN_BRANCH}
    return found


def record_of(snapshot: Snapshot) -> Record:
    found: Record = snapshot.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found


def metadata_of(shown: Shown) -> TableMetadata:
    """The metadata of a version, with the one snapshot that it shows."""
    snapshot = shown.snapshot
    of_version: dict[str, Any] = {"snapshots": [], "refs": {}, "last-sequence-number": 0}
    if snapshot is not None:
        at, made = snapshot["snapshot-id"], snapshot["timestamp-ms"]
        of_version = {
            "snapshots": [snapshot],
            "current-snapshot-id": at,
            "refs": {MAIN_BRANCH: {"snapshot-id": at, "type": "branch"}},
            "snapshot-log": [{"snapshot-id": at, "timestamp-ms": made}],
            "last-sequence-number": snapshot.get("sequence-number", 0),
        }
    made = snapshot["timestamp-ms"] if snapshot is not None else 0
    return TableMetadataUtil.parse_obj({**shown.shape, **of_version, "last-updated-ms": made})


def with_few_snapshots(metadata: TableMetadata) -> tuple[TableMetadata, list[Snapshot]]:
    """The metadata with the newest snapshots and the heads of branches and tags; and the others."""
    if len(metadata.snapshots) <= LISTED:
        return metadata, []
    newest = sorted(metadata.snapshots, key=_age)[-LISTED:]
    listed = {each.snapshot_id for each in newest}
    listed |= {ref.snapshot_id for ref in metadata.refs.values()}
    listed |= {metadata.current_snapshot_id or 0}
    return without(metadata, {each.snapshot_id for each in metadata.snapshots} - listed)


def without(metadata: TableMetadata, gone: set[int]) -> tuple[TableMetadata, list[Snapshot]]:
    """The metadata without some snapshots; and those."""
    left = [each for each in metadata.snapshots if each.snapshot_id not in gone]
    taken = [each for each in metadata.snapshots if each.snapshot_id in gone]
    log = list(metadata.snapshot_log)
    # readers go by the log: from the last one that is gone on, it tells nothing true
    last = max((at for at, each in enumerate(log) if each.snapshot_id in gone), default=-1)
    changed: dict[str, Any] = {"snapshots": left, "snapshot_log": log[last + 1 :]}
    for kind in ("statistics", "partition_statistics"):
        kept = [each for each in getattr(metadata, kind) if each.snapshot_id not in gone]
        changed[kind] = kept
    return metadata.model_copy(update=changed), taken


def _age(snapshot: Snapshot) -> tuple[int, int]:
    return snapshot.sequence_number or 0, snapshot.timestamp_ms
