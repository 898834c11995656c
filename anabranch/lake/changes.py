"""What changed between two snapshots.

S₁ − S₀ = the sum of the net deltas on the way, when S₀ is an ancestor and every step tells its own;
otherwise (rolled back, another branch, other writers) it is found by comparing the two states:
+ files only in S₁, − files only in S₀, − rows marked only in S₁, + rows marked only in S₀.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Operation, Snapshot

from anabranch.lake.manifests import entries, is_live, live_entries, manifests
from anabranch.lake.row_deletes import RowDeletes
from anabranch.lake.version import TableVersion, check_readable, summary_of
from anabranch.model import Delta, Reading

MANY_STEPS = 1000  # beyond, comparing two states is cheaper than looking up every step between them
DELTA = "anabranch.delta"  # snapshot summary: the net delta against the parent, as files


@dataclass(frozen=True)
class NetDelta:
    """A snapshot's own change, as it is kept in its summary."""

    base: int | None
    plus: tuple[str, ...] = ()
    minus: tuple[str, ...] = ()
    plus_rows: int = 0
    minus_rows: int = 0
    plus_bytes: int = 0
    minus_bytes: int = 0
    plus_tails: tuple[int, ...] = ()  # checksums of the files above, in their order
    minus_tails: tuple[int, ...] = ()

    def to_json(self, root: str) -> str:
        """Paths are kept relative to the table, to keep summaries short."""
        short = {
            "plus": [path.removeprefix(root + "/") for path in self.plus],
            "minus": [path.removeprefix(root + "/") for path in self.minus],
        }
        return json.dumps({**vars(self), **short}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, root: str) -> NetDelta:
        found = json.loads(text)
        for side in ("plus", "minus"):
            found[side] = tuple(
                path if "://" in path or path.startswith("/") else f"{root}/{path}"
                for path in found[side]
            )
        return cls(**found)

    def as_delta(self) -> Delta:
        plus = Reading(
            self.plus,
            rows=self.plus_rows,
            bytes=self.plus_bytes,
            tails=_tails(self.plus, self.plus_tails),
        )
        minus = Reading(
            self.minus,
            rows=self.minus_rows,
            bytes=self.minus_bytes,
            tails=_tails(self.minus, self.minus_tails),
        )
        return Delta((plus,) if self.plus else (), (minus,) if self.minus else ())


def _tails(paths: Sequence[str], tails: Sequence[int]) -> dict[str, int]:
    """By path; a snapshot of an older version tells none."""
    return dict(zip(paths, tails, strict=False))


def changes(version: TableVersion, since: int | None, until: int | None) -> Delta:
    before, after = version.snapshot(since), version.snapshot(until)
    if before is None or since == until:
        return compared(version, since, until)
    steps = _steps(version, before, after)
    told = _told(version, steps) if steps is not None else None
    return told if told is not None else _compared(version, before, after)


def compared(version: TableVersion, since: int | None, until: int | None) -> Delta:
    """The same from the two states alone: a row that came and went is in neither."""
    if since == until:
        return Delta()
    before, after = version.snapshot(since), version.snapshot(until)
    if before is None:
        everything = version.reading(until)
        return Delta(plus=(everything,)) if everything.files else Delta()
    return _compared(version, before, after)


def own_delta(version: TableVersion, snapshot: Snapshot) -> NetDelta | None:
    text = summary_of(snapshot).get(DELTA)
    return NetDelta.from_json(text, version.root) if text else None


def net_rows(before: TableVersion, after: TableVersion) -> tuple[int, int]:
    """Rows inserted and deleted from one version to a later one, as far as snapshots tell them;
    otherwise all rows before count as deleted, all after as inserted."""
    if before.snapshot_id == after.snapshot_id:
        return 0, 0
    inserted = deleted = 0
    at = after.metadata.current_snapshot()
    while at is not None and at.snapshot_id != before.snapshot_id:
        own = own_delta(after, at)
        if own is None or own.base != at.parent_snapshot_id:
            break
        inserted, deleted = inserted + own.plus_rows, deleted + own.minus_rows
        at = after.find_snapshot(at.parent_snapshot_id)
    reached = at.snapshot_id if at is not None else None
    return (inserted, deleted) if reached == before.snapshot_id else (after.rows, before.rows)


def _steps(
    version: TableVersion, before: Snapshot, after: Snapshot | None
) -> list[Snapshot] | None:
    """The snapshots after `before` up to `after`, or None when `before` is no ancestor."""
    steps: list[Snapshot] = []
    seen: set[int] = set()
    while after is not None and after.snapshot_id not in seen and len(steps) <= MANY_STEPS:
        if after.snapshot_id == before.snapshot_id:
            return steps[::-1]
        if (after.sequence_number or 0) < (before.sequence_number or 0):
            return None
        seen.add(after.snapshot_id)
        steps.append(after)
        after = version.find_snapshot(after.parent_snapshot_id)
    return None


def _told(version: TableVersion, steps: Sequence[Snapshot]) -> Delta | None:
    """The union of what the steps tell of themselves; None when one does not."""
    plus: list[Reading] = []
    minus: list[Reading] = []
    for step in steps:
        own = own_delta(version, step)
        if own is not None and own.base == step.parent_snapshot_id:
            delta = own.as_delta()
            plus.extend(delta.plus)
            minus.extend(delta.minus)
            continue
        appended = _appended(version, step)
        if appended is None:
            return None
        if appended:
            plus.append(version.reading_of(appended))
    return Delta(_together(plus), _together(minus))


def _appended(version: TableVersion, step: Snapshot) -> list[ManifestEntry] | None:
    """The files of a pure append by anyone; None when the snapshot did more than append."""
    if step.summary is None or step.summary.operation is not Operation.APPEND:
        return None
    parent = version.find_snapshot(step.parent_snapshot_id)
    now, then = manifests(version.io, step), manifests(version.io, parent)
    if _deletes(now) != _deletes(then):
        return None
    added = [
        entry
        for manifest in now
        if manifest.content == ManifestContent.DATA
        and manifest.added_snapshot_id == step.snapshot_id
        for entry in entries(version.io, manifest)
        if entry.snapshot_id == step.snapshot_id
    ]
    if any(entry.status != ManifestEntryStatus.ADDED for entry in added):
        return None
    check_readable(version, added)
    return added


def _deletes(found: Sequence[ManifestFile]) -> set[str]:
    return {
        each.manifest_path
        for each in found
        if each.content == ManifestContent.DELETES and is_live(each)
    }


def _together(readings: Sequence[Reading]) -> tuple[Reading, ...]:
    """One reading instead of many where no position deletes are involved."""
    if len(readings) <= 1:
        return tuple(readings)
    files = tuple(file for reading in readings for file in reading.files)
    rows, size = sum(each.rows for each in readings), sum(each.bytes for each in readings)
    tails = {path: tail for each in readings for path, tail in each.tails.items()}
    names = {path: name for each in readings for path, name in each.names.items()}
    constants = {path: known for each in readings for path, known in each.constants.items()}
    together = Reading(files, rows=rows, bytes=size, tails=tails, names=names, constants=constants)
    return (together,)


def _compared(version: TableVersion, before: Snapshot, after: Snapshot | None) -> Delta:
    old, new = _differing_files(version, before, after), _differing_files(version, after, before)
    old_paths = {each.data_file.file_path for each in old}
    new_paths = {each.data_file.file_path for each in new}
    gone = [each for each in old if each.data_file.file_path not in new_paths]
    come = [each for each in new if each.data_file.file_path not in old_paths]
    old_deletes, new_deletes = _deletes_at(version, before), _deletes_at(version, after)
    plus = [version.reading_of(come, skip=new_deletes)] if come else []
    minus = [version.reading_of(gone, skip=old_deletes)] if gone else []
    marked, unmarked = new_deletes.without(old_deletes), old_deletes.without(new_deletes)
    if marked.entries or unmarked.entries:
        common = _common_files(version, before, {each.data_file.file_path for each in gone})
        minus += _only(version, common, old_deletes, marked)
        plus += _only(version, common, new_deletes, unmarked)
    return Delta(tuple(plus), tuple(minus))


def _only(
    version: TableVersion, files: Sequence[ManifestEntry], skip: RowDeletes, only: RowDeletes
) -> list[Reading]:
    """Rows that `only` deletes and `skip` does not, each once."""
    found = []
    for part in only.parts():
        if touched := part.touched(files):
            found.append(version.reading_of(touched, skip=skip, only=part))
        skip = skip + part
    return found


def _differing_files(
    version: TableVersion, one: Snapshot | None, other: Snapshot | None
) -> list[ManifestEntry]:
    """Live files in the data manifests that only `one` has."""
    known = {each.manifest_path for each in manifests(version.io, other)}
    found = [
        entry
        for manifest in manifests(version.io, one)
        if manifest.content == ManifestContent.DATA and is_live(manifest)
        if manifest.manifest_path not in known
        for entry in live_entries(version.io, manifest)
    ]
    check_readable(version, found)
    return found


def _deletes_at(version: TableVersion, snapshot: Snapshot | None) -> RowDeletes:
    found = [
        entry
        for manifest in manifests(version.io, snapshot)
        if manifest.content == ManifestContent.DELETES and is_live(manifest)
        for entry in live_entries(version.io, manifest)
    ]
    check_readable(version, found)
    return version.deletes_of(found)


def _common_files(version: TableVersion, before: Snapshot, gone: set[str]) -> list[ManifestEntry]:
    data = version.state(before.snapshot_id).data
    return [each for each in data if each.data_file.file_path not in gone]
