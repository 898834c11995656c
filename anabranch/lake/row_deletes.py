"""What deletes rows: position deletes, deletion vectors, equality deletes; and of which data files.

    position deletes   name files and positions; they apply to files that are not younger
    deletion vector    positions of one file, which takes the place of its position deletes
    equality deletes   list values of some columns; they apply to files that are older, in the same
                       partition unless they are of a spec without partitions

Age is the data sequence number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntry

from anabranch.model import FILE_PATH_ID, KeyDeletes, Vector

OFFSET, REFERENCED = 18, 17  # where PyIceberg's record of a file keeps fields of version 3
LENGTH = 19


@dataclass(frozen=True)
class Terms:
    """What entries mean in the terms of a reading; the table knows columns and files."""

    vector: Callable[[ManifestEntry], Vector]
    keys: Callable[[ManifestEntry], KeyDeletes]
    scope: Callable[[ManifestEntry], str]


class RowDeletes:
    """A set of files, or parts of files, that delete rows."""

    def __init__(self, entries: Sequence[ManifestEntry], terms: Terms | None = None) -> None:
        self.entries = tuple(entries)
        self.terms = terms

    @property
    def paths(self) -> frozenset[str]:
        """The position delete files."""
        return frozenset(e.data_file.file_path for e in self.entries if kind(e) is PLACES)

    @property
    def vectors(self) -> tuple[Vector, ...]:
        found = [each for each in self.entries if kind(each) is VECTOR]
        if not found or self.terms is None:
            return ()
        return tuple(sorted(map(self.terms.vector, found), key=lambda v: (v.path, v.offset)))

    @property
    def keys(self) -> tuple[KeyDeletes, ...]:
        found = [each for each in self.entries if kind(each) is KEYS]
        if not found or self.terms is None:
            return ()
        return tuple(sorted(map(self.terms.keys, found), key=lambda each: each.path))

    @property
    def counted(self) -> int:
        """Rows that are named by their places; of those named by values nobody knows how many."""
        return sum(e.data_file.record_count for e in self.entries if kind(e) is not KEYS)

    def of_kind(self, *kinds: object) -> RowDeletes:
        return RowDeletes([each for each in self.entries if kind(each) in kinds], self.terms)

    def parts(self) -> Iterator[RowDeletes]:
        """Those that name places, and those that name values, column by column: disjoint."""
        if (places := self.of_kind(PLACES, VECTOR)).entries:
            yield places
        by_columns: dict[tuple[int, ...], list[ManifestEntry]] = {}
        for each in self.of_kind(KEYS).entries:
            by_columns.setdefault(tuple(sorted(each.data_file.equality_ids or ())), []).append(each)
        for _, some in sorted(by_columns.items()):
            yield RowDeletes(some, self.terms)

    def __add__(self, other: RowDeletes) -> RowDeletes:
        return RowDeletes((*self.entries, *other.without(self).entries), self.terms or other.terms)

    def without(self, other: RowDeletes) -> RowDeletes:
        known = {_identity(each) for each in other.entries}
        left = [each for each in self.entries if _identity(each) not in known]
        return RowDeletes(left, self.terms or other.terms)

    def applying_to(self, files: Sequence[ManifestEntry]) -> RowDeletes:
        """Those that can apply to one of the data files."""
        if not self.entries:
            return self
        ordered = self._ordered(files)
        return RowDeletes(
            [each for each in self.entries if self._reached(each, ordered)], self.terms
        )

    def touched(self, files: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        """The data files that one of these can apply to."""
        if not self.entries:
            return []
        ordered = self._ordered(files)
        found: dict[str, ManifestEntry] = {}
        for each in self.entries:
            found.update((file.data_file.file_path, file) for file in self._reached(each, ordered))
        return [found[path] for path in sorted(found)]

    def _ordered(self, files: Sequence[ManifestEntry]) -> _Ordered:
        ordered = sorted(files, key=lambda each: each.data_file.file_path)
        return _Ordered([each.data_file.file_path for each in ordered], ordered)

    def _reached(self, delete: ManifestEntry, ordered: _Ordered) -> Sequence[ManifestEntry]:
        age = delete.sequence_number or 0
        if kind(delete) is KEYS:
            files = ordered.older_than(age)
            scope = self.terms.keys(delete).scope if self.terms is not None else ""
            if not scope or self.terms is None:
                return files
            return [each for each in files if self.terms.scope(each) == scope]
        low, high = _bounds(delete)
        start = bisect_left(ordered.paths, low) if low is not None else 0
        # an upper bound that a writer cut short was rounded up, so it is still an upper bound
        end = bisect_right(ordered.paths, high) if high is not None else len(ordered.paths)
        return [each for each in ordered.files[start:end] if (each.sequence_number or 0) <= age]


@dataclass
class _Ordered:
    """Data files by path; those older than an age are asked for again and again."""

    paths: list[str]
    files: list[ManifestEntry]
    _older: dict[int, list[ManifestEntry]] = field(default_factory=dict)

    def older_than(self, age: int) -> list[ManifestEntry]:
        if age not in self._older:
            self._older[age] = [e for e in self.files if (e.sequence_number or 0) < age]
        return self._older[age]


PLACES, VECTOR, KEYS = "position deletes", "deletion vector", "equality deletes"


def kind(entry: ManifestEntry) -> str:
    file = entry.data_file
    if file.content == DataFileContent.EQUALITY_DELETES:
        return KEYS
    return VECTOR if file.file_format is FileFormat.PUFFIN else PLACES


def referenced(entry: ManifestEntry) -> str | None:
    """The data file that a deletion vector belongs to; PyIceberg has no name for the field yet."""
    found: str | None = _later(entry, REFERENCED)
    return found


def blob_of(entry: ManifestEntry) -> tuple[int, int] | None:
    """Where a deletion vector lies in its Puffin file, and its length."""
    offset, length = _later(entry, OFFSET), _later(entry, LENGTH)
    return None if offset is None or length is None else (offset, length)


def _later(entry: ManifestEntry, at: int) -> Any:
    file = entry.data_file
    return file[at] if len(file) > at else None


def _identity(entry: ManifestEntry) -> tuple[str, int]:
    """Many deletion vectors lie in one Puffin file."""
    return entry.data_file.file_path, _later(entry, OFFSET) or 0


def _bounds(delete: ManifestEntry) -> tuple[str | None, str | None]:
    if kind(delete) is VECTOR:
        return referenced(delete), referenced(delete)
    return _bound(delete.data_file.lower_bounds), _bound(delete.data_file.upper_bounds)


def _bound(bounds: dict[int, bytes] | None) -> str | None:
    found = (bounds or {}).get(FILE_PATH_ID)
    try:
        return found.decode() if found is not None else None
    except UnicodeDecodeError:
        return None
