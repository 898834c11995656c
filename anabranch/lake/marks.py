"""Position deletes: which of them can apply to which data files."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from pyiceberg.manifest import ManifestEntry

from anabranch.model import FILE_PATH_ID


class Marks:
    """A set of position delete files.

    A delete file applies to a data file when it is not older and its bounds of `file_path` include
    the file's path; a delete file without bounds may apply to any.
    """

    def __init__(self, entries: Sequence[ManifestEntry]) -> None:
        self.entries = tuple(entries)

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(each.data_file.file_path for each in self.entries)

    def without(self, other: Marks) -> Marks:
        known = other.paths
        return Marks([each for each in self.entries if each.data_file.file_path not in known])

    def applying_to(self, files: Sequence[ManifestEntry]) -> Marks:
        """Those that can apply to one of the data files."""
        if not self.entries:
            return self
        ordered = _by_path(files)
        return Marks([each for each in self.entries if _reached(each, ordered)])

    def touched(self, files: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        """The data files that one of these can apply to."""
        if not self.entries:
            return []
        ordered = _by_path(files)
        found: dict[str, ManifestEntry] = {}
        for each in self.entries:
            found.update((file.data_file.file_path, file) for file in _reached(each, ordered))
        return [found[path] for path in sorted(found)]


_Ordered = tuple[list[str], list[ManifestEntry]]


def _by_path(files: Sequence[ManifestEntry]) -> _Ordered:
    ordered = sorted(files, key=lambda each: each.data_file.file_path)
    return [each.data_file.file_path for each in ordered], ordered


def _reached(mark: ManifestEntry, ordered: _Ordered) -> list[ManifestEntry]:
    paths, files = ordered
    low, high = _bound(mark.data_file.lower_bounds), _bound(mark.data_file.upper_bounds)
    start = bisect_left(paths, low) if low is not None else 0
    # an upper bound that a writer cut short was rounded up, so it is still an upper bound
    end = bisect_right(paths, high) if high is not None else len(paths)
    age = mark.sequence_number or 0
    return [each for each in files[start:end] if (each.sequence_number or 0) <= age]


def _bound(bounds: dict[int, bytes] | None) -> str | None:
    found = (bounds or {}).get(FILE_PATH_ID)
    try:
        return found.decode() if found is not None else None
    except UnicodeDecodeError:
        return None
