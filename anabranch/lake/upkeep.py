"""Upkeep: forget old cuts, expire snapshots nobody needs, collect files nobody refers to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyiceberg.manifest import ManifestEntry
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import RemoveSnapshotsUpdate, update_table_metadata

from anabranch.catalog import cuts, deployments, read_leases, stages, streams, tables
from anabranch.catalog.store import Connection
from anabranch.errors import AnabranchError, FileMissing, PublishConflict
from anabranch.lake.changes import DELTA, NetDelta
from anabranch.lake.collect import FOREIGN_GRACE, collect, is_our_root
from anabranch.lake.lake import Lake
from anabranch.lake.manifests import manifests
from anabranch.lake.publish import Rows, publish
from anabranch.lake.snapshots import MANY_MANIFESTS, FileChange, with_snapshot
from anabranch.lake.stage import Stage
from anabranch.lake.version import ROWS, STAGE, TableVersion, tails_of
from anabranch.model import Reading
from anabranch.names import TableName

RETENTION = timedelta(days=1)
LONG_WAY = 50  # snapshots kept between a needed one and the newest, for their cheap deltas
SMALL_FILE = 16 << 20
MANY_SMALL_FILES = 20
MANY_MARK_FILES = 20
MUCH_MARKED = 0.2
ATTEMPTS = 3


@dataclass(frozen=True)
class Report:
    """What an upkeep did."""

    cuts_forgotten: int = 0
    snapshots_expired: int = 0
    manifests_merged: int = 0
    stages_ended: int = 0
    files_deleted: int = 0
    bytes_deleted: int = 0
    cut_id: int | None = None  # the cut that holds the changes, if any were needed


@dataclass(frozen=True)
class Compaction:
    """Files worth writing anew: read `reading`, commit it as `compaction` of `replaced`."""

    reading: Reading
    replaced: frozenset[str]
    reason: str


def maintain(
    lake: Lake,
    *,
    retention: timedelta = RETENTION,
    needed: Mapping[TableName, Iterable[int]] | None = None,
    grace: timedelta = timedelta(0),
    foreign_grace: timedelta = FOREIGN_GRACE,
    now: datetime | None = None,
    without: Collection[TableName] = (),
    check: Rows | None = None,
) -> Report:
    """Cuts younger than `retention`, and those that somebody holds, stay readable; `needed` snapshots
    stay as long as named.

    Without `needed`, those that stream tables stand on are taken from the catalog.  Tables that
    somebody else writes are left as they are (`without`), and `check` runs with the publish.  No file
    younger than `grace` is deleted.
    """
    now = now or tables.now()
    lake.fence.claim()
    lake.fence.check()
    with lake.store.writing() as c:
        cuts.hold(c)  # whoever takes a read lease waits, or is seen here
        living, dead = _stages(c, now)
        for each in dead:  # should such a stage live after all, its publish will now fail
            stages.remove(c, each.id)
        held = {*read_leases.held_cuts(c, now), *(each.cut_id or 0 for each in living)}
        forgotten = cuts.forget(c, cuts.first_since(c, now - retention), held)
        deployments.forget_undos(c)
    expired, merged, cut_id = _expire_patiently(lake, needed, without, check)
    deleted, size = collect(lake, grace, foreign_grace, now)
    return Report(forgotten, expired, merged, len(dead), deleted, size, cut_id)


def _stages(c: Connection, now: datetime) -> tuple[list[stages.StageRow], list[stages.StageRow]]:
    """Those whose owners live, and the others."""
    found = stages.all_stages(c)
    living = [each for each in found if stages.alive(each, now)]
    return living, [each for each in found if each not in living]


def _expire_patiently(
    lake: Lake,
    needed: Mapping[TableName, Iterable[int]] | None,
    without: Collection[TableName],
    check: Rows | None,
) -> tuple[int, int, int | None]:
    for _ in range(ATTEMPTS):
        try:
            return _expire(lake, needed, without, check)
        except PublishConflict:
            continue  # someone published meanwhile: look again
    return 0, 0, None


def _expire(
    lake: Lake,
    needed: Mapping[TableName, Iterable[int]] | None,
    without: Collection[TableName],
    check: Rows | None,
) -> tuple[int, int, int | None]:
    with lake.store.reading() as c:
        pointers = lake.pointers(c)
        versions = cuts.known_versions(c)
        asked = streams.needed_snapshots(c) if needed is None else needed
        wanted = {name: set(ids) for name, ids in asked.items()}
        for source, snapshot_id in deployments.needed_snapshots(c):
            wanted.setdefault(TableName.parse(source), set()).add(snapshot_id)
    for each in versions:
        if each.metadata_location != pointers.get(each.name):
            with suppress(FileMissing):  # it can be read by nobody
                shown = lake.version(each.name, each.metadata_location or "")
                wanted.setdefault(each.name, set()).add(shown.snapshot_id or 0)
    expired = merged = 0
    with Stage(lake, pointers) as stage:
        for name in pointers.keys() - {*without}:
            if not _whole(stage, name):
                continue  # `check` says what is wrong with it
            version = stage.version(name)
            if not is_our_root(lake.warehouse.location, version.root):
                continue  # made by another program, which also keeps it tidy
            gone = expendable(version, wanted.get(name, set()))
            many = len(manifests(version.io, version.metadata.current_snapshot()))
            if gone:
                stage.replace_metadata(name, _without(version.metadata, gone))
                expired += len(gone)
            if many > MANY_MANIFESTS:
                stage.replace_metadata(name, _with_fewer_manifests(stage, stage.version(name)))
                merged += many
        return expired, merged, publish(stage, "maintain", check) if stage.changes else None


def _whole(stage: Stage, name: TableName) -> bool:
    """Whether metadata and manifests of a table can be read."""
    try:
        version = stage.version(name)
        version.state(version.snapshot_id)
    except FileMissing:
        return False
    except (
        AnabranchError
    ):  # such as files that only another program reads: they are in nobody's way
        return True
    return True


def expendable(version: TableVersion, needed: set[int]) -> set[int]:
    """Snapshots that no branch, tag, cut or frontier needs, nor a short way from one to the newest."""
    metadata = version.metadata
    keep = {ref.snapshot_id for ref in metadata.refs.values()} | needed
    if version.snapshot_id is not None:
        keep.add(version.snapshot_id)
    way: list[int] = []
    parents = {each.snapshot_id: each.parent_snapshot_id for each in metadata.snapshots}
    at = version.snapshot_id
    while at is not None and at in parents and len(way) <= LONG_WAY:
        way.append(at)
        if at in needed:
            keep.update(way)
        at = parents[at]
    return set(parents) - keep


def _without(metadata: TableMetadata, gone: set[int]) -> TableMetadata:
    update = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": sorted(gone)})
    return update_table_metadata(metadata, (update,))


def _with_fewer_manifests(stage: Stage, version: TableVersion) -> TableMetadata:
    summary = {
        STAGE: stage.id,
        ROWS: str(version.rows),
        DELTA: NetDelta(version.snapshot_id).to_json(version.root),
    }
    change = FileChange(Operation.REPLACE, summary=summary, most_manifests=1)
    return with_snapshot(version.io, version.metadata, stage.id, change)


def compaction(version: TableVersion) -> Compaction | None:
    """What to compact and why; None when the table is in good shape."""
    state = version.state(version.snapshot_id)
    small = [each for each in state.data if each.data_file.file_size_in_bytes < SMALL_FILE]
    stored = sum(each.data_file.record_count for each in state.data)
    reasons = []
    chosen: dict[str, ManifestEntry] = {}
    if len(small) >= MANY_SMALL_FILES:
        reasons.append(f"{len(small)} small files")
        chosen.update((each.data_file.file_path, each) for each in small)
    marks = len(state.marks.entries)
    if marks >= MANY_MARK_FILES or version.marked > MUCH_MARKED * stored:
        reasons.append(f"{version.marked} of {stored} rows marked as deleted in {marks} files")
        touched = state.marks.touched(state.data)
        chosen.update((each.data_file.file_path, each) for each in touched)
    if not chosen:
        return None
    files = [chosen[path] for path in sorted(chosen)]
    skip = state.marks.applying_to(files)
    reading = Reading(
        files=tuple(sorted(chosen)),
        skip=tuple(sorted(skip.paths)),
        rows=sum(each.data_file.record_count for each in files),
        bytes=sum(each.data_file.file_size_in_bytes for each in files),
        longest=max(each.data_file.record_count for each in files),
        tails=tails_of((*files, *skip.entries)),
    )
    return Compaction(reading, frozenset(chosen), " and ".join(reasons))
