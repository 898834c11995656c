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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO

from anabranch.durable import sync, sync_each
from anabranch.errors import InvalidValue, Unreachable
from anabranch.names import TableName
from anabranch.places import create_folder, expanded
from anabranch.redaction import redacted_address

MARKER = "anabranch.json"
LONGEST = 1000  # Iceberg's catalog keeps locations in VARCHAR(1000)
REMOTE = (  # what both PyIceberg and Spark reach
    "s3://", "s3a://", "s3n://", "oss://", "gs://", "gcs://", "hdfs://", "viewfs://", "abfs://", "abfss://",
    "wasb://", "wasbs://",
)  # fmt: skip
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_OUR_ROOT = re.compile(r"(?:/[A-Za-z0-9_-]+){1,2}/[A-Za-z0-9_-]+-[0-9a-f]{8}")


def location_of(path: str | Path) -> str:
    """A path or URL in the one form that is used everywhere."""
    given = str(path)
    if given.startswith("file:"):
        given = "/" + given[len("file:") :].lstrip("/")
    elif scheme := _SCHEME.match(given):
        if scheme[0].lower() not in REMOTE:
            raise InvalidValue(
                f"{redacted_address(given)!r} is not a place for files",
                hint=f"give a folder, or an address that starts with {', '.join(REMOTE)}",
            )
        return given.rstrip("/")
    if any(ord(letter) < 32 for letter in given):
        raise InvalidValue(f"{given!r} is not a usable path: it holds control characters")
    absolute = str(expanded(given).absolute()).rstrip("/")
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


def is_our_root(warehouse: str, root: str) -> bool:
    """Whether a table's folder was made by us."""
    return root.startswith(warehouse + "/") and bool(_OUR_ROOT.fullmatch(root[len(warehouse) :]))


class Warehouse:
    """The files of one catalog; marks at the top keep two catalogs from sharing it: see `Fence`."""

    def __init__(self, location: str | Path, catalog_uuid: str, *, fsync: bool = True) -> None:
        self.location = location_of(location)
        self.catalog_uuid = catalog_uuid
        self.fsync = fsync
        self.io = PyArrowFileIO()
        if len(self.location) > LONGEST - 300:
            raise InvalidValue(
                f"the path of the warehouse is too long: {redacted_address(self.location)}"
            )

    def create_top(self) -> None:
        """The folder of the warehouse itself; what is below it nobody reaches who may not enter."""
        if (top := local_path(self.location)) is not None:
            try:
                create_folder(Path(top), fsync=self.fsync)
            except Unreachable as error:
                raise self.unreachable(error) from None

    def filesystem(self, location: str) -> tuple[FileSystem, str]:
        scheme, netloc, path = self.io.parse_location(location)
        try:
            return self.io.fs_by_scheme(scheme, netloc), path
        except OSError as error:
            raise self.unreachable(error) from error
        except (ImportError, TypeError, ValueError) as error:  # as PyArrow's drivers have it
            raise InvalidValue(
                f"{redacted_address(location)!r} cannot be used as a place for files: "
                f"{str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__}",
                hint="write the address without user and password, such as s3://bucket/folder; "
                "credentials come from the environment, as the driver of such a store reads them",
            ) from None

    def put(self, name: str, data: bytes, *, replace: bool) -> None:
        """Write a small file at the top, whole or not at all; without `replace` the first one stays."""
        place = f"{self.location}/{name}"
        target = local_path(place)
        try:
            if target is not None:
                self._put_local(Path(target), data, replace)
            elif replace or not self.io.new_input(place).exists():
                with self.io.new_output(place).create(overwrite=True) as stream:
                    stream.write(data)
        except OSError as error:
            raise self.unreachable(error) from error

    def _put_local(self, target: Path, data: bytes, replace: bool) -> None:
        self.create_top()
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f"{target.name}.{uuid.uuid4().hex}")
        aside.write_bytes(data)
        if self.fsync:
            sync_each([aside])
        try:
            if not replace:
                _link(aside, target)
        except FileExistsError:
            aside.unlink()
        except OSError:  # some file systems have no links
            replace = True
        if replace:
            aside.replace(target)
        if self.fsync:
            sync([str(target)], str(target.parent))

    def take(self, name: str) -> dict[str, Any] | None:
        """A small JSON file at the top; None when there is none, or a power cut left it empty."""
        place = f"{self.location}/{name}"
        target = local_path(place)
        try:
            if target is not None:
                data = Path(target).read_bytes()
            else:
                with self.io.new_input(place).open() as stream:
                    data = stream.read()
            found = json.loads(data)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        except OSError as error:
            raise self.unreachable(error) from error
        return found if isinstance(found, dict) else None

    def is_folder(self, location: str) -> bool:
        filesystem, path = self.filesystem(location)
        if filesystem.get_file_info(path).type == FileType.Directory:
            return True
        return local_path(location) is None and bool(self.listing(location))

    def is_locked(self, folder: str) -> bool:
        """Whether this user may not look into a local folder that is there."""
        path = local_path(folder)
        return path is not None and Path(path).is_dir() and not os.access(path, os.R_OK | os.X_OK)

    def listing(self, root: str, *, open_only: bool = False) -> dict[str, FileInfo]:
        """All files under a location, by location; or those in folders that this user may list."""
        filesystem, path = self.filesystem(root)
        try:
            found = filesystem.get_file_info(_below(path, recursive=True))
        except PermissionError:
            if not open_only:
                raise
            found = list(_open(filesystem, path))
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

    def holds(self, location: str) -> bool:
        """Whether a file lies in this warehouse, also when links lead to it."""
        if not location.startswith(self.location + "/") or "/../" in location:
            return False
        path, top = local_path(location), local_path(self.location)
        if path is None or top is None:
            return True
        folder = os.path.realpath(Path(path).parent)
        return f"{folder}/".startswith(f"{os.path.realpath(top)}/")

    def delete(self, location: str, *, own: bool = False) -> bool:
        """Delete a file; False when it was gone already, or lies outside of the warehouse.

        `own`: the caller itself has written it just now, so it may lie in a table of others.
        """
        if not own and not self.holds(location):
            return False
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
            f"warehouse {redacted_address(self.location)} cannot be reached: {error}",
            hint="check that the directory exists and can be read and written",
        )


def _below(path: str, *, recursive: bool) -> FileSelector:
    return FileSelector(path, allow_not_found=True, recursive=recursive)


def _open(filesystem: FileSystem, path: str) -> Iterator[FileInfo]:
    """What lies in a folder and those below it, but for folders that this user may not list."""
    try:
        found = filesystem.get_file_info(_below(path, recursive=False))
    except PermissionError:
        return
    for each in found:
        yield each
        if each.type == FileType.Directory:
            yield from _open(filesystem, each.path)


def _link(source: Path, target: Path) -> None:
    """Give a file its name, unless the name is taken."""
    os.link(source, target)
    source.unlink()


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return
