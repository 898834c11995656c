"""Damage to the files of a home, as disks and people do it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch.lake import manifests, ranges, version
from tests.standin import files


def forget() -> None:
    """What this process remembers of files: another one would read them."""
    for cache in (manifests._lists, manifests._entries, version._states, ranges._footers):
        cache._values.clear()
    files._stored.cache_clear()


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << (bit % 8)
    path.write_bytes(data)


@contextmanager
def flipped(path: Path, bit: int) -> Iterator[None]:
    """Inside, one bit of a file is another one."""
    before = path.read_bytes()
    flip(path, bit)
    forget()
    try:
        yield
    finally:
        path.write_bytes(before)
        forget()


def bits(path: Path, count: int, chosen: random.Random) -> list[int]:
    return [chosen.randrange(path.stat().st_size * 8) for _ in range(count)]


def roots(home: Path, table: str) -> list[Path]:
    """The folders that a table has had."""
    schema, name = table.split(".")
    return sorted((home / "warehouse" / schema).glob(f"{name}-*"))


KINDS: dict[str, str] = {
    "data": "data/**/*.parquet",
    "manifests": "metadata/*-m*.avro",
    "lists": "metadata/snap-*.avro",
    "metadata": "metadata/*.json",
}
WAYS: dict[str, Callable[[Path], object]] = {
    "gone": lambda path: path.unlink(),
    "garbled": lambda path: path.write_bytes(b"not what it was"),
    "empty": lambda path: path.write_bytes(b""),
    "flipped": lambda path: flip(path, path.stat().st_size * 4),
}


def break_table(home: Path, table: str, kind: str, way: str) -> list[Path]:
    """Do the same to all files of a kind."""
    found = [path for root in roots(home, table) for path in root.glob(KINDS[kind])]
    assert found
    for path in found:
        WAYS[way](path)
    forget()
    return found
