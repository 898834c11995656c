"""Deletion vectors: roaring bitmaps of positions, in blobs of Puffin files.

A blob is `length (4, big-endian) · magic (4) · bitmap · CRC-32 of magic and bitmap (4, big-endian)`.
"""

from __future__ import annotations

import zlib
from typing import Any

import pyarrow as pa
from pyiceberg.io import FileIO
from pyroaring import BitMap64

from anabranch.cache import Cache
from anabranch.lake.checksums import damaged, missing

MAGIC = bytes([0xD1, 0xD3, 0x39, 0x64])
WHAT = "deletion vector"
_FRAME = 12  # bytes around the bitmap

_known: Cache[Any] = Cache(256, "deletion vectors", of_files=True)


def positions(io: FileIO, path: str, offset: int, length: int, rows: int) -> Any:
    """The positions that a vector deletes, as an array of longs."""
    return _known.get(f"{path} {offset}", lambda: _decoded(io, path, offset, length, rows))


def _decoded(io: FileIO, path: str, offset: int, length: int, rows: int) -> Any:
    blob = _read(io, path, offset, length)
    framed = blob[4:-4]
    if (
        len(blob) != length
        or length < _FRAME
        or int.from_bytes(blob[:4], "big") != length - 8
        or framed[:4] != MAGIC
        or int.from_bytes(blob[-4:], "big") != zlib.crc32(framed)
    ):
        raise damaged(path, WHAT)
    try:
        positions = BitMap64.deserialize(framed[4:])
    except Exception as error:  # whatever the library makes of damaged bytes
        raise damaged(path, WHAT) from error
    if len(positions) != rows:
        raise damaged(path, WHAT)
    return pa.array(positions, pa.int64())


def _read(io: FileIO, path: str, offset: int, length: int) -> bytes:
    try:
        with io.new_input(path).open() as stream:
            stream.seek(offset)
            return bytes(stream.read(length))
    except FileNotFoundError as error:
        raise missing(path, WHAT) from error
