"""Read leases: cuts that somebody holds, which upkeep must leave readable.

A lease lives while its owner says so; once it is over and upkeep has run, its row is gone, and so may
be what the cut showed.  So a reader whose row is there can read everything.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, insert, select, update

from anabranch.catalog import cuts, stages, tables


@dataclass(frozen=True)
class ReadLease:
    token: str
    cut_id: int


def take(
    c: Connection, cut_id: int, seconds: float, *, all_files: bool = False
) -> ReadLease | None:
    """Hold a cut, or all files that are there now; None when the cut is not recorded any more."""
    cuts.hold(c)  # upkeep must not forget the cut between the question and the answer
    if cut_id and not cuts.is_recorded(c, cut_id):
        return None
    me = stages.mine(uuid.uuid4().hex)
    c.execute(
        insert(tables.read_leases).values(
            token=me.id,
            cut_id=cut_id,
            host=me.host,
            pid=me.pid,
            process_start=me.process_start,
            expires_at=_until(c, seconds),
            all_files=all_files,
        )
    )
    return ReadLease(me.id, cut_id)


def renew(c: Connection, token: str, seconds: float) -> None:
    table = tables.read_leases
    c.execute(update(table).where(table.c.token == token).values(expires_at=_until(c, seconds)))


def holds(c: Connection, lease: ReadLease) -> bool:
    table = tables.read_leases
    return c.execute(select(table.c.token).where(table.c.token == lease.token)).first() is not None


def give_back(c: Connection, lease: ReadLease) -> None:
    c.execute(delete(tables.read_leases).where(tables.read_leases.c.token == lease.token))


def held_cuts(c: Connection, now: datetime) -> Collection[int]:
    """The cuts that somebody holds; leases whose time or owner is gone end with the question."""
    held, over = set(), []
    for row in c.execute(select(tables.read_leases)):
        owner = stages.StageRow("", row.host, row.pid, row.process_start, now)
        if row.expires_at > now and stages.alive(owner, now):
            held.add(row.cut_id)
        else:
            over.append(row.token)
    for token in over:
        c.execute(delete(tables.read_leases).where(tables.read_leases.c.token == token))
    return held


def all_files_held(c: Connection, now: datetime) -> bool:
    """Whether somebody copies files, so that none may be deleted."""
    rows = c.execute(select(tables.read_leases).where(tables.read_leases.c.all_files.is_(True)))
    return any(
        row.expires_at > now
        and stages.alive(stages.StageRow("", row.host, row.pid, row.process_start, now), now)
        for row in rows
    )


def _until(c: Connection, seconds: float) -> datetime:
    return tables.now(c) + timedelta(seconds=seconds)
