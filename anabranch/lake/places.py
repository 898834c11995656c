"""Where things lie: the warehouse, and one folder per table that was ever made.

A location is `file://` and the plain absolute path, never percent-encoded: Iceberg compares
locations as strings, and PyIceberg, Hadoop and Spark all take this form as it is.  Only a path with
`#` or `?`, which URL parsers cut off, is left without the scheme.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO

from anabranch.errors import InvalidValue, Unreachable
from anabranch.lake.durable import sync
from anabranch.names import TableName

MARKER = "anabranch.json"
LONGEST = 1000  # Iceberg's catalog keeps locations in VARCHAR(1000)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def location_of(path: str | Path) -> str:
    """A path or URL in the one form that is used everywhere."""
    given = str(path)
    if given.startswith("file:"):
        given = "/" + given[len("file:") :].lstrip("/")
    elif _SCHEME.match(given):
        return given.rstrip("/")
    if any(ord(letter) < 32 for letter in given):
        raise InvalidValue(f"{given!r} is not a usable path: it holds control characters")
    absolute = str(Path(given).expanduser().absolute()).rstrip("/")
    return absolute if set("#?") & set(absolute) else f"file://{absolute}"


def same_form(written: str, root: str) -> str:
    """A path as some writer reports it (`file:/a%20b`, `/a b`), in the form of `root`."""
    plain = local_path(root)
    if plain is None or written.startswith(root + "/"):
        return written
    path = "/" + re.sub(r"^file:", "", written).lstrip("/")
    for candidate in (path, unquote(path)):
        if candidate.startswith(plain + "/"):
            return root + candidate[len(plain) :]
    return written


def local_path(location: str) -> str | None:
    """The path of a local location; None when it lies elsewhere."""
    if location.startswith("file://"):
        return location[len("file://") :]
    return None if _SCHEME.match(location) else location


def table_root(warehouse: str, name: TableName) -> str:
    """A folder of its own for every table ever made: no two share files, whatever their names."""
    parts = [_UNSAFE.sub("_", part)[:40] or "_" for part in name.parts]
    return "/".join([warehouse, *parts[:-1], f"{parts[-1]}-{uuid.uuid4().hex[:8]}"])


class Warehouse:
    """The files of one catalog; a marker file keeps two catalogs from sharing it."""

    def __init__(self, location: str | Path, catalog_uuid: str, *, fsync: bool = True) -> None:
        self.location = location_of(location)
        self.catalog_uuid = catalog_uuid
        self.fsync = fsync
        self.io = PyArrowFileIO()
        if len(self.location) > LONGEST - 300:
            raise InvalidValue(f"the path of the warehouse is too long: {self.location}")

    def filesystem(self, location: str) -> tuple[FileSystem, str]:
        scheme, netloc, path = self.io.parse_location(location)
        return self.io.fs_by_scheme(scheme, netloc), path

    def claim(self) -> None:
        """Check the marker, or write it at first use."""
        place = f"{self.location}/{MARKER}"
        try:
            owner = self._owner(place)
            if owner is None:
                self._write_marker(place)
                owner = self._owner(place)
        except (OSError, ValueError) as error:
            raise self.unreachable(error) from error
        if owner != self.catalog_uuid:
            raise Unreachable(
                f"warehouse {self.location} belongs to another catalog",
                hint="use the catalog it was made with, or another directory",
            )

    def _write_marker(self, place: str) -> None:
        """Written aside and moved, so that nobody reads half of it; the first one stays."""
        aside = f"{place}.{uuid.uuid4().hex}"
        with self.io.new_output(aside).create() as stream:
            stream.write(json.dumps({"catalog": self.catalog_uuid}).encode())
        self.make_durable([aside])
        filesystem, source = self.filesystem(aside)
        _, target = self.filesystem(place)
        if local_path(place) is None:
            filesystem.move(source, target)
            return
        try:
            os.link(source, target)
        except FileExistsError:
            pass
        except OSError:  # some file systems have no links
            filesystem.move(source, target)
            return
        filesystem.delete_file(source)
        self.make_durable([place])

    def _owner(self, place: str) -> str | None:
        file = self.io.new_input(place)
        if not file.exists():
            return None
        with file.open() as stream:
            return str(json.loads(stream.read())["catalog"])

    def listing(self, root: str) -> dict[str, FileInfo]:
        """All files under a location, by location."""
        filesystem, path = self.filesystem(root)
        chosen = FileSelector(path, allow_not_found=True, recursive=True)
        found = filesystem.get_file_info(chosen)
        base = path.rstrip("/")
        return {root + each.path[len(base) :]: each for each in found if each.type == FileType.File}

    def make_durable(self, locations: Iterable[str]) -> None:
        """Files of this warehouse survive a power cut from here on."""
        top = local_path(self.location)
        if top is None or not self.fsync:  # object stores acknowledge only what is durable
            return
        try:
            sync([path for each in locations if (path := local_path(each)) is not None], top)
        except OSError as error:
            raise self.unreachable(error) from error

    def delete(self, location: str) -> bool:
        """Delete a file; False when it was gone already."""
        filesystem, path = self.filesystem(location)
        try:
            filesystem.delete_file(path)
        except FileNotFoundError:
            return False
        return True

    def delete_empty_folders(self, root: str) -> None:
        """Local folders outlive their files; object stores have none."""
        path = local_path(root)
        if path is None or not Path(path).is_dir():
            return
        for folder in sorted(
            (each for each in Path(path).rglob("*") if each.is_dir()), reverse=True
        ):
            _remove_if_empty(folder)
        _remove_if_empty(Path(path))

    def unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(
            f"warehouse {self.location} cannot be reached: {error}",
            hint="check that the directory exists and can be read and written",
        )


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return
