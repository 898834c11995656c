"""Upkeep: forget old cuts, expire snapshots nobody needs, collect files nobody refers to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyiceberg.manifest import ManifestEntry
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation

from anabranch.catalog import cuts, deployments, read_leases, snapshots, stages, streams, tables
from anabranch.catalog.retention import Retention
from anabranch.catalog.store import Connection
from anabranch.errors import AnabranchError, FileMissing, FileUnreadable, PublishConflict
from anabranch.lake.changes import DELTA, NetDelta
from anabranch.lake.collect import FOREIGN_GRACE, collect
from anabranch.lake.declared import save
from anabranch.lake.lake import Lake
from anabranch.lake.manifests import manifests
from anabranch.lake.places import is_our_root
from anabranch.lake.publish import Rows, publish
from anabranch.lake.recorded import LONG_WAY, add, facts, without
from anabranch.lake.snapshots import MANY_MANIFESTS, FileChange, with_snapshot
from anabranch.lake.stage import Stage
from anabranch.lake.version import ROWS, STAGE, TableVersion, reading_of
from anabranch.model import Reading
from anabranch.names import TableName
from anabranch.retry import attempts

RETENTION = Retention()
# Files of a like size are written together: each row is rewritten once on its way up from each step.
SMALL_FILES = (1 << 16, 1 << 20, 16 << 20)
MANY_SMALL_FILES = 20
MANY_DELETE_FILES = 20
MUCH_DELETED = 0.2
# Takes tables for the time of a change: those that are free, and what to check in the publish.
Held = AbstractContextManager[tuple[Collection[TableName], Rows | None]]
Hold = Callable[[Collection[TableName]], Held]


@dataclass(frozen=True)
class Report:
    """What an upkeep did."""

    cuts_forgotten: int = 0
    snapshots_expired: int = 0
    manifests_merged: int = 0
    stages_ended: int = 0
    files_deleted: int = 0
    bytes_deleted: int = 0
    cut_id: int | None = None  # the cut that holds the changes, if any were needed


@dataclass(frozen=True)
class Compaction:
    """Files worth writing anew: read `reading`, commit it as `compaction` of `replaced`."""

    reading: Reading
    replaced: frozenset[str]
    reason: str


def maintain(
    lake: Lake,
    *,
    retention: Retention | timedelta = RETENTION,
    needed: Mapping[TableName, Iterable[int]] | None = None,
    grace: timedelta = timedelta(0),
    foreign_grace: timedelta = FOREIGN_GRACE,
    now: datetime | None = None,
    hold: Hold | None = None,
    collecting: bool = True,
) -> Report:
    """Cuts stay readable as `retention` says, and those that somebody holds; `needed` snapshots stay
    as long as named.

    Without `needed`, those that stream tables stand on are taken from the catalog.  Tables whose
    metadata is to change are held meanwhile (`hold`).  No file younger than `grace` is deleted.
    """
    kept = Retention(total=retention) if isinstance(retention, timedelta) else retention
    lake.store.refuse_damaged()  # a file of a table that it hides would seem to be garbage
    lake.fence.claim()
    lake.fence.check()
    save(lake)
    fill_in(lake)
    forgotten, ended, gone = _forget(lake, kept, needed, now)
    unlisted = len(gone - _listed(lake, gone))
    expired, merged, cut_id = _expire_patiently(lake, needed, hold or _unheld)
    deleted, size = collect(lake, grace, foreign_grace, now) if collecting else (0, 0)
    return Report(forgotten, unlisted + expired, merged, ended, deleted, size, cut_id)


def _forget(
    lake: Lake,
    retention: Retention,
    needed: Mapping[TableName, Iterable[int]] | None,
    now: datetime | None,
) -> tuple[int, int, set[tuple[str, int]]]:
    """Forget cuts, and the rows of snapshots that nothing needs any more, in one transaction."""
    with lake.store.writing() as c:
        cuts.hold(c)  # whoever takes a read lease waits, or is seen here
        now = now or tables.now(c)
        living, dead = _stages(c, now)
        for each in dead:  # should such a stage live after all, its publish will now fail
            stages.remove(c, each.id)
        held = {*read_leases.held_cuts(c, now), *(each.cut_id or 0 for each in living)}
        recorded = cuts.moments(c)
        # what a roll-back needs is held as long as its age allows, but for thinning
        old = Retention(retention.total, retention.total, retention.total)
        past = old.expired(recorded, now, held)
        held |= (deployments.undo_cuts(c) | streams.stands(c)) - past
        forgotten = cuts.forget_some(c, retention.expired(recorded, now, held))
        deployments.forget_undos(c)
        gone = unneeded(c, needed)
        snapshots.forget(c, gone)
        snapshots.forget_shapes(c)
    return forgotten, len(dead), gone


def unneeded(
    c: Connection, needed: Mapping[TableName, Iterable[int]] | None = None
) -> set[tuple[str, int]]:
    """Snapshots, by table, that no cut, frontier or roll-back needs, nor a short way to the newest."""
    parents = snapshots.parents(c)
    versions = cuts.known_versions(c)
    wanted = {each for ids in _wanted(c, needed).values() for each in ids}
    shown = {(each.table_uuid, each.snapshot_id) for each in versions}
    kept = {key for key in parents if key in shown or key[1] in wanted}
    newest = cuts.newest(c)
    for each in versions:
        if each.table_uuid is not None and newest.get(each.name) == each.metadata_location:
            kept |= _way(parents, each.table_uuid, each.snapshot_id, kept)
    return parents.keys() - kept


def _way(
    parents: Mapping[tuple[str, int], int | None],
    table_uuid: str,
    newest: int | None,
    needed: Collection[tuple[str, int]],
) -> set[tuple[str, int]]:
    """The snapshots from the newest back to the last of those needed, if that is not far."""
    way: list[tuple[str, int]] = []
    kept: set[tuple[str, int]] = set()
    at = newest
    while at is not None and (table_uuid, at) in parents and len(way) <= LONG_WAY:
        way.append((table_uuid, at))
        if way[-1] in needed:
            kept.update(way)
        at = parents[table_uuid, at]
    return kept


def _wanted(
    c: Connection, needed: Mapping[TableName, Iterable[int]] | None
) -> dict[TableName, set[int]]:
    """The snapshots that stream tables stand on, or would after a roll-back."""
    asked = streams.needed_snapshots(c) if needed is None else needed
    wanted = {name: set(ids) for name, ids in asked.items()}
    for source, snapshot_id in deployments.needed_snapshots(c):
        wanted.setdefault(TableName.parse(source), set()).add(snapshot_id)
    return wanted


def _listed(lake: Lake, gone: Collection[tuple[str, int]]) -> set[tuple[str, int]]:
    """Those of some snapshots that their tables still list."""
    found = set()
    for name, location in lake.pointers().items() if gone else ():
        with suppress(AnabranchError):
            version = lake.version(name, location)
            found |= {(str(version.metadata.table_uuid), each) for each in version.snapshot_ids}
    return found.intersection(gone)


def fill_in(lake: Lake, most: int = 10_000) -> int:
    """Versions of an older catalog are told by metadata files alone: let rows tell the same."""
    with lake.store.reading() as c:
        versions = [each for each in cuts.known_versions(c) if each.shape is None][:most]
    done = 0
    for each in versions:
        with suppress(AnabranchError, ValueError):  # it can be read by nobody, now or later
            version = lake.version(each.name, each.metadata_location or "")
            metadata = version.metadata
            current = metadata.current_snapshot()
            found = facts(metadata, [current] if current is not None else [])
            with lake.store.writing() as c:
                add(c, [found])
                shape, uuid = found.shape_id, found.table_uuid
                snapshots.fill_in(c, version.location, uuid, shape, version.snapshot_id)
            done += 1
    return done


def _stages(c: Connection, now: datetime) -> tuple[list[stages.StageRow], list[stages.StageRow]]:
    """Those whose owners live, and the others."""
    found = stages.all_stages(c)
    living = [each for each in found if stages.alive(each, now)]
    return living, [each for each in found if each not in living]


def _expire_patiently(
    lake: Lake, needed: Mapping[TableName, Iterable[int]] | None, hold: Hold
) -> tuple[int, int, int | None]:
    with suppress(PublishConflict):  # it is not urgent: the next upkeep does it
        for attempt in attempts():
            with attempt:
                return _expire(lake, needed, hold)
    return 0, 0, None


@contextmanager
def _unheld(names: Collection[TableName]) -> Iterator[tuple[Collection[TableName], Rows | None]]:
    yield names, None


def _expire(
    lake: Lake, needed: Mapping[TableName, Iterable[int]] | None, hold: Hold
) -> tuple[int, int, int | None]:
    """Tables list no snapshot that nothing needs, and have few manifests."""
    with lake.store.reading() as c:
        pointers = lake.pointers(c)
        wanted = _needed_now(c, needed)
    expired = merged = 0
    found = {
        name: _untidy(lake, name, pointers[name], wanted.get(name, set())) for name in pointers
    }
    untidy = {name: each for name, each in found.items() if each is not None}
    if not untidy:
        return 0, 0, None
    removed: dict[TableName, set[int]] = {}
    with hold(untidy.keys()) as (names, check), Stage(lake, pointers) as stage:

        def unchanged(c: Connection, cut_id: int | None) -> None:
            """Whoever came to need a snapshot since it was looked for stops the publish."""
            if check is not None:
                check(c, cut_id)
            _refuse_needed(removed, _needed_now(c, needed))

        for name in names:
            gone, many = untidy[name]
            if gone:
                stage.replace_metadata(name, without(stage.version(name).metadata, gone)[0])
                removed[name] = gone
                expired += len(gone)
            if many > MANY_MANIFESTS:
                stage.replace_metadata(name, _with_fewer_manifests(stage, stage.version(name)))
                merged += many
        return expired, merged, publish(stage, "maintain", unchanged) if stage.changes else None


def _needed_now(
    c: Connection, needed: Mapping[TableName, Iterable[int]] | None
) -> dict[TableName, set[int]]:
    """Whatever keeps snapshots from expiring: what stream tables stand on, what a roll-back may bring
    back, and what recorded cuts show, those among them that are held by read leases and stages."""
    found = _wanted(c, needed)
    for each in cuts.known_versions(c):
        if each.snapshot_id is not None:
            found.setdefault(each.name, set()).add(each.snapshot_id)
    return found


def _refuse_needed(
    removed: Mapping[TableName, Collection[int]], needed: Mapping[TableName, Collection[int]]
) -> None:
    for name, gone in removed.items():
        if not set(gone).isdisjoint(needed.get(name, ())):
            raise PublishConflict(f"{name} is in use at its previous version", hint="run it again")


def _untidy(
    lake: Lake, name: TableName, location: str, wanted: set[int]
) -> tuple[set[int], int] | None:
    """The listed snapshots of a table that nothing needs, and its many manifests."""
    try:
        version = lake.version(name, location)
        if not is_our_root(lake.warehouse.location, version.root):
            return None  # made by another program, which also keeps it tidy
        many = len(manifests(version.io, version.metadata.current_snapshot()))
        if not _whole(version):
            return None  # `check` says what is wrong with it
    except (FileMissing, FileUnreadable):
        return None
    gone = expendable(version, wanted)
    if not gone and many <= MANY_MANIFESTS:
        return None
    return None if lake.warehouse.is_locked(f"{version.root}/data") else (gone, many)


def _whole(version: TableVersion) -> bool:
    """Whether the manifests of a table can be read."""
    try:
        version.state(version.snapshot_id)
    except (FileMissing, FileUnreadable):
        return False
    except AnabranchError:  # such as files that only another program reads: in nobody's way
        return True
    return True


def expendable(version: TableVersion, needed: set[int]) -> set[int]:
    """Snapshots that no branch, tag, cut or frontier needs, nor a short way from one to the newest."""
    metadata = version.metadata
    keep = {ref.snapshot_id for ref in metadata.refs.values()} | needed
    if version.snapshot_id is not None:
        keep.add(version.snapshot_id)
    way: list[int] = []
    parents = {each.snapshot_id: each.parent_snapshot_id for each in metadata.snapshots}
    at = version.snapshot_id
    while at is not None and at in parents and len(way) <= LONG_WAY:
        way.append(at)
        if at in needed:
            keep.update(way)
        at = parents[at]
    return set(parents) - keep


def _with_fewer_manifests(stage: Stage, version: TableVersion) -> TableMetadata:
    summary = {
        STAGE: stage.id,
        ROWS: str(version.rows),
        DELTA: NetDelta(version.snapshot_id).to_json(version.root),
    }
    change = FileChange(Operation.REPLACE, summary=summary, most_manifests=1)
    return with_snapshot(version.io, version.metadata, stage.id, change)


def compaction(version: TableVersion) -> Compaction | None:
    """What to compact and why; None when the table is in good shape."""
    state = version.state(version.snapshot_id)
    small = _small(state.data)
    stored = sum(each.data_file.record_count for each in state.data)
    reasons = []
    chosen: dict[str, ManifestEntry] = {}
    if small:
        reasons.append(f"{len(small)} small files")
        chosen.update((each.data_file.file_path, each) for each in small)
    deletes = len(state.deletes.entries)
    if deletes >= MANY_DELETE_FILES or version.marked > MUCH_DELETED * stored:
        reasons.append(f"{version.marked} of {stored} rows marked as deleted in {deletes} files")
        touched = state.deletes.touched(state.data)
        chosen.update((each.data_file.file_path, each) for each in touched)
    if not chosen:
        return None
    files = [chosen[path] for path in sorted(chosen)]
    reading = reading_of(files, skip=state.deletes)
    return Compaction(reading, frozenset(chosen), " and ".join(reasons))


def _small(data: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """The files of the largest size of which there are many, with all that are smaller."""
    small: list[ManifestEntry] = []
    below = 0
    for bound in SMALL_FILES:
        like = [each for each in data if below <= each.data_file.file_size_in_bytes < bound]
        if len(like) >= MANY_SMALL_FILES:
            small = [each for each in data if each.data_file.file_size_in_bytes < bound]
        below = bound
    return small
