"""A disk in memory that forgets, at a power cut, what was not synced.

A file is a Python value under a path.  Writing, reading, listing, syncing and deleting are steps of a
process: others may come between, and the process may die there.  A process that dies while it writes
leaves half of a file.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyarrow.fs import FileInfo, FileType
from pyiceberg.io import FileIO

from anabranch.errors import FileDamaged, FileMissing
from anabranch.lake.places import Warehouse

TORN = "half of a file"
SIZE = 8  # of every file


@dataclass
class File:
    content: Any
    mtime: datetime
    synced: bool = False

    @property
    def size(self) -> int:
        return SIZE


class Disk:
    def __init__(self, step: Callable[[str, str], None], now: Callable[[], datetime]) -> None:
        self.files: dict[str, File] = {}
        self.step, self.now = step, now
        self.lossy = False  # it loses files by itself
        self.deletes: Callable[[str], None] = lambda path: None
        self.copied: dict[bytes, Any] = {}
        self.tokens: dict[int, bytes] = {}

    def write(self, path: str, content: Any) -> None:
        try:
            self.step("write", path)
        except BaseException:
            self.files[path] = File(TORN, self.now())
            raise
        self.files[path] = File(content, self.now())

    def put(self, path: str, content: Any) -> None:
        """Without a step of its own."""
        self.files[path] = File(content, self.now())

    def read(self, path: str, what: str = "file") -> Any:
        file = self.files.get(path)
        if file is None:
            raise FileMissing(f"a {what} is missing: {path}", path=path)
        if file.content is TORN:
            raise FileDamaged(f"a {what} is damaged: {path}", path=path)
        return file.content

    def delete(self, path: str) -> bool:
        self.step("delete", path)
        self.deletes(path)
        return self.files.pop(path, None) is not None

    def listing(self, root: str) -> dict[str, File]:
        self.step("list", root)
        return {path: file for path, file in self.files.items() if path.startswith(root)}

    def sync(self, paths: Iterable[str]) -> None:
        self.step("sync", "")
        for path in paths:
            if (file := self.files.get(path)) is not None:
                file.synced = True

    def lose_power(self, chance: random.Random) -> None:
        """What was not synced is there, torn or gone, as chance has it."""
        for path, file in list(self.files.items()):
            if file.synced:
                continue
            luck = chance.random()
            if luck < 0.4:
                del self.files[path]
            elif luck < 0.8:
                file.content = TORN
            file.synced = True


class Files(FileIO):
    """PyIceberg's way to files."""

    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self.disk = disk

    def new_input(self, location: str) -> Any:
        return _Input(self.disk, location)

    def new_output(self, location: str) -> Any:
        return _Output(self.disk, location)

    def delete(self, location: Any) -> None:
        self.disk.delete(location)


@dataclass
class _Input:
    disk: Disk
    location: str

    def exists(self) -> bool:
        return self.location in self.disk.files

    def open(self) -> _Input:
        return self

    def __enter__(self) -> _Input:
        return self

    def __exit__(self, *_: object) -> None: ...

    def read(self) -> Any:
        return self.disk.read(self.location)


@dataclass
class _Output:
    disk: Disk
    location: str

    def create(self, overwrite: bool = False) -> _Output:
        return self

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *_: object) -> None: ...

    def write(self, content: Any) -> None:
        self.disk.write(self.location, content)


class DiskWarehouse(Warehouse):
    """The warehouse of one catalog on such a disk."""

    def __init__(self, location: str, catalog_uuid: str, disk: Disk) -> None:
        self.location, self.catalog_uuid, self.fsync = location, catalog_uuid, True
        self.disk, self.io = disk, Files(disk)  # type: ignore[assignment]

    def filesystem(self, location: str) -> Any:
        return LocalFiles(self.disk), location

    def put(self, name: str, data: bytes, *, replace: bool) -> None:
        place = f"{self.location}/{name}"
        if not replace and place in self.disk.files:
            return
        self.disk.step("write", place)  # under another name first: whole or not at all
        self.disk.files[place] = File(data, self.disk.now(), synced=True)

    def take(self, name: str) -> Any:
        file = self.disk.files.get(f"{self.location}/{name}")
        return None if file is None or file.content is TORN else _json(file.content)

    def is_folder(self, location: str) -> bool:
        return any(path.startswith(f"{location}/") for path in self.disk.files)

    def holds(self, location: str) -> bool:
        """There are no links on this disk."""
        return location.startswith(f"{self.location}/") and "/../" not in location

    def listing(self, root: str, *, open_only: bool = False) -> Any:
        return self.disk.listing(root)

    def delete(self, location: str, *, own: bool = False) -> bool:
        return self.disk.delete(location) if own or self.holds(location) else False

    def delete_empty_folders(self, root: str) -> None: ...


class LocalFiles:
    """As much of pyarrow's file system as copying asks for: a value is read as a few bytes that stand
    for it, and written as the value again."""

    type_name = "local"

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def create_dir(self, path: str, *, recursive: bool) -> None: ...

    def open_input_stream(self, path: str) -> _Stream:
        try:
            content = self.disk.read(path)
        except FileMissing as error:
            raise OSError(str(error)) from error
        tokens = self.disk.tokens
        token = tokens.setdefault(id(content), len(tokens).to_bytes(SIZE, "big"))
        self.disk.copied[token] = content
        return _Stream(self.disk, path, [token])

    def open_output_stream(self, path: str) -> _Stream:
        return _Stream(self.disk, path, None)

    def get_file_info(self, paths: list[str]) -> list[FileInfo]:
        """Half of a file is shorter than a whole one."""
        found = [self.disk.files.get(path) for path in paths]
        return [
            FileInfo(path, FileType.NotFound)
            if file is None
            else FileInfo(path, FileType.File, size=1 if file.content is TORN else SIZE)
            for path, file in zip(paths, found, strict=True)
        ]

    def delete_file(self, path: str) -> None:
        self.disk.delete(path)

    def move(self, path: str, to: str) -> None:
        self.disk.step("move", to)
        file = self.disk.files.pop(path)
        self.disk.files[to] = file


@dataclass
class _Stream:
    disk: Disk
    path: str
    left: list[bytes] | None

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None: ...

    def read(self, size: int) -> bytes:
        return self.left.pop() if self.left else b""

    def write(self, data: bytes) -> None:
        self.disk.write(self.path, self.disk.copied[data])


_PARSED: dict[bytes, Any] = {}


def _json(data: bytes) -> Any:
    import json

    if data not in _PARSED:
        if len(_PARSED) > 1000:
            _PARSED.clear()
        _PARSED[data] = json.loads(data)
    return _PARSED[data]


def local(paths: Collection[str]) -> list[str]:
    """Locations of paths: what `sync` is given has lost its scheme."""
    return [f"file://{path}" for path in paths]
