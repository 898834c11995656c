"""Leases: which process refreshes which stream tables, for a limited time.

A lease keeps two processes from doing the same work.  It is not what keeps results right: that is the
compare-and-swap of a publish, and `check` in its transaction, which refuses whoever lost the lease.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from anabranch.catalog import cuts, stages, tables
from anabranch.catalog.streams import CHUNK
from anabranch.errors import PublishConflict
from anabranch.names import TableName


@dataclass(frozen=True)
class Lease:
    """Tables that this process may refresh until the lease ends or is taken over."""

    token: str
    tables: tuple[TableName, ...]
    waited: bool = False  # somebody else had it first, and may have published


def take(c: Connection, names: Iterable[TableName], seconds: float) -> Lease | TableName:
    """A lease of all the tables, or the first table that somebody else has.

    A lease ends with its time, and at once when its process is known to be dead.
    """
    cuts.hold(c)  # two takers at once would both find nothing
    wanted = tuple(sorted(names))
    at = tables.now()
    for row in _rows(c, wanted):
        if row.expires_at > at and _lives(row, at):
            return TableName.parse(row.table_name)
    _remove(c, wanted)
    me = stages.mine(uuid.uuid4().hex)
    owner = {"host": me.host, "pid": me.pid, "process_start": me.process_start}
    until = at + timedelta(seconds=seconds)
    rows = [
        {"table_name": str(name), "token": me.id, "expires_at": until, **owner} for name in wanted
    ]
    if rows:
        c.execute(insert(tables.leases), rows)
    return Lease(me.id, wanted)


def renew(c: Connection, tokens: Collection[str], seconds: float) -> None:
    until = tables.now() + timedelta(seconds=seconds)
    table = tables.leases
    c.execute(update(table).where(table.c.token.in_(list(tokens))).values(expires_at=until))


def check(c: Connection, lease: Lease) -> None:
    """Refuse if somebody took a table over while this process slept."""
    held = select(tables.leases.c.table_name).where(tables.leases.c.token == lease.token)
    if len(c.execute(held).all()) != len(lease.tables):
        raise PublishConflict(
            "another process took the refresh over", hint="this one was silent for too long"
        )


def give_back(c: Connection, lease: Lease) -> None:
    c.execute(delete(tables.leases).where(tables.leases.c.token == lease.token))


def forget(c: Connection) -> int:
    """Remove leases that ended long ago; taking over removes the others."""
    old = tables.now() - timedelta(days=1)
    return c.execute(delete(tables.leases).where(tables.leases.c.expires_at < old)).rowcount


def _rows(c: Connection, names: tuple[TableName, ...]) -> list[Row[Any]]:
    shown = [str(name) for name in names]
    found: list[Row[Any]] = []
    for start in range(0, len(shown), CHUNK):
        chosen = tables.leases.c.table_name.in_(shown[start : start + CHUNK])
        found += c.execute(select(tables.leases).where(chosen)).all()
    return sorted(found, key=lambda row: str(row.table_name))


def _remove(c: Connection, names: tuple[TableName, ...]) -> None:
    shown = [str(name) for name in names]
    for start in range(0, len(shown), CHUNK):
        chosen = tables.leases.c.table_name.in_(shown[start : start + CHUNK])
        c.execute(delete(tables.leases).where(chosen))


def _lives(row: Row[Any], at: datetime) -> bool:
    owner = stages.StageRow("", row.host, row.pid, row.process_start, at)
    return stages.alive(owner, at)
