"""Collect files that nothing refers to.

Files are listed first; then, in one transaction, live stages and pointers are read.  A listed file
belongs to a stage that was written down before the file: so by then the stage is still alive, or it
was published and is among the references, or it is over and its files are garbage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from pyarrow.fs import FileInfo
from pyiceberg.io import FileIO
from pyiceberg.table.snapshots import Snapshot

from anabranch.catalog import cuts, read_leases, snapshots, stages, tables
from anabranch.catalog.store import Connection
from anabranch.errors import FileMissing, FileUnreadable, Unreachable
from anabranch.lake.changes import DELTA, NetDelta
from anabranch.lake.lake import Lake
from anabranch.lake.manifests import live_entries, manifests
from anabranch.lake.places import MARKER, is_our_root
from anabranch.lake.publish import delete_metadata
from anabranch.lake.version import TableVersion, summary_of
from anabranch.names import TableName
from anabranch.retry import attempts

FOREIGN_GRACE = timedelta(days=3)  # other programs do not announce the files they are writing
ATTEMPTS = 3  # a warehouse that is away stays so for longer
METADATA = ".metadata.json"
_STAGE_ID = re.compile(r"/(?:data/|metadata/(?:[^/]*-)?)([0-9a-f]{32})(?=[/.-])")
_CHECKSUM = re.compile(r"/\.([^/]+)\.crc$")


def collect(
    lake: Lake, grace: timedelta, foreign_grace: timedelta, now: datetime | None = None
) -> tuple[int, int]:
    """Delete garbage of this warehouse that is older than a grace; the number of files and bytes."""
    for attempt in attempts(ATTEMPTS, also=(Unreachable,)):
        with attempt:  # another upkeep may take a file away that we are about to look into
            return _collect(lake, grace, foreign_grace, now)
    raise AssertionError("unreachable")


def _collect(
    lake: Lake, grace: timedelta, foreign_grace: timedelta, now: datetime | None
) -> tuple[int, int]:
    warehouse = lake.warehouse
    lake.fence.check()
    listed = _listed(lake)
    with lake.store.reading() as c:
        live = {each.id for each in stages.all_stages(c)}
        named = Named.read(lake, c)
        at = tables.now(c)
        if read_leases.all_files_held(c, at):
            return 0, 0  # a backup is at work: the next upkeep finds the rest
    # Files have the time of the clock on the wall, which may have been set: old is what both call old.
    end = now or min(at, tables.now())
    old = {
        path: info
        for path, info in listed.items()
        if _is_old(path, info, live, grace, foreign_grace, end)
    }
    if not old:
        return 0, 0  # no need to ask what refers to them
    broken: set[str] = set()
    referenced = set(references(lake, named, broken))
    garbage = [
        (path, info)
        for path, info in old.items()
        if _subject(path) not in referenced and not path.startswith(tuple(broken))
    ]
    if garbage:
        lake.fence.check()
    deleted = size = 0
    left = delete_metadata(lake, [path for path, _ in garbage if path.endswith(METADATA)])
    for path, info in garbage:
        if left.get(path, False) if path.endswith(METADATA) else warehouse.delete(path):
            deleted += 1
            size += info.size or 0
    for root in {_root_of(warehouse.location, path) for path, _ in garbage} - {None}:
        warehouse.delete_empty_folders(str(root))
    return deleted, size


def _listed(lake: Lake) -> dict[str, FileInfo]:
    """Files in folders of ours: nothing that lies elsewhere is ever deleted."""
    warehouse = lake.warehouse
    try:
        inside = warehouse.listing(warehouse.location, open_only=True)
    except OSError as error:
        raise warehouse.unreachable(error) from error
    return {
        path: info
        for path, info in inside.items()
        if not path.endswith(f"/{MARKER}")
        and (_root_of(warehouse.location, path) is not None or _STAGE_ID.search(path))
    }


def _subject(path: str) -> str:
    """The file that a path is about: Hadoop keeps the checksum of `f` in `.f.crc`."""
    return _CHECKSUM.sub(r"/\1", path)


def _is_old(
    path: str,
    info: FileInfo,
    live: set[str],
    grace: timedelta,
    foreign_grace: timedelta,
    now: datetime,
) -> bool:
    """Whether a file may go if nothing refers to it; a young one may be a copy's or a writer's."""
    changed = info.mtime.astimezone(timezone.utc) if info.mtime is not None else now
    if ours := _STAGE_ID.search(path):
        return ours.group(1) not in live and (not grace or now - changed > grace)
    return now - changed > max(grace, foreign_grace)


def _root_of(warehouse: str, path: str) -> str | None:
    """The folder of ours that a file lies in."""
    match = re.match(r"(.+?)/(?:data|metadata)/", path[len(warehouse) :])
    root = warehouse + match.group(1) if match else None
    return root if root is not None and is_our_root(warehouse, root) else None


@dataclass(frozen=True)
class Named:
    """What the catalog names, read in one transaction."""

    pointers: Mapping[TableName, str]
    by_file: tuple[tuple[TableName, str], ...]  # versions that only their metadata files tell
    snapshots: tuple[tuple[str, Snapshot], ...]  # by the folders of their tables

    @classmethod
    def read(cls, lake: Lake, c: Connection) -> Named:
        pointers = lake.pointers(c)
        by_file = tuple(
            (each.name, each.metadata_location)
            for each in cuts.known_versions(c)
            if each.shape is None and each.metadata_location is not None
            if pointers.get(each.name) != each.metadata_location
        )
        found = (Snapshot.model_validate(record) for _, record in snapshots.records(c))
        return cls(pointers, by_file, tuple((_folder(each), each) for each in found))


def _folder(snapshot: Snapshot) -> str:
    return snapshot.manifest_list.rpartition("/metadata/")[0]


def references(lake: Lake, named: Named, broken: set[str]) -> Iterator[str]:
    """All files of current tables, and of the snapshots that cuts, stream tables and roll-backs need.

    Metadata files that a table has left behind stay for a grace only.  What a broken table needs is
    unknown: its folder joins the `broken`, and all of it stays.
    """
    seen: set[str] = set()
    for name, location in named.pointers.items():
        try:
            version = lake.version(name, location)
            yield from named_in(version)
            for each in version.metadata.snapshots:
                yield from files_of(lake.warehouse.io, version.root, each, seen)
        except (FileMissing, FileUnreadable):
            broken.add(location.rpartition("/metadata/")[0] + "/")
    for name, location in named.by_file:
        try:
            version = lake.version(name, location)
            yield from named_in(version)
            if current := version.metadata.current_snapshot():
                yield from files_of(lake.warehouse.io, version.root, current, seen)
        except (FileMissing, FileUnreadable):
            broken.add(location.rpartition("/metadata/")[0] + "/")
    for root, snapshot in named.snapshots:
        try:
            yield from files_of(lake.warehouse.io, root, snapshot, seen)
        except (FileMissing, FileUnreadable):
            broken.add(root + "/")


def named_in(version: TableVersion) -> Iterator[str]:
    """The files that metadata names itself, and its own."""
    yield version.location
    metadata = version.metadata
    yield from (each.statistics_path for each in metadata.statistics)
    yield from (each.statistics_path for each in metadata.partition_statistics)


def files_of(files: FileIO, root: str, snapshot: Snapshot, seen: set[str]) -> Iterator[str]:
    """The files of a snapshot, except those of manifests that were seen already."""
    if snapshot.manifest_list in seen:
        return
    seen.add(snapshot.manifest_list)
    yield snapshot.manifest_list
    for manifest in manifests(files, snapshot):
        if manifest.manifest_path not in seen:
            seen.add(manifest.manifest_path)
            yield manifest.manifest_path
            yield from (each.data_file.file_path for each in live_entries(files, manifest))
    if text := summary_of(snapshot).get(DELTA):
        delta = NetDelta.from_json(text, root)
        yield from (*delta.plus, *delta.minus)
