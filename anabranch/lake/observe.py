"""Commits of other programs: each batch of them becomes a cut of its own before anything reads it.

Whoever looks at tables looks at a recorded cut, never at pointers that belong to none.  So what a
refresh has read can always be named, and be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

from pyiceberg.table.snapshots import Snapshot
from sqlalchemy import Connection

from anabranch.catalog import cuts, events, snapshots, streams
from anabranch.catalog.cuts import Version
from anabranch.catalog.streams import StreamTable
from anabranch.errors import AnabranchError, CatalogDamaged, MissingRight
from anabranch.lake import recorded
from anabranch.lake.lake import Lake
from anabranch.lake.recorded import LONG_WAY, Facts, facts
from anabranch.lake.version import TableVersion
from anabranch.retry import attempts

OBSERVED = "observed"
ATTEMPTS = 5
T = TypeVar("T")


@contextmanager
def observed(lake: Lake) -> Iterator[Connection]:
    """A reading transaction whose newest recorded cut shows what others had committed.

    Programs that commit faster than their commits can be recorded do not hold it up: the newest
    recorded cut is whole as well, and what came later is part of the next.
    """
    ask = partial(cuts.moved_by_others, catalog=lake.catalog_name)
    with _observed(lake, ask, list, numbered=True) as (c, _):
        yield c


@contextmanager
def shown(lake: Lake) -> Iterator[tuple[Connection, cuts.Shown]]:
    """The same, with what that cut shows."""
    ask = partial(cuts.shown, catalog=lake.catalog_name)
    with _observed(lake, ask, lambda found: found.moved, numbered=False) as asked:
        yield asked


@contextmanager
def _observed(
    lake: Lake,
    ask: Callable[[Connection], T],
    moved: Callable[[T], Sequence[Version]],
    *,
    numbered: bool,
) -> Iterator[tuple[Connection, T]]:
    for _ in attempts(ATTEMPTS):  # without a pause: what came meanwhile is part of the next cut
        with lake.store.reading(numbered=numbered) as c:
            found = ask(c)
            if not moved(found):
                yield c, found
                return
        try:
            observe(lake)
        except MissingRight:  # a reader sees the newest cut that others have recorded
            break
    with lake.store.reading(numbered=numbered) as c:
        yield c, ask(c)


def observe(lake: Lake) -> int | None:
    """Record what others have committed; the new cut, or None if there was nothing."""
    with lake.store.writing() as c:
        cuts.hold(c)
        moved = cuts.moved_by_others(c, lake.catalog_name)
        if not moved:
            return None
        _refuse_if_emptied(c, lake, moved)
        cut_id = cuts.advance(c)
        record(c, lake, cut_id, moved)
        return cut_id


def _refuse_if_emptied(c: Connection, lake: Lake, moved: Sequence[Version]) -> None:
    """Nobody drops every table at once: the rows of Iceberg are lost, and no cut may say otherwise."""
    gone = [each for each in moved if each.metadata_location is None]
    if len(gone) > 1 and len(gone) == len(moved) and not cuts.pointers(c, lake.catalog_name):
        raise CatalogDamaged(
            f"catalog {lake.store.shown} is damaged: its table iceberg_tables is empty, though "
            f"{len(gone)} tables were there",
            hint="anabranch recover --from-warehouse registers them again as they were; or restore "
            "the catalog from a backup",
            path=lake.store.shown,
        )


def record(c: Connection, lake: Lake, cut_id: int, moved: Sequence[Version]) -> None:
    """Make commits of others a cut, and say so where they wrote to a stream table."""
    before = cuts.newest(c)
    if any(each.metadata_location is None or each.name not in before for each in moved):
        lake.store.refuse_damaged(c)  # a rotten index hides rows, and no cut may call them dropped
    found = [_with_facts(c, lake, each, before.get(each.name)) for each in moved]
    recorded.add(c, [known for _, known in found if known is not None])
    cuts.add(c, cut_id, OBSERVED, [version for version, _ in found])
    known = streams.all_streams(c)
    events.add(
        c,
        [
            events.Event(each.name, events.FOREIGN_WRITE, _said(each, cut_id, known[each.name]))
            for each in moved
            if each.name in known
        ],
    )


def _with_facts(
    c: Connection, lake: Lake, moved: Version, before: str | None
) -> tuple[Version, Facts | None]:
    """A file that cannot be read now is no reason to hide that somebody committed it."""
    if moved.metadata_location is None:
        return moved, None
    try:
        version = lake.version(moved.name, moved.metadata_location)
        found = facts(version.metadata, last_steps(version))
    except (AnabranchError, ValueError):
        return moved, None
    if before is not None:
        with suppress(AnabranchError, ValueError):
            forget_expired(c, lake, lake.version(moved.name, before), version)
    return found.version(version), found


def last_steps(version: TableVersion) -> list[Snapshot]:
    """The way to the current snapshot, as far as a stream table may want to follow it."""
    way: list[Snapshot] = []
    at = version.metadata.current_snapshot()
    while at is not None and len(way) <= LONG_WAY:
        way.append(at)
        parent = at.parent_snapshot_id
        at = version.metadata.snapshot_by_id(parent) if parent is not None else None
    return way


def forget_expired(c: Connection, lake: Lake, before: TableVersion, now: TableVersion) -> None:
    """Snapshots that another program took off the list have no files any more."""
    table_uuid = str(now.metadata.table_uuid)
    if str(before.metadata.table_uuid) == table_uuid:
        gone = before.snapshot_ids - now.snapshot_ids
        snapshots.forget(c, {(table_uuid, each) for each in gone})
        lake.forget_snapshots(table_uuid, gone)


def _said(moved: Version, cut_id: int, stream: StreamTable) -> str:
    did = "dropped" if moved.metadata_location is None else "wrote to"
    cure = "the next refresh rebuilds it"
    if stream.schedule is None:  # nobody else may come and refresh it
        cure = f"REFRESH STREAM TABLE {stream.name} rebuilds it"
    return f"another program {did} this stream table (cut {cut_id}); {cure}"
