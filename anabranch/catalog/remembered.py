"""Rows that a transaction has read already, and not changed since, are not asked for once more.

A statement is a round trip to a server, and a publish of a deployment has many steps that each look at
all stream tables or all views.  A transaction that reads sees one snapshot anyway.  One that writes
forgets what it read of a table when it writes to that table.  When it may have waited for somebody,
whose work is visible then, it forgets whatever that one may have written: everything before it has the
lock of a publish, and after that only what is written without the lock.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

from sqlalchemy import Connection, Table

from anabranch.catalog import tables

_READ = "anabranch_read"  # in `info` of a connection: what its transaction has read
_WRITES = re.compile(r"\s*(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)")
_LOCK = tables.meta.name  # who writes to it, or reads it for an update, has the lock of a publish
_READS = re.compile(r"\s*(?:SELECT|WITH|VALUES|PRAGMA)\b")
# Rows that are written behind the lock of a publish: who has it waits for nobody to write them.
_BEHIND_THE_LOCK = frozenset(
    each.name
    for each in (
        *(tables.stream_tables, tables.dependencies, tables.inputs, tables.frontiers),
        *(tables.views, tables.view_versions, tables.versions, tables.cuts, tables.shapes),
        *(tables.snapshots, tables.history, tables.events, tables.refresh_groups, tables.indexes),
        *(tables.clusters, tables.deployed, tables.deployed_schemas),
    )
)
_STAYS = _BEHIND_THE_LOCK | {_LOCK}  # while somebody else is waited for
T = TypeVar("T")
Ask = Callable[[Connection], T]


@dataclass
class _Reads:
    """`alone`: nobody else can change rows of ours until the transaction ends."""

    alone: bool
    answers: dict[Ask[Any], tuple[frozenset[str], Any]] = field(default_factory=dict)


def begin(c: Connection) -> None:
    """A new transaction knows nothing; one that writes to SQLite is alone from its beginning."""
    c.info[_READ] = _Reads(c.dialect.name == "sqlite")


def note(c: Connection, statement: str) -> None:
    """What a statement may have changed is read again."""
    reads: _Reads | None = c.info.get(_READ)
    if reads is None:
        return
    written = _WRITES.match(statement)
    name = _LOCK if written is None else written.group(1)
    if reads.alone and name != _LOCK:
        waited = name not in _BEHIND_THE_LOCK
        reads.answers = {
            ask: found
            for ask, found in reads.answers.items()
            if name not in found[0] and (not waited or found[0] <= _STAYS)
        }
    elif not _READS.match(statement) or "FOR UPDATE" in statement:
        reads.answers = {}
        reads.alone = reads.alone or _LOCK in statement


def once(*read: Table) -> Callable[[Ask[T]], Ask[T]]:
    """A function that reads whole tables of ours asks once in a transaction."""
    names = frozenset(table.name for table in read)

    def decorate(ask: Ask[T]) -> Ask[T]:
        @wraps(ask)
        def asked(c: Connection) -> T:
            reads: _Reads | None = c.info.get(_READ)
            if reads is None:
                return ask(c)
            if ask not in reads.answers:
                reads.answers[ask] = (names, ask(c))
            found: T = reads.answers[ask][1]
            return copy(found)

        asked.__dict__.update(ask=ask, read=names)
        return asked

    return decorate


def tell(c: Connection, asked: Ask[T], found: T) -> None:
    """The transaction has learned the answer of such a function by another question."""
    reads: _Reads | None = c.info.get(_READ)
    if reads is not None and (ask := getattr(asked, "ask", None)) is not None:
        reads.answers[ask] = (asked.__dict__["read"], found)


def known(c: Connection, asked: Ask[T]) -> T | None:
    """The answer of such a function, if the transaction has it already."""
    reads: _Reads | None = c.info.get(_READ)
    ask = getattr(asked, "ask", None)  # a test may have put another function in its place
    if reads is None or ask not in reads.answers:
        return None
    found: T = reads.answers[ask][1]
    return found
