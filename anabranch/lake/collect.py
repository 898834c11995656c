"""Collect files that nothing refers to.

Files are listed first; then, in one transaction, live stages and pointers are read.  A listed file
belongs to a stage that was written down before the file: so by then the stage is still alive, or it
was published and is among the references, or it is over and its files are garbage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from pyarrow.fs import FileInfo

from anabranch.catalog import cuts, deployments, read_leases, stages, tables
from anabranch.errors import Fenced, FileMissing, Unreachable
from anabranch.lake.changes import own_delta
from anabranch.lake.lake import Lake
from anabranch.lake.manifests import live_entries, manifests
from anabranch.lake.places import MARKER
from anabranch.lake.version import TableVersion
from anabranch.names import TableName

FOREIGN_GRACE = timedelta(days=3)  # other programs do not announce the files they are writing
ATTEMPTS = 3
_STAGE_ID = re.compile(r"/(?:data/|metadata/(?:[^/]*-)?)([0-9a-f]{32})(?=[/.-])")
_CHECKSUM = re.compile(r"/\.([^/]+)\.crc$")
_OUR_ROOT = re.compile(r"(?:/[A-Za-z0-9_-]+){1,2}/[A-Za-z0-9_-]+-[0-9a-f]{8}")


def is_our_root(warehouse: str, root: str) -> bool:
    """Whether a table's folder was made by us."""
    return root.startswith(warehouse + "/") and bool(_OUR_ROOT.fullmatch(root[len(warehouse) :]))


def collect(
    lake: Lake, grace: timedelta, foreign_grace: timedelta, now: datetime
) -> tuple[int, int]:
    """Delete garbage of this warehouse that is older than a grace; the number of files and bytes."""
    for attempt in range(ATTEMPTS):
        try:
            return _collect(lake, grace, foreign_grace, now)
        except Fenced:
            raise
        except Unreachable:  # another upkeep took a file away that we were about to look into
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _collect(
    lake: Lake, grace: timedelta, foreign_grace: timedelta, now: datetime
) -> tuple[int, int]:
    warehouse = lake.warehouse
    lake.fence.check()
    listed = _listed(lake)
    with lake.store.reading() as c:
        live = {each.id for each in stages.all_stages(c)}
        pointers = lake.pointers(c)
        versions = [
            (each.name, each.metadata_location)
            for each in cuts.known_versions(c)
            if each.metadata_location is not None
        ]
        kept = deployments.kept_locations(c)
        if read_leases.all_files_held(c, tables.now(c)):
            return 0, 0  # a backup is at work: the next upkeep finds the rest
    broken: set[str] = set()
    referenced = set(references(lake, pointers, versions, kept, broken))
    garbage = [
        (path, info)
        for path, info in listed.items()
        if _subject(path) not in referenced
        and not path.startswith(tuple(broken))
        and _is_garbage(path, info, live, grace, foreign_grace, now)
    ]
    if garbage:
        lake.fence.check()
    deleted = size = 0
    for path, info in garbage:
        if warehouse.delete(path):
            deleted += 1
            size += info.size or 0
    for root in {_root_of(warehouse.location, path) for path, _ in garbage} - {None}:
        warehouse.delete_empty_folders(str(root))
    return deleted, size


def _listed(lake: Lake) -> dict[str, FileInfo]:
    """Files in folders of ours: nothing that lies elsewhere is ever deleted."""
    warehouse = lake.warehouse
    try:
        inside = warehouse.listing(warehouse.location)
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


def _is_garbage(
    path: str,
    info: FileInfo,
    live: set[str],
    grace: timedelta,
    foreign_grace: timedelta,
    now: datetime,
) -> bool:
    """Whether nobody needs a file that nothing refers to; a young one may be a copy's or a writer's."""
    changed = info.mtime.astimezone(timezone.utc) if info.mtime is not None else now
    if ours := _STAGE_ID.search(path):
        return ours.group(1) not in live and (not grace or now - changed > grace)
    return now - changed > max(grace, foreign_grace)


def _root_of(warehouse: str, path: str) -> str | None:
    """The folder of ours that a file lies in."""
    match = re.match(r"(.+?)/(?:data|metadata)/", path[len(warehouse) :])
    root = warehouse + match.group(1) if match else None
    return root if root is not None and is_our_root(warehouse, root) else None


def references(
    lake: Lake,
    pointers: dict[TableName, str],
    versions: list[tuple[TableName, str]],
    kept: set[str],
    broken: set[str],
) -> Iterator[str]:
    """All files of current tables and of those that a roll-back may bring back, and those that other
    recorded cuts show.

    What a broken table needs is unknown: its folder joins the `broken`, and all of it stays.
    """
    seen: set[str] = set()
    others = [(name, location) for name, location in versions if pointers.get(name) != location]
    for name, location in (*pointers.items(), *others):
        whole = location in kept or pointers.get(name) == location
        try:
            version = lake.version(name, location)
            yield from _named_in(version)
            for each in version.snapshot_ids if whole else [version.snapshot_id]:
                if each is not None:
                    yield from files_of(version, each, seen)
        except FileMissing:
            broken.add(location.rpartition("/metadata/")[0] + "/")


def _named_in(version: TableVersion) -> Iterator[str]:
    yield version.location
    metadata = version.metadata
    yield from (each.statistics_path for each in metadata.statistics)
    yield from (each.statistics_path for each in metadata.partition_statistics)


def files_of(version: TableVersion, snapshot_id: int, seen: set[str]) -> Iterator[str]:
    """The files of a snapshot, except those of manifests that were seen already."""
    snapshot = version.snapshot(snapshot_id)
    if snapshot is None or snapshot.manifest_list in seen:
        return
    seen.add(snapshot.manifest_list)
    yield snapshot.manifest_list
    for manifest in manifests(version.io, snapshot):
        if manifest.manifest_path not in seen:
            seen.add(manifest.manifest_path)
            yield manifest.manifest_path
            yield from (each.data_file.file_path for each in live_entries(version.io, manifest))
    if delta := own_delta(version, snapshot):
        yield from (*delta.plus, *delta.minus)
