"""Verbs for stream tables: declare, refresh, group, and look how they are maintained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any

from anabranch.clusters import known
from anabranch.names import TableName
from anabranch.refresh import explain as explaining
from anabranch.refresh import lineage as lineages
from anabranch.refresh import run as by_hand
from anabranch.refresh import verify as verifying
from anabranch.scheduler import loop
from anabranch.session import Session, uncompared
from anabranch.tables import refresh_groups as declared_groups
from anabranch.tables import stream_tables as tables
from anabranch.tables.drop import Kind, drop
from anabranch.tables.options import read_options, with_defaults

Rows = list[dict[str, Any]]
Options = Mapping[str, Any]  # what a user says of a stream table besides its query
AROUND = "do it before or after"
ACTIVE, SUSPENDED = "ACTIVE", "SUSPENDED"


def create_stream_table(
    session: Session,
    name: str,
    query: str,
    options: Options,
    *,
    if_not_exists: bool = False,
    or_replace: bool = False,
) -> None:
    declared = _declared(session, name, query, options)
    tables.create(session.runtime, declared, if_not_exists=if_not_exists, or_replace=or_replace)


def create_stream_tables(session: Session, queries: Sequence[tuple[str, str, Options]]) -> None:
    """Names, queries and options of tables that may read each other: all of them or none."""
    declared = [_declared(session, *each) for each in queries]
    tables.create_all(session.runtime, declared)


def _declared(session: Session, name: str, query: str, options: Options) -> tables.Declaration:
    said = with_defaults(options, session.settings)
    known(session.store, said.get("cluster"))
    return tables.Declaration(TableName.parse(name), _text(query), **said)


def _text(query: str) -> str:
    return str(query).strip().rstrip(";")


def alter_stream_table(
    session: Session,
    name: str,
    options: Options,
    *,
    query: str | None = None,
    status: str | None = None,
) -> None:
    """Change the options that are given, the query and the status; leave the rest."""
    table = TableName.parse(name)
    changes = read_options(options, session.settings, altering=True)
    known(session.store, changes.get("cluster"))
    if status is not None:
        tables.read_status(status)  # refused before anything is changed
    if query is not None:
        changes["query"] = _text(query)
    if changes:
        tables.alter(session.runtime, table, changes)
    if status is not None:
        tables.set_status(session.runtime, table, status)


def drop_stream_table(
    session: Session, name: str, cascade: bool = False, *, if_exists: bool = False
) -> str | None:
    """What was dropped with it, in words; None if nothing was."""
    table = TableName.parse(name)
    gone = drop(session.runtime, table, Kind.STREAM, cascade=cascade, if_exists=if_exists)
    return str(gone) if gone else None


def suspend(session: Session, name: str) -> None:
    alter_stream_table(session, name, {}, status=SUSPENDED)


def resume(session: Session, name: str) -> None:
    alter_stream_table(session, name, {}, status=ACTIVE)


# -- refreshes -----------------------------------------------------------------------------------


def refresh(session: Session, name: str | None = None, *, full: bool = False) -> Rows:
    names = None if name is None else [TableName.parse(name)]
    return by_hand.refresh(session.runtime, names, full=full)


def tick(session: Session) -> Rows:
    return session.scheduler.tick()


def run(
    session: Session,
    *,
    ticks: int | None = None,
    stop: Event | None = None,
    abandon: Event | None = None,
    watch: Callable[[Sequence[dict[str, Any]]], None] | None = None,
) -> int:
    """Tick until `stop` is set; `abandon` also gives up what is under way; `watch` is told of ticks."""
    return loop.run(
        session.runtime,
        stop or Event(),
        ticks=ticks,
        abandoned=(abandon or Event()).is_set,
        watch=watch,
    )


# -- refresh groups ------------------------------------------------------------------------------


def create_refresh_group(
    session: Session,
    name: str,
    members: str | Sequence[str],
    isolation: str = "repeatable_read",
    snapshot_timeout_ms: int = 0,
) -> None:
    declared_groups.create_refresh_group(
        session.runtime, name, _names(members), isolation, snapshot_timeout_ms
    )


def alter_refresh_group(
    session: Session,
    name: str,
    *,
    add: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    isolation: str | None = None,
    snapshot_timeout_ms: int | None = None,
) -> None:
    session.refuse_in_transaction("a refresh group cannot be altered", AROUND)
    declared_groups.alter_refresh_group(
        session.runtime,
        name,
        add=_names(add),
        drop=_names(drop),
        isolation=isolation,
        snapshot_timeout_ms=snapshot_timeout_ms,
    )


def drop_refresh_group(session: Session, name: str, *, if_exists: bool = False) -> None:
    session.refuse_in_transaction("a refresh group cannot be dropped", AROUND)
    declared_groups.drop_refresh_group(session.runtime, name, if_exists=if_exists)


def _names(given: str | Sequence[str]) -> list[TableName]:
    return [TableName.parse(each) for each in ([given] if isinstance(given, str) else given)]


# -- looking -------------------------------------------------------------------------------------


@uncompared
def explain(session: Session, name: str, *, rules: bool = False) -> str:
    return explaining.explain(session.runtime, TableName.parse(name), rules=rules)


@uncompared
def verify(session: Session, name: str) -> dict[str, Any]:
    return verifying.verify(session.runtime, TableName.parse(name))


@uncompared
def lineage(
    session: Session, name: str, column: str | None = None, *, to_sources: bool = False
) -> Rows:
    return lineages.lineage(session.runtime, TableName.parse(name), column, to_sources=to_sources)
