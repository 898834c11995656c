"""The folder of backups: files, each once, and one record for each backup.

    anabranch-backup.json       whose backups these are
    files/<path in the warehouse>
    rows/<id>.json.gz           the rows of the catalog
    backups/<cut>-<id>.json     written last, durably: a backup without it was interrupted

A record names every file that the backup needs, with size and checksum.  Files of a warehouse never
change, so a file that an older record names is not copied again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from pyarrow.fs import FileSystem

from anabranch.catalog.tables import FORMAT_VERSION, now
from anabranch.errors import InvalidValue, Refused, Unreachable
from anabranch.lake.places import Warehouse, location_of

OWNER = "anabranch-backup.json"
CHUNK = 1 << 20
SIDE_BY_SIDE = 8
Sums = dict[str, tuple[int, str]]  # by path in the warehouse: size and SHA-256


@dataclass(frozen=True)
class Record:
    """A whole backup."""

    cut: int
    made_at: str
    catalog: str
    warehouse: str
    rows: str
    rows_sum: str
    files: Mapping[str, tuple[int, str]]
    format: int = FORMAT_VERSION


class Archive:
    """A folder that holds the backups of one catalog."""

    def __init__(self, place: str, *, fsync: bool = True) -> None:
        self.place = Warehouse(location_of(place), "", fsync=fsync)
        self.location = self.place.location

    def records(self) -> list[Record]:
        """All whole backups, the newest last."""
        try:
            found = self.place.listing(f"{self.location}/backups")
        except OSError as error:
            raise self.place.unreachable(error) from error
        records = []
        for path in sorted(each for each in found if each.endswith(".json")):
            try:
                told = json.loads(self._read(path))
                told["files"] = {name: tuple(each) for name, each in told["files"].items()}
                records.append(Record(**told))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise damaged(path) from error
        return sorted(records, key=lambda each: (each.cut, each.made_at))

    def check(self) -> None:
        """Refuse a folder that holds no whole backup."""
        chosen(self.records(), None, self.location)

    def claim(self, catalog: str) -> None:
        """Refuse a folder with other things in it."""
        owner = self.place.take(OWNER)
        if owner is not None and owner.get("catalog") != catalog:
            raise Refused(
                f"{self.location} holds backups of another catalog", hint="choose another folder"
            )
        if owner is None:
            if self.place.listing(self.location):
                raise Refused(
                    f"{self.location} is not empty, and holds no backup",
                    hint="choose another folder",
                )
            self.place.put(OWNER, json.dumps({"catalog": catalog}).encode(), replace=False)

    def add_files(self, warehouse: Warehouse, paths: Iterable[str], known: Sums) -> Sums:
        """Copy files of a warehouse that no record knows; their sums."""
        there = self.place.listing(f"{self.location}/files")
        wanted = list(paths)

        def one(path: str) -> tuple[int, str]:
            place = f"{self.location}/files/{path}"
            if path in known and place in there and there[place].size == known[path][0]:
                return known[path]
            return copy(warehouse, f"{warehouse.location}/{path}", self.place, place)

        with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="backup") as pool:
            sums = dict(zip(wanted, pool.map(one, wanted), strict=True))
        new = [path for path in sums if sums[path] != known.get(path)]
        self.place.make_durable(f"{self.location}/files/{path}" for path in new)
        return sums

    def add_record(
        self, cut: int, catalog: str, warehouse: str, rows: Mapping[str, Any], files: Sums
    ) -> Record:
        """The rows, then the record: from here on the backup is whole."""
        token = uuid.uuid4().hex
        data = gzip.compress(json.dumps(rows).encode(), mtime=0)
        name = f"rows/{token}.json.gz"
        self.place.put(name, data, replace=True)
        sums = hashlib.sha256(data).hexdigest()
        record = Record(cut, now().isoformat(), catalog, warehouse, name, sums, files)
        text = json.dumps(asdict(record)).encode()
        self.place.put(f"backups/{cut:012d}-{token}.json", text, replace=True)
        return record

    def rows(self, record: Record) -> dict[str, list[dict[str, Any]]]:
        data = self._read(f"{self.location}/{record.rows}")
        if hashlib.sha256(data).hexdigest() != record.rows_sum:
            raise damaged(f"{self.location}/{record.rows}")
        found: dict[str, list[dict[str, Any]]] = json.loads(gzip.decompress(data))
        return found

    def copy_out(self, record: Record, warehouse: Warehouse) -> None:
        """Copy all files of a backup into a warehouse, and compare their sums."""

        def one(path: str) -> None:
            place = f"{self.location}/files/{path}"
            if (
                copy(self.place, place, warehouse, f"{warehouse.location}/{path}")
                != (record.files[path])
            ):
                raise damaged(place)

        with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="restore") as pool:
            list(pool.map(one, record.files))
        warehouse.make_durable(f"{warehouse.location}/{path}" for path in record.files)

    def _read(self, location: str) -> bytes:
        try:
            with self.place.io.new_input(location).open() as stream:
                return stream.read()
        except OSError as error:
            raise self.place.unreachable(error) from error


def damaged(location: str) -> Unreachable:
    return Unreachable(
        f"the backup is damaged: {location} is not what was written there",
        hint="restore another backup with --cut, or from another folder",
    )


def copy(source: Warehouse, at: str, target: Warehouse, to: str) -> tuple[int, str]:
    """Copy one file; its size and checksum."""
    digest, size = hashlib.sha256(), 0
    try:
        files, path = source.filesystem(at)
        other, place = target.filesystem(to)
        _make_folder(other, place)
        with files.open_input_stream(path) as read, other.open_output_stream(place) as write:
            while chunk := read.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
                write.write(chunk)
    except OSError as error:
        raise Unreachable(
            f"{at} cannot be copied to {to}: {error}", hint="check both places and their free space"
        ) from error
    return size, digest.hexdigest()


def _make_folder(files: FileSystem, place: str) -> None:
    if files.type_name == "local":
        files.create_dir(place.rpartition("/")[0], recursive=True)


def chosen(records: list[Record], cut: int | None, place: str) -> Record:
    """The newest backup, or the first that knows a cut."""
    if not records:
        raise InvalidValue(
            f"there is no whole backup in {place}", hint="`anabranch backup` makes one"
        )
    if cut is None:
        return records[-1]
    exact = [each for each in records if each.cut == cut]
    later = [each for each in records if each.cut > cut]
    if exact or later:
        return exact[-1] if exact else later[0]
    raise InvalidValue(
        f"no backup in {place} knows cut {cut}", hint=f"the newest is of cut {records[-1].cut}"
    )
