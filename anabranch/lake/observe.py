"""Commits of other programs: each batch of them becomes a cut of its own before anything reads it.

Whoever looks at tables looks at a recorded cut, never at pointers that belong to none.  So what a
refresh has read can always be named, and be read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection

from anabranch.catalog import cuts, events, streams
from anabranch.catalog.cuts import Version
from anabranch.catalog.streams import StreamTable
from anabranch.errors import AnabranchError
from anabranch.lake.lake import Lake

OBSERVED = "observed"
ATTEMPTS = 5


@contextmanager
def observed(lake: Lake) -> Iterator[Connection]:
    """A reading transaction whose newest recorded cut shows what others had committed.

    Programs that commit faster than their commits can be recorded do not hold it up: the newest
    recorded cut is whole as well, and what came later is part of the next.
    """
    for _ in range(ATTEMPTS):
        with lake.store.reading() as c:
            if not cuts.moved_by_others(c, lake.catalog_name):
                yield c
                return
        observe(lake)
    with lake.store.reading() as c:
        yield c


def observe(lake: Lake) -> int | None:
    """Record what others have committed; the new cut, or None if there was nothing."""
    with lake.store.writing() as c:
        cuts.hold(c)
        moved = cuts.moved_by_others(c, lake.catalog_name)
        if not moved:
            return None
        cut_id = cuts.advance(c)
        record(c, lake, cut_id, moved)
        return cut_id


def record(c: Connection, lake: Lake, cut_id: int, moved: Sequence[Version]) -> None:
    """Make commits of others a cut, and say so where they wrote to a stream table."""
    cuts.add(c, cut_id, OBSERVED, [_with_snapshot(lake, each) for each in moved])
    known = streams.all_streams(c)
    events.add(
        c,
        [
            events.Event(each.name, events.FOREIGN_WRITE, _said(each, cut_id, known[each.name]))
            for each in moved
            if each.name in known
        ],
    )


def _with_snapshot(lake: Lake, moved: Version) -> Version:
    """A file that cannot be read now is no reason to hide that somebody committed it."""
    if moved.metadata_location is None:
        return moved
    try:
        version = lake.version(moved.name, moved.metadata_location)
    except (AnabranchError, ValueError):
        return moved
    return Version(moved.name, moved.metadata_location, version.snapshot_id)


def _said(moved: Version, cut_id: int, stream: StreamTable) -> str:
    did = "dropped" if moved.metadata_location is None else "wrote to"
    cure = "the next refresh rebuilds it"
    if stream.schedule is None:  # nobody else may come and refresh it
        cure = f"REFRESH STREAM TABLE {stream.name} rebuilds it"
    return f"another program {did} this stream table (cut {cut_id}); {cure}"
