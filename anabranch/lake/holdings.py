"""Which files snapshots need, and which snapshots are lost with some of them.

Snapshots share manifests, and manifests are many: each is looked into once, and whoever names a file
that cannot be read is found from there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.table.snapshots import Snapshot

from anabranch.catalog.rewind import Key, Rows
from anabranch.errors import FileMissing, Refused
from anabranch.lake.changes import DELTA, NetDelta
from anabranch.lake.collect import named_in
from anabranch.lake.damage import damaged_files
from anabranch.lake.lake import Lake
from anabranch.lake.manifests import live_entries, manifests
from anabranch.lake.version import TableVersion, summary_of
from anabranch.names import TableName


class Holdings:
    """The files of snapshots; `unreadable` are those that are missing or damaged."""

    def __init__(self, files: FileIO) -> None:
        self.named: set[str] = set()
        self.unreadable: set[str] = set()
        self._reason: dict[str, str] = {}
        self._io = files
        self._manifests: dict[str, set[str]] = {}  # the files that they name
        self._lists: dict[str, set[str]] = {}  # the manifests and files of changes

    def add(self, snapshot: Snapshot | None, root: str) -> None:
        """Look into the files of a snapshot; what cannot be read joins the `unreadable`."""
        if snapshot is None or snapshot.manifest_list in self._lists:
            return
        at = snapshot.manifest_list
        named = self._lists[at] = set()
        if text := summary_of(snapshot).get(DELTA):
            delta = NetDelta.from_json(text, root)
            named.update((*delta.plus, *delta.minus))
        try:
            found = manifests(self._io, snapshot)
        except FileMissing:
            self.unreadable.add(at)
            found = ()
        for manifest in found:
            named.add(manifest.manifest_path)
            if manifest.manifest_path in self._manifests:
                continue
            inside = self._manifests[manifest.manifest_path] = set()
            try:
                inside.update(e.data_file.file_path for e in live_entries(self._io, manifest))
            except FileMissing:
                self.unreadable.add(manifest.manifest_path)
            self.named |= inside
        self.named |= {at, *named}

    def losses(self, snapshots: Mapping[Key, Snapshot | None]) -> dict[Key, str]:
        """Those of some snapshots that miss a file, and which."""
        found = {key: self.lost(each) for key, each in snapshots.items()}
        gone = self.unreadable
        found |= {key: key[0] for key in snapshots if key[1] is None and key[0] in gone}
        return {key: path for key, path in found.items() if path is not None}

    def settle(self, unreadable: Iterable[str]) -> None:
        """These cannot be read either: manifests that name some count as unreadable from here on."""
        self.unreadable |= {*unreadable}
        self._reason = {each: each for each in self.unreadable}
        for path, inside in self._manifests.items():
            if gone := inside & self.unreadable:
                self._reason.setdefault(path, min(gone))

    def lost(self, snapshot: Snapshot | None) -> str | None:
        """A file of a snapshot that cannot be read, if there is one."""
        if snapshot is None or not self.unreadable:
            return None
        at = snapshot.manifest_list
        named = (at, *sorted(self._lists[at]))
        return next((self._reason[each] for each in named if each in self._reason), None)


def older(lake: Lake, rows: Rows, holdings: Holdings) -> Iterator[tuple[Key, Snapshot | None]]:
    """The snapshots and versions that rows of the catalog name, by what names them in rows.

    A version of an older catalog has no row for its snapshot: its metadata file tells it.
    """
    for row in rows.get("ab_snapshots", ()):
        yield (row["table_uuid"], row["snapshot_id"]), _snapshot(row["record"])
    pointers = {row["metadata_location"] for row in rows["iceberg_tables"]}
    for row in rows["ab_versions"]:
        location = row["metadata_location"]
        if location is None or row.get("shape") is not None or location in pointers:
            continue
        holdings.named.add(location)
        try:
            name = TableName((*row["namespace"].split("."),), row["name"])
            yield (location, None), lake.version(name, location).metadata.current_snapshot()
        except FileMissing:
            holdings.unreadable.add(location)
            yield (location, None), None


def _snapshot(record: Mapping[str, Any]) -> Snapshot:
    return Snapshot.model_validate(record)


def folder(snapshot: Snapshot) -> str:
    """The folder of its table."""
    return snapshot.manifest_list.rpartition("/metadata/")[0]


class Needs:
    """The files that the newest cut needs, and those of the older snapshots that are still kept."""

    def __init__(self, lake: Lake, pointers: Mapping[TableName, str], rows: Rows) -> None:
        self.holdings = Holdings(lake.warehouse.io)
        self._newest: dict[TableName, TableVersion] = {}
        self._older: dict[Key, Snapshot | None] = {}
        for name, location in pointers.items():
            try:
                version = lake.version(name, location)
            except FileMissing as error:
                raise _refused(name, error.path or location) from error
            self._newest[name] = version
            self.holdings.named.update(named_in(version))
            self.holdings.add(version.metadata.current_snapshot(), version.root)
        self._refuse_loss()
        for version in self._newest.values():
            for each in version.metadata.snapshots:
                self._add((str(version.metadata.table_uuid), each.snapshot_id), each, version.root)
        for key, snapshot in older(lake, rows, self.holdings):
            self._add(key, snapshot, folder(snapshot) if snapshot is not None else "")

    def _add(self, key: Key, snapshot: Snapshot | None, root: str) -> None:
        self._older[key] = snapshot
        self.holdings.add(snapshot, root)

    def damaged(self, paths: Collection[str]) -> set[str]:
        """Those of some data files, as far as the newest cut shows them, that are damaged."""
        newest = self._newest.values()
        return {each.path for version in newest for each in damaged_files(version, paths)}

    def lost(self, unreadable: Iterable[str]) -> dict[Key, str]:
        """The older snapshots that miss a file, and which; refused if the newest cut does."""
        self._refuse_loss(unreadable)
        return self.holdings.losses(self._older)

    def _refuse_loss(self, unreadable: Iterable[str] = ()) -> None:
        self.holdings.settle(unreadable)
        for name, version in self._newest.items():
            own = self.holdings.unreadable.intersection(named_in(version))
            path = self.holdings.lost(version.metadata.current_snapshot())
            if own or path:
                raise _refused(name, path or min(own))


def _refused(name: TableName, path: str) -> Refused:
    return Refused(
        f"{path} of table {name} is missing or damaged: no backup was made",
        hint="`anabranch check --repair` repairs it, or says how to",
    )
