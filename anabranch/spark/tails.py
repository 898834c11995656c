"""The tail of a Parquet file: what lies behind its last page, which page checksums leave out.

    pages                    each with a checksum that every reader of ours verifies
    tail = indexes, footer   its length and CRC-32, kept as one number in the table's manifests

A bit that flips in a footer may move a column to another id, or let a reader skip rows.  So tails are
compared before Spark reads the files; object stores check what they hold themselves.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from anabranch.errors import FileDamaged, FileMissing, FileUnreadable
from anabranch.model import Reading
from anabranch.spark.shared_disk import local

SIDE_BY_SIDE = 8
FEW = 32  # up to here threads take longer to start than the files to be read


def summed(tail: bytes) -> int:
    """Length and checksum as one positive number of 63 bits."""
    return len(tail) << 32 | zlib.crc32(tail)


def check_tails(reading: Reading) -> None:
    """Refuse a reading of files that are gone, or whose tails are not those that were written."""
    known = [(path, reading.tails[path]) for path in _paths(reading) if path in reading.tails]
    if len(known) <= FEW:
        for path, tail in known:
            check_tail(path, tail)
        return
    with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="tails") as pool:
        list(pool.map(check_tail, *zip(*known, strict=True)))


def check_tail(path: str, wanted: int) -> None:
    place = local(path)
    if place is not None and _of(place, path, wanted >> 32) != wanted:
        raise damaged(path, "its footer is not the one that was written")


def damaged(path: str, why: str) -> FileDamaged:
    return FileDamaged(
        f"a data file is damaged: {path}: {why}",
        hint="anabranch check --deep finds what else is damaged, and --repair rebuilds what it can",
        path=path,
    )


def missing(path: str) -> FileMissing:
    return FileMissing(
        f"a data file cannot be read: {path} does not exist",
        hint="the file was removed, or Spark cannot reach the warehouse",
        path=path,
    )


def _of(place: Path, path: str, length: int) -> int:
    try:
        handle = os.open(place, os.O_RDONLY)
    except FileNotFoundError as error:
        raise missing(path) from error
    except PermissionError as error:
        raise FileUnreadable(
            f"{path} cannot be read: {error.strerror}", hint="let this user read it", path=path
        ) from error
    try:
        start = os.fstat(handle).st_size - length
        return summed(os.pread(handle, length, start)) if start >= 0 else 0
    finally:
        os.close(handle)


def _paths(reading: Reading) -> Iterable[str]:
    return (*reading.files, *reading.skip, *reading.only)
