"""Checksums of metadata: a flipped bit is noticed by whoever reads the file.

    metadata file   says in a property which file it is and what its checksum is
    manifest list   carries its checksum in its name, which the metadata file tells
    manifest        carries its checksum in its name, which the manifest list tells
    data file       has the checksum of its tail in a manifest, and page checksums inside

Files of other programs carry none and are read as they are.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import re
import zlib
from pathlib import Path

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.table.metadata import TableMetadata

from anabranch.errors import FileDamaged, FileMissing, FileUnreadable, Unreachable

SEAL = "anabranch.checksum"  # table property: the name of the metadata file and its checksum
_UNSEALED = "00000000"
_NAMED = re.compile(r"/(?:snap-\d+-[0-9a-f]{32}|[0-9a-f]{32}-\d+-m\d+)-([0-9a-f]{8})\.avro$")
_ROTTEN = (errno.EIO, errno.EISDIR)  # the file is at fault, not the way to it
_CURE = "anabranch check finds out what else is damaged, and how to repair it"


def checksum(data: bytes) -> str:
    return f"{zlib.crc32(data):08x}"


def read_bytes(files: FileIO, path: str, what: str = "file") -> bytes:
    """A file of metadata, whole; refused if its name tells another checksum."""
    try:
        with files.new_input(path).open() as stream:
            data = bytes(stream.read())
    except FileNotFoundError as error:
        raise missing(path, what) from error
    except PermissionError as error:
        raise FileUnreadable(
            f"{path} cannot be read: {error}", hint="let this user read it", path=path
        ) from error
    except OSError as error:
        if error.errno in _ROTTEN or Path(path.removeprefix("file://")).is_dir():
            raise damaged(path, what) from error
        raise Unreachable(
            f"{path} cannot be read: {error}", hint="check that the warehouse is mounted"
        ) from error
    named = _NAMED.search(path)
    if named and named.group(1) != checksum(data):
        raise damaged(path, what)
    return data


def named_again(path: str, data: bytes) -> str:
    """The path of a file that was changed on purpose: its name tells the checksum, if it told one."""
    named = _NAMED.search(path)
    return path if named is None else f"{path[: named.start(1)]}{checksum(data)}.avro"


def missing(path: str, what: str) -> FileMissing:
    return FileMissing(f"a {what} is missing: {path}", hint=_CURE, path=path)


def damaged(path: str, what: str) -> FileDamaged:
    return FileDamaged(f"a {what} is damaged: {path}", hint=_CURE, path=path)


# -- metadata files ----------------------------------------------------------------------------


def sealed(metadata: TableMetadata, location: str) -> bytes:
    """A metadata file that tells its own checksum, which is that of the file with zeros instead."""
    name = location.rpartition("/")[2]
    properties = {**metadata.properties, SEAL: f"{name} {_UNSEALED}"}
    whole = metadata.model_copy(update={"properties": properties})
    data = json_of(whole).encode()
    sealed_data = _with_checksum(data, name, checksum(data))
    return gzip.compress(sealed_data) if _is_gzip(location) else sealed_data


def json_of(metadata: TableMetadata) -> str:
    """Metadata as text.  PyIceberg writes no version 3 by itself, since it makes no such snapshots;
    those that others have made are kept as they are."""
    if metadata.format_version < 3:
        return metadata.model_dump_json(exclude_none=True)
    found = metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
    return json.dumps(found, separators=(",", ":"))


def sealed_again(text: bytes, path: str) -> bytes:
    """The text of a metadata file that was changed on purpose, with its checksum, if it told one."""
    name = path.rpartition("/")[2]
    plain = _with_checksum(text, name, _UNSEALED)
    return _with_checksum(plain, name, checksum(plain))


def unsealed(data: bytes, location: str) -> bytes:
    """The text of a metadata file; refused if it is not the one that we wrote.

    Other programs copy the property into files of other names: those tell nothing.
    """
    name = location.rpartition("/")[2]
    try:
        text = gzip.decompress(data) if _is_gzip(location) else data
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(location, "metadata file") from error
    told = _seal(name).search(text)
    if told and told.group(1).decode() != checksum(_with_checksum(text, name, _UNSEALED)):
        raise damaged(location, "metadata file")
    return text


def _seal(name: str) -> re.Pattern[bytes]:
    return re.compile(re.escape(f'"{SEAL}":"{name} '.encode()) + rb"([0-9a-f]{8})\"")


def _with_checksum(data: bytes, name: str, value: str) -> bytes:
    return _seal(name).sub(f'"{SEAL}":"{name} {value}"'.encode(), data, count=1)


def _is_gzip(location: str) -> bool:
    return location.endswith(".gz.metadata.json")


# -- Avro files --------------------------------------------------------------------------------


class Buffered(OutputFile):
    """A file that is written when its content, and so its name, is known."""

    def __init__(self, stem: str) -> None:
        super().__init__(stem)
        self.path, self.data = stem, b""

    @property
    def location(self) -> str:
        return self.path

    def __len__(self) -> int:
        return len(self.data)

    def exists(self) -> bool:
        return False

    def to_input_file(self) -> InputFile:
        return Held(self.location, self.data)

    def create(self, overwrite: bool = False) -> OutputStream:
        return _BufferedStream(self)

    def write(self, files: FileIO) -> str:
        """The path, with the checksum in its name."""
        self.path = f"{self.path}-{checksum(self.data)}.avro"
        with files.new_output(self.location).create(overwrite=True) as stream:
            stream.write(self.data)
        return self.location


class _BufferedStream(io.BytesIO):
    def __init__(self, file: Buffered) -> None:
        super().__init__()
        self._file = file

    def close(self) -> None:
        if not self.closed:
            self._file.data = self.getvalue()
        super().close()


class Held(InputFile):
    """A file that was read already."""

    def __init__(self, location: str, data: bytes) -> None:
        super().__init__(location)
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> InputStream:
        return io.BytesIO(self._data)


class HeldFiles(FileIO):
    """For readers of PyIceberg that ask for a file by its path."""

    def __init__(self, file: Held) -> None:
        super().__init__()
        self._file = file

    def new_input(self, location: str) -> InputFile:
        return self._file

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError
