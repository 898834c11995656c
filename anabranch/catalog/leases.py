"""Leases: which process writes which stream tables, for a limited time.

A lease keeps two processes from doing the same work.  It is not what keeps results right: that is the
compare-and-swap of a publish, and `check` in its transaction, which refuses whoever lost the lease.

Whoever waits for a lease is written down.  A scheduler, which can come back, takes no table that
somebody waits for, and those who wait get their turn in the order in which they came.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, null, select, union_all, update

from anabranch.catalog import cuts, stages, tables
from anabranch.catalog.tables import CHUNK
from anabranch.errors import PublishConflict
from anabranch.names import TableName


@dataclass(frozen=True)
class Lease:
    """Tables that this process may refresh until the lease ends or is taken over."""

    token: str
    tables: tuple[TableName, ...]
    waited: bool = False  # somebody else had it first, and may have published


@dataclass(frozen=True)
class Waiting:
    """A place in the queue."""

    token: str
    since: datetime

    @classmethod
    def begin(cls, c: Connection) -> Waiting:
        return cls(uuid.uuid4().hex, tables.now(c))


@dataclass(frozen=True)
class Claim:
    """Somebody has a table, or has waited for it `since` some moment."""

    table: TableName
    token: str
    host: str
    pid: int
    process_start: str
    expires_at: datetime
    since: datetime | None = None

    def counts(self, at: datetime) -> bool:
        """It ends with its time, and at once when its process is known to be dead."""
        return self.expires_at > at and _lives(self, at)


def take(
    c: Connection, names: Iterable[TableName], seconds: float, waiting: Waiting | None = None
) -> Lease | TableName:
    """A lease of all the tables, or the first table that somebody else has, or waits for.

    A lease ends with its time, and at once when its process is known to be dead.  With a place in the
    queue only those count who came before; without one all do.
    """
    cuts.hold(c)  # two takers at once would both find nothing
    wanted = tuple(sorted(names))
    at = tables.now(c)
    claims = _claims(c, wanted)
    taken = _busy(claims, at) or _waited_for(claims, at, waiting)
    if taken is not None:
        if waiting is not None:
            queue(c, wanted, waiting, seconds)
        return taken
    if waiting is not None and any(claim.token == waiting.token for claim in claims):
        leave(c, waiting)
    return _insert(c, wanted, at, seconds, claims)


def take_free(c: Connection, names: Iterable[TableName], seconds: float) -> Lease:
    """A lease of those tables that nobody has or waits for."""
    cuts.hold(c)
    at = tables.now(c)
    claims = _claims(c, tuple(names))
    theirs: dict[TableName, list[Claim]] = {}
    for claim in claims:
        theirs.setdefault(claim.table, []).append(claim)
    free = [
        name
        for name in sorted(names)
        if _busy(theirs.get(name, []), at) is None
        and _waited_for(theirs.get(name, []), at, None) is None
    ]
    return _insert(c, tuple(free), at, seconds, claims)


def held(c: Connection, names: Iterable[TableName]) -> frozenset[TableName]:
    """Those that somebody has."""
    at = tables.now(c)
    rows = [row for row in c.execute(select(tables.leases)) if row.expires_at > at]
    leased = {TableName.parse(row.table_name) for row in rows if _lives(row, at)}
    return frozenset(leased.intersection(names))


def held_since(
    c: Connection, names: Iterable[TableName], seconds: float
) -> dict[TableName, datetime]:
    """When the leases of those that somebody has were last renewed; they last so many `seconds`."""
    leased = held(c, names)
    rows = c.execute(select(tables.leases.c.table_name, tables.leases.c.expires_at))
    found = {TableName.parse(row.table_name): row.expires_at for row in rows}
    ago = timedelta(seconds=seconds)
    return {name: min(at - ago, tables.now(c)) for name, at in found.items() if name in leased}


def queue(c: Connection, names: Iterable[TableName], waiting: Waiting, seconds: float) -> None:
    """Stand in the queue, or stay in it: whoever falls silent loses the place."""
    leave(c, waiting)
    until = tables.now(c) + timedelta(seconds=seconds)
    rows = [
        {
            "table_name": str(name),
            "token": waiting.token,
            "since": waiting.since,
            "expires_at": until,
            **_owner(),
        }
        for name in names
    ]
    if rows:
        c.execute(insert(tables.waiters), rows)


def leave(c: Connection, waiting: Waiting) -> None:
    c.execute(delete(tables.waiters).where(tables.waiters.c.token == waiting.token))


def _busy(claims: Sequence[Claim], at: datetime) -> TableName | None:
    held = (claim for claim in claims if claim.since is None)
    return next((claim.table for claim in held if claim.counts(at)), None)


def _waited_for(claims: Sequence[Claim], at: datetime, mine: Waiting | None) -> TableName | None:
    for claim in claims:
        if claim.since is None:
            continue
        first = mine is None or (claim.since, claim.token) < (mine.since, mine.token)
        if first and claim.counts(at):
            return claim.table
    return None


def _insert(
    c: Connection,
    wanted: tuple[TableName, ...],
    at: datetime,
    seconds: float,
    claims: Sequence[Claim],
) -> Lease:
    over = {claim.table for claim in claims if claim.since is None}.intersection(wanted)
    _remove(c, tuple(sorted(over)))
    token, until = uuid.uuid4().hex, at + timedelta(seconds=seconds)
    rows = [
        {"table_name": str(name), "token": token, "expires_at": until, **_owner()}
        for name in wanted
    ]
    if rows:
        c.execute(insert(tables.leases), rows)
    return Lease(token, wanted)


def _owner() -> dict[str, Any]:
    me = stages.mine("")
    return {"host": me.host, "pid": me.pid, "process_start": me.process_start}


def renew(c: Connection, tokens: Collection[str], seconds: float) -> None:
    until = tables.now(c) + timedelta(seconds=seconds)
    table = tables.leases
    c.execute(update(table).where(table.c.token.in_(list(tokens))).values(expires_at=until))


def check(c: Connection, lease: Lease) -> None:
    """Refuse if somebody took a table over while this process slept."""
    held = select(tables.leases.c.table_name).where(tables.leases.c.token == lease.token)
    if len(c.execute(held).all()) != len(lease.tables):
        raise _taken_over()


def end(c: Connection, lease: Lease) -> None:
    """The same, and give it back: for the publish that the lease was taken for."""
    if give_back(c, lease) != len(lease.tables):
        raise _taken_over()


def _taken_over() -> PublishConflict:
    return PublishConflict(
        "another process took over the refresh", hint="this one stopped responding for too long"
    )


def give_back(c: Connection, lease: Lease) -> int:
    """How many of its tables were still ours."""
    ours = tables.leases.c.token == lease.token
    return c.execute(delete(tables.leases).where(ours)).rowcount


def forget(c: Connection) -> int:
    """Remove leases that ended long ago; taking over removes the others."""
    old = tables.now(c) - timedelta(days=1)
    c.execute(delete(tables.waiters).where(tables.waiters.c.expires_at < old))
    return c.execute(delete(tables.leases).where(tables.leases.c.expires_at < old)).rowcount


def _claims(c: Connection, names: tuple[TableName, ...]) -> list[Claim]:
    """Who has some tables, and who waits for them, by the names of the tables."""
    shown = [str(name) for name in names]
    held, waits = tables.leases.c, tables.waiters.c
    found: list[Row[Any]] = []
    for start in range(0, len(shown), CHUNK):
        chosen = shown[start : start + CHUNK]
        # The one with all columns comes first: PostgreSQL takes the types from it.
        found += c.execute(
            union_all(
                select(
                    waits.table_name,
                    waits.token,
                    waits.host,
                    waits.pid,
                    waits.process_start,
                    waits.expires_at,
                    waits.since,
                ).where(waits.table_name.in_(chosen)),
                select(
                    held.table_name,
                    held.token,
                    held.host,
                    held.pid,
                    held.process_start,
                    held.expires_at,
                    null(),
                ).where(held.table_name.in_(chosen)),
            )
        ).all()
    return sorted(
        (
            Claim(
                TableName.parse(row.table_name),
                row.token,
                row.host,
                row.pid,
                row.process_start,
                row.expires_at,
                row.since,
            )
            for row in found
        ),
        key=lambda claim: str(claim.table),
    )


def _remove(c: Connection, names: tuple[TableName, ...]) -> None:
    shown = [str(name) for name in names]
    for start in range(0, len(shown), CHUNK):
        chosen = tables.leases.c.table_name.in_(shown[start : start + CHUNK])
        c.execute(delete(tables.leases).where(chosen))


def _lives(row: Row[Any] | Claim, at: datetime) -> bool:
    owner = stages.StageRow("", row.host, row.pid, row.process_start, at)
    return stages.alive(owner, at)
