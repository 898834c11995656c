"""The tables of one catalog, as Iceberg keeps them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyiceberg.exceptions import ValidationError
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.snapshots import Snapshot
from sqlalchemy import Connection

from anabranch.cache import Cache
from anabranch.catalog import cuts, snapshots
from anabranch.catalog.store import Store
from anabranch.errors import FileDamaged, FileMissing, UnknownName
from anabranch.lake.attached import Connections
from anabranch.lake.checksums import read_bytes, unsealed
from anabranch.lake.fence import Fence
from anabranch.lake.places import Warehouse
from anabranch.lake.recorded import metadata_of
from anabranch.lake.version import TableVersion
from anabranch.names import TableName

VERSIONS = 256  # kept in memory
SNAPSHOTS = 1024


class Lake:
    """Pointers and versions.  `pointers` is one SELECT, so what it returns is one cut."""

    def __init__(
        self, store: Store, warehouse: str | Path, catalog_name: str = "anabranch"
    ) -> None:
        self.store = store
        self.catalog_name = catalog_name
        self.warehouse = Warehouse(warehouse, store.catalog_uuid, fsync=store.fsync)
        self.attached = Connections(store)
        self.fence = Fence(store, self.warehouse, catalog_name)
        self._versions: Cache[TableVersion] = Cache(VERSIONS, "table versions", of_files=True)
        self._snapshots: Cache[Snapshot | None] = Cache(SNAPSHOTS, "snapshots")

    def pointers(self, c: Connection | None = None) -> dict[TableName, str]:
        """The metadata file of every table, now."""
        if c is not None:
            return cuts.pointers(c, self.catalog_name)
        with self.store.reading() as connection:
            return cuts.pointers(connection, self.catalog_name)

    def pointers_at(self, cut_id: int, c: Connection | None = None) -> dict[TableName, str]:
        """The metadata file of every table, as a cut shows them."""
        if c is not None:
            return cuts.pointers_at(c, cut_id)
        with self.store.reading() as connection:
            return cuts.pointers_at(connection, cut_id)

    def version(self, name: TableName, location: str) -> TableVersion:
        """A table by the name of its metadata file; cached, because such files never change.

        Once a table has moved on, its older files go, and rows of the catalog tell what they said.
        """
        return self._versions.get(_key(name, location), lambda: self._read(name, location))

    def reread(self, name: TableName, location: str) -> TableVersion:
        """The same from the file, whatever is remembered of it."""
        return self.made(name, location, self._from_file(name, location))

    def snapshot(self, table_uuid: str, snapshot_id: int) -> Snapshot | None:
        """A snapshot that its table does not list any more, if something needs it."""

        def read() -> Snapshot | None:
            with self.store.reading() as c:
                found = snapshots.get(c, table_uuid, snapshot_id)
            return Snapshot.model_validate(found) if found is not None else None

        key = f"{table_uuid} {snapshot_id}"
        found = self._snapshots.get(key, read)
        if found is None:
            self._snapshots.drop(key)  # it may yet be recorded
        return found

    def forget_snapshots(self, table_uuid: str, gone: Iterable[int]) -> None:
        """Do not remember snapshots that another program expired."""
        for snapshot_id in gone:
            self._snapshots.drop(f"{table_uuid} {snapshot_id}")

    def made(self, name: TableName, location: str, metadata: TableMetadata) -> TableVersion:
        return TableVersion(name, location, metadata, self._io(name, location), self.snapshot)

    def current(self, name: TableName) -> TableVersion:
        """The table as it is now."""
        pointers = self.pointers()
        if name not in pointers:
            raise no_such_table(name, pointers)
        return self.version(name, pointers[name])

    def remember(self, version: TableVersion) -> None:
        """Spare the reading of a metadata file that was just written."""
        self._versions.get(_key(version.name, version.location), lambda: version)

    def take_identity(self, catalog_uuid: str) -> None:
        """The catalog is known by another identity from now on, and its files may have changed."""
        self.store.catalog_uuid = self.warehouse.catalog_uuid = catalog_uuid
        self._versions = Cache(VERSIONS, "table versions", of_files=True)
        self._snapshots = Cache(SNAPSHOTS, "snapshots")

    def _read(self, name: TableName, location: str) -> TableVersion:
        try:
            metadata = self._from_file(name, location)
        except FileMissing:
            with self.store.reading() as c:
                shown = snapshots.shown_as(c, location)
            if shown is None:
                raise
            metadata = metadata_of(shown)
        return self.made(name, location, metadata)

    def _io(self, name: TableName, location: str) -> FileIO:
        own = self.warehouse
        if location.startswith(own.location + "/"):
            return own.io
        return self.attached.io(name, location, own.io)

    def _from_file(self, name: TableName, location: str) -> TableMetadata:
        try:
            data = read_bytes(self._io(name, location), location)
            return TableMetadataUtil.parse_raw(unsealed(data, location).decode())
        except (FileDamaged, ValueError, ValidationError) as error:
            raise FileDamaged(
                f"the metadata file of {name} is damaged: {location}",
                hint="anabranch check says how to repair it; if it is a stream table, "
                f"REFRESH STREAM TABLE {name} FULL recomputes it",
                path=location,
            ) from error
        except FileMissing as error:
            if (problem := self.fence.problem()) is not None:
                raise problem from error
            raise FileMissing(
                f"the metadata file of {name} is missing: {location}",
                hint="check that the warehouse is mounted; if the cut is old it has expired",
                path=location,
            ) from error


def _key(name: TableName, location: str) -> str:
    return f"{name} {location}"  # one metadata file may be registered under two names


def no_such_table(name: TableName, known: dict[TableName, str]) -> UnknownName:
    return UnknownName(
        f"there is no table {name}", name=str(name), known=[str(each) for each in known]
    )
