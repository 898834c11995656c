"""The folder of backups: files, each once, and one record for each backup.

    anabranch-backup.json       whose backups these are
    files/<path in the warehouse>
    rows/<id>.json.gz           the rows of the catalog
    backups/<cut>-<id>-<sum>.json   the record, written last, durably: a backup without it was
                                interrupted; <sum> is its SHA-256 (an older Anabranch wrote none)

A record names every file that the backup needs, with size and checksum.  Files of a warehouse never
change, so a file that an older record names is not copied again.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import logging
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from pyarrow import NativeFile
from pyarrow.fs import FileSystem

from anabranch.catalog.migrations import FORMAT_VERSION
from anabranch.catalog.rewind import check_recorded
from anabranch.catalog.tables import now
from anabranch.durable import sync_each
from anabranch.errors import InvalidValue, Refused, Unreachable
from anabranch.lake.places import Warehouse, location_of

log = logging.getLogger("anabranch")

OWNER = "anabranch-backup.json"
CHUNK = 1 << 20
SIDE_BY_SIDE = 8
_RARE = {"missing", "left_out"}  # not written when empty: an older Anabranch does not know them
Sums = dict[str, tuple[int, str]]  # by path in the warehouse: size and SHA-256
_NAME = re.compile(r"(\d+)-[0-9a-f]+(?:-([0-9a-f]{64}))?\.json")


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
    missing: tuple[str, ...] = ()  # files of older cuts that could not be read
    left_out: Mapping[str, str] = field(default_factory=dict)  # by older cut: such a file


@dataclass(frozen=True)
class Added:
    """The files of a backup, those of them that were copied now, and others that cannot be read."""

    sums: Sums
    copied: list[str]
    unreadable: list[str]


class Archive:
    """A folder that holds the backups of one catalog."""

    def __init__(self, place: str, *, fsync: bool = True) -> None:
        self.place = Warehouse(location_of(place), "", fsync=fsync)
        self.location = self.place.location
        self.place.filesystem(self.location)  # refused if nothing here can reach it

    def records(self) -> tuple[list[Record], list[str]]:
        """All whole backups, the newest last, and the places of records that are damaged."""
        try:
            found = self.place.listing(f"{self.location}/backups")
        except OSError as error:
            raise self.place.unreachable(error) from error
        records, broken = [], []
        for path in sorted(each for each in found if each.endswith(".json")):
            try:
                records.append(_record(path, self._read(path)))
            except (ValueError, KeyError, TypeError, AttributeError, Unreadable):
                broken.append(path)
                log.warning("left out, because it is damaged: the record of a backup %s", path)
        return sorted(records, key=lambda each: (each.cut, each.made_at)), broken

    def chosen(self, cut: int | None) -> tuple[Record, dict[str, list[dict[str, Any]]]]:
        """The backup to restore and its rows, which record the cut."""
        records, broken = self.records()
        if broken and not records:
            raise _damaged_record(broken[-1], records)
        if cut is None:
            record = chosen(records, None, self.location)
            if newer := [path for path in broken if _cut_of(path) > record.cut]:
                raise _damaged_record(newer[-1], records)  # nobody asked for an older one
            return record, self.rows(record)
        try:
            record = chosen(records, cut, self.location)
            rows = self.rows(record)
            check_recorded(rows, cut)
        except InvalidValue as error:
            if may_know := [path for path in broken if _cut_of(path) >= cut > 0]:
                raise _damaged_record(may_know[0], records) from error
            raise
        return record, rows

    def broken_rows(self, records: Iterable[Record]) -> list[str]:
        """Files with rows that are not what was written."""
        found = []
        for record in records:
            try:
                self.rows(record)
            except Damaged:
                found.append(f"{self.location}/{record.rows}")
        return found

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

    def add_files(
        self, warehouse: Warehouse, paths: Iterable[str], known: Sums, verify: bool = False
    ) -> Added:
        """Copy files of a warehouse that no record knows, or that are not here as they were recorded.

        Sizes are always compared; checksums of files that were copied before only to `verify`.
        """
        there = self.place.listing(f"{self.location}/files")
        wanted = list(paths)
        copied: list[str] = []
        unreadable: list[str] = []

        def one(path: str) -> tuple[int, str]:
            place = f"{self.location}/files/{path}"
            same = path in known and place in there and there[place].size == known[path][0]
            if same and (not verify or self._has(place, known[path])):
                return known[path]
            try:
                found = copy(warehouse, f"{warehouse.location}/{path}", self.place, place)
            except Unreadable:
                unreadable.append(path)
                return 0, ""
            copied.append(path)
            return found

        with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="backup") as pool:
            sums = dict(zip(wanted, pool.map(one, wanted), strict=True))
        self.place.make_durable(f"{self.location}/files/{path}" for path in copied)
        for path in unreadable:
            del sums[path]
        return Added(sums, copied, unreadable)

    def _has(self, place: str, expected: tuple[int, str]) -> bool:
        """Whether a file here is what was written."""
        digest, size = hashlib.sha256(), 0
        files, path = self.place.filesystem(place)
        try:
            with _opened(files, path, place) as stream:
                while chunk := _next(stream, place):
                    digest.update(chunk)
                    size += len(chunk)
        except Unreadable:
            return False
        except OSError as error:
            raise self.place.unreachable(error) from error
        return (size, digest.hexdigest()) == expected

    def add_record(
        self,
        cut: int,
        catalog: str,
        warehouse: str,
        rows: Mapping[str, Any],
        files: Sums,
        missing: Iterable[str] = (),
        left_out: Mapping[int, str] | None = None,
    ) -> Record:
        """The rows, then the record: from here on the backup is whole."""
        token = uuid.uuid4().hex
        data = gzip.compress(json.dumps(rows).encode(), mtime=0)
        name = f"rows/{token}.json.gz"
        self.place.put(name, data, replace=True)
        sums = hashlib.sha256(data).hexdigest()
        lost = {str(each): path for each, path in (left_out or {}).items()}
        record = Record(
            cut,
            now().isoformat(),
            catalog,
            warehouse,
            name,
            sums,
            files,
            missing=tuple(missing),
            left_out=lost,
        )
        told = {key: value for key, value in asdict(record).items() if key not in _RARE or value}
        text = json.dumps(told).encode()
        own = hashlib.sha256(text).hexdigest()
        self.place.put(f"backups/{cut:012d}-{token}-{own}.json", text, replace=True)
        return record

    def rows(self, record: Record) -> dict[str, list[dict[str, Any]]]:
        place = f"{self.location}/{record.rows}"
        try:
            data = self._read(place)
        except Unreadable as error:
            raise damaged(place) from error
        if hashlib.sha256(data).hexdigest() != record.rows_sum:
            raise damaged(place)
        found: dict[str, list[dict[str, Any]]] = json.loads(gzip.decompress(data))
        return found

    def copy_out(self, record: Record, warehouse: Warehouse) -> list[str]:
        """Copy the files of a backup into a warehouse; those that are not what was written do not stay,
        and are returned."""
        bad: list[str] = []

        def one(path: str) -> None:
            place, to = f"{self.location}/files/{path}", f"{warehouse.location}/{path}"
            try:
                if copy(self.place, place, warehouse, to) == record.files[path]:
                    return
                files, at = warehouse.filesystem(to)
                files.delete_file(at)
            except Unreadable:
                pass
            except OSError as error:
                raise warehouse.unreachable(error) from error
            bad.append(path)

        with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="restore") as pool:
            list(pool.map(one, record.files))
        left = record.files.keys() - {*bad}
        warehouse.make_durable(f"{warehouse.location}/{path}" for path in left)
        return bad

    def _read(self, location: str) -> bytes:
        try:
            with _reading(location), self.place.io.new_input(location).open() as stream:
                return stream.read()
        except OSError as error:
            raise self.place.unreachable(error) from error


def _record(path: str, data: bytes) -> Record:
    """What a record says; raises whatever its damage leads to."""
    named = _NAME.fullmatch(path.rpartition("/")[2])
    if named and named[2] not in (None, hashlib.sha256(data).hexdigest()):
        raise ValueError(path)
    told = json.loads(data)
    told["files"] = {
        str(name): (int(size), str(sum_)) for name, (size, sum_) in told["files"].items()
    }
    record = Record(**told)
    if not isinstance(record.cut, int) or not isinstance(record.made_at, str):
        raise TypeError(path)
    return record


def _cut_of(path: str) -> int:
    named = _NAME.fullmatch(path.rpartition("/")[2])
    return int(named[1]) if named else 0


class Damaged(Unreachable):
    """A part of a backup that is not what was written."""


def damaged(location: str) -> Damaged:
    return Damaged(
        f"the backup is damaged: {location} is not what was written there",
        hint="`anabranch backup --verify` copies it again, if the warehouse still has it; "
        "or restore another cut with --cut, or from another folder",
    )


def _damaged_record(location: str, records: list[Record]) -> Damaged:
    other = f"`--cut {records[-1].cut}` restores the newest complete one" if records else ""
    return Damaged(
        f"the backup is damaged: {location} is not what was written there",
        hint=other or "make another backup with `anabranch backup`, or restore from another folder",
    )


class Unreadable(Unreachable):
    """A file that is gone, or of which the disk has lost a part."""


def copy(source: Warehouse, at: str, target: Warehouse, to: str) -> tuple[int, str]:
    """Copy one file; its size and checksum.

    It takes its place whole and durable, or not at all: another backup may name the one that is there.
    """
    digest, size = hashlib.sha256(), 0
    try:
        files, path = source.filesystem(at)
        other, place = target.filesystem(to)
        aside = place
        with _opened(files, path, at) as read:
            chunk = _next(read, at)
            if other.type_name == "local":  # object stores show nothing before it is whole
                target.create_top()
                other.create_dir(place.rpartition("/")[0], recursive=True)
                aside = f"{place}.{uuid.uuid4().hex}"
            with other.open_output_stream(aside) as write:
                while chunk:
                    digest.update(chunk)
                    size += len(chunk)
                    write.write(chunk)
                    chunk = _next(read, at)
        if aside != place:
            if target.fsync:
                sync_each([aside])
            other.move(aside, place)
    except OSError as error:
        raise Unreachable(
            f"{at} cannot be copied to {to}: {error}", hint="check both places and their free space"
        ) from error
    return size, digest.hexdigest()


def _opened(files: FileSystem, path: str, at: str) -> NativeFile:
    with _reading(at):
        return files.open_input_stream(path)


def _next(stream: NativeFile, at: str) -> bytes:
    with _reading(at):
        return bytes(stream.read(CHUNK))


@contextmanager
def _reading(at: str) -> Iterator[None]:
    """A place that cannot be reached at all has other errors than a file that is lost."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError) or error.errno in (errno.ENOENT, errno.EIO):
            raise Unreadable(f"{at} cannot be read: {error}") from error
        raise


def chosen(records: list[Record], cut: int | None, place: str) -> Record:
    """The newest backup, or the first that knows a cut."""
    if not records:
        raise InvalidValue(
            f"there is no complete backup in {place}", hint="`anabranch backup` makes one"
        )
    if cut is None:
        return records[-1]
    exact = [each for each in records if each.cut == cut]
    later = [each for each in records if each.cut > cut]
    found = [*reversed(exact), *later]
    for each in found:
        if str(cut) not in each.left_out:
            return each
    if found:
        raise InvalidValue(
            f"cut {cut} is not in the backup: {found[0].left_out[str(cut)]}, which it shows, could not "
            "be read when the backup was made",
            hint="choose another cut, or an older backup in another folder",
        )
    raise InvalidValue(
        f"no backup in {place} knows cut {cut}", hint=f"the newest is of cut {records[-1].cut}"
    )
