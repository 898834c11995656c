"""Refresh many stream tables: stage those that belong together, publish them as one cut."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anabranch.catalog import events, history, streams, tables
from anabranch.catalog import views as view_rows
from anabranch.catalog.history import COMPLETED, FAILED, SKIPPED, Refresh
from anabranch.catalog.store import Connection
from anabranch.catalog.streams import StreamTable
from anabranch.errors import AnabranchError, InternalError, PublishConflict, Refused, UnknownName
from anabranch.graph.order import closure, connected, dependants
from anabranch.model import Action, Status
from anabranch.names import TableName
from anabranch.refresh.apply import Outcome, refresh_table
from anabranch.refresh.look import Look, look
from anabranch.runtime import ATTEMPTS, Runtime, Transaction
from anabranch.world import World

MANUAL = "manual"


@dataclass(frozen=True)
class Failure:
    """The table whose refresh failed, and why; nothing of its set was published."""

    table: TableName
    error: AnabranchError
    duration_ms: int


def refresh(
    runtime: Runtime, names: Iterable[TableName] | None = None, initiated_by: str = MANUAL
) -> list[dict[str, Any]]:
    """Bring stream tables up to date: all, or the given ones with everything they read.

    Tables that read each other move together or not at all.  A failure leaves its own set as it was
    and is raised after the others are done.
    """
    if runtime.transaction is not None:
        raise Refused("a refresh cannot run inside a transaction", hint="refresh after it")
    chosen = None if names is None else [resolve(runtime, name) for name in names]
    results: list[Refresh] = []
    failures: list[Failure] = []
    seen = look_now(runtime)
    order = seen.order(chosen)
    if chosen is not None:
        refuse_suspended(seen, order)
    waiting = blocked(seen, order)
    results += record_blocked(runtime, waiting, initiated_by)
    order = [name for name in order if name not in waiting and not suspended(seen, name)]
    stale = set(seen.stale(order))
    parts = connected(order, seen.reads)
    idle = [part for part in parts if not stale.intersection(part)]
    results += record_idle(runtime, [name for part in idle for name in part], initiated_by)
    for part in parts:
        if stale.intersection(part):
            done, failure = refresh_part(runtime, part, initiated_by)
            results += done
            failures += [failure] if failure else []
    if failures:
        raise failures[0].error
    place = {name: at for at, name in enumerate(order)}
    results.sort(key=lambda refresh: place.get(refresh.table, 0))
    return [shown(result) for result in results]


def look_now(runtime: Runtime) -> Look:
    with runtime.store.reading() as c:
        return look(c, runtime.lake)


def world_of(runtime: Runtime, seen: Look) -> World:
    return World(runtime.lake, runtime.spark, seen.pointers, seen.views)


def resolve(runtime: Runtime, name: TableName) -> TableName:
    """The name of a stream table as it is kept."""
    with runtime.store.reading() as c:
        known = streams.all_streams(c)
    found = alike(name, known)
    if found is None:
        raise UnknownName(
            f"there is no stream table {name}", name=str(name), known=[str(each) for each in known]
        )
    return found


def alike(name: TableName, known: Collection[TableName]) -> TableName | None:
    """The name itself, else the only one that differs in case."""
    if name in known:
        return name
    found = [other for other in known if str(other).lower() == str(name).lower()]
    return found[0] if len(found) == 1 else None


def suspended(seen: Look, name: TableName) -> bool:
    return seen.streams[name].status is Status.SUSPENDED


def refuse_suspended(seen: Look, order: Sequence[TableName]) -> None:
    for name in order:
        if suspended(seen, name):
            raise Refused(f"{name} is suspended", hint=f"ALTER STREAM TABLE {name} RESUME")


def blocked(seen: Look, order: Sequence[TableName]) -> dict[TableName, TableName]:
    """Tables that read a suspended one, and which: with it they would mix two versions."""
    readers = dependants(seen.reads)
    return {
        reader: name
        for name in order
        if suspended(seen, name)
        for reader in closure([name], readers)
        if reader in seen.streams and not suspended(seen, reader)
    }


def record_blocked(
    runtime: Runtime, waiting: Mapping[TableName, TableName], initiated_by: str
) -> list[Refresh]:
    lines = [
        Refresh(
            name, Action.SKIP, SKIPPED, reason=f"{for_} is suspended", initiated_by=initiated_by
        )
        for name, for_ in sorted(waiting.items())
    ]
    if lines:
        with runtime.store.writing() as c:
            history.add(c, lines)
    return lines


def record_idle(runtime: Runtime, names: Sequence[TableName], initiated_by: str) -> list[Refresh]:
    """Nothing changed: a line of history each, in one statement."""
    lines = [
        Refresh(
            name,
            Action.NO_DATA,
            COMPLETED,
            reason="no change in the sources",
            initiated_by=initiated_by,
        )
        for name in names
    ]
    if lines:
        with runtime.store.writing() as c:
            history.add(c, lines)
            streams.touch(c, names, tables.now())
    return lines


def refresh_part(
    runtime: Runtime, part: Sequence[TableName], initiated_by: str
) -> tuple[list[Refresh], Failure | None]:
    """Tables that belong together: computed on one look at the world, published once."""
    for attempt in range(ATTEMPTS):
        seen = look_now(runtime)
        part = seen.order(part)  # a view that was replaced may have changed the order
        tx = Transaction(world_of(runtime, seen))
        try:
            done, failure = stage_part(runtime, tx, part, seen)
            if failure is None:
                lines = publish_part(runtime, tx, done, initiated_by)
                return lines, None
            tx.abandon()
            return record_failure(runtime, part, failure, initiated_by), failure
        except PublishConflict as conflict:
            # The delta was computed against a state that is gone: compute it anew, never move it.
            if attempt == ATTEMPTS - 1:
                failed = Failure(part[-1], conflict, 0)
                return record_failure(runtime, part, failed, initiated_by), failed
        except BaseException:
            tx.abandon()
            raise
    raise InternalError("unreachable")


def stage_part(
    runtime: Runtime, tx: Transaction, part: Sequence[TableName], seen: Look
) -> tuple[list[Outcome], Failure | None]:
    """Refresh each member, upstreams first, into the stage."""
    done: dict[TableName, Outcome] = {}
    for name in part:
        stream = seen.streams.get(name)
        if stream is None:  # dropped meanwhile
            continue
        runtime.progress("refresh_started", {"table": str(name)})
        start = time.perf_counter()
        try:
            outcome = refresh_table(runtime, tx, seen, stream, done)
        except PublishConflict:
            raise
        except Exception as error:
            return list(done.values()), Failure(name, named(error, name), _ms(start))
        done[name] = replace(outcome, duration_ms=_ms(start))
        facts = {
            "table": str(name),
            "action": outcome.action.value,
            "duration_ms": _ms(start),
        }
        runtime.progress("refresh_finished", facts)
    return list(done.values()), None


def named(error: Exception, table: TableName) -> AnabranchError:
    """The error with the table's name; one that is not ours is a bug of ours."""
    if not isinstance(error, AnabranchError):
        found = InternalError(f"{table}: {type(error).__name__}: {error}")
        found.__cause__ = error
        return found
    if str(table) not in error.message:
        error.message = f"{table}: {error.message}"
        error.args = (error.message,)
    return error


def publish_part(
    runtime: Runtime, tx: Transaction, done: Sequence[Outcome], initiated_by: str
) -> list[Refresh]:
    lines: list[Refresh] = []

    def rows(c: Connection, cut_id: int | None) -> None:
        lines[:] = write_lines(c, cut_id, tx, done, initiated_by)

    tx.later(rows)
    cut_id = tx.publish("refresh")
    runtime.progress("published", {"cut_id": cut_id})
    return lines


def write_lines(
    c: Connection, cut_id: int | None, tx: Transaction, done: Sequence[Outcome], initiated_by: str
) -> list[Refresh]:
    """Every outcome into the catalog, inside the transaction that publishes it."""
    check_views(c, tx, done)
    lines = []
    for outcome in done:
        write_outcome(c, tx, outcome)
        lines.append(outcome.line(cut_id, initiated_by))
    history.add(c, lines)
    events.add(c, [outcome.event for outcome in done if outcome.event is not None])
    return lines


def check_views(c: Connection, tx: Transaction, done: Sequence[Outcome]) -> None:
    """Views have no pointer to compare: one that was replaced meanwhile is noticed by its text."""
    read = {name for outcome in done for name in outcome.reads if name in tx.world.views}
    now = view_rows.all_views(c) if read else {}
    for view in sorted(read):
        if now.get(view) != tx.world.views[view]:
            raise PublishConflict(
                f"view {view} was changed by another process", hint="run it again"
            )


def write_outcome(c: Connection, tx: Transaction, outcome: Outcome) -> None:
    """What the table has read, where it stands, and that it is well."""
    name = outcome.table
    stream = streams.get(c, name)
    stays = stream is not None and stream.status is Status.SUSPENDED
    streams.set_inputs(c, {name: outcome.inputs})
    streams.set_frontiers(c, {name: outcome.frontier})
    streams.set_dependencies(c, {name: outcome.reads})
    streams.change(
        c,
        name,
        populated=True,
        status=Status.SUSPENDED if stays else Status.ACTIVE,
        fingerprint=outcome.fingerprint,
        options=outcome.options,
        consecutive_errors=0,
        last_error=None,
        last_refresh_at=tables.now(),
    )


def record_failure(
    runtime: Runtime, part: Sequence[TableName], failure: Failure, initiated_by: str
) -> list[Refresh]:
    """The failed table says why; the others of its set say whom they wait for."""
    lines = [
        Refresh(
            name,
            Action.SKIP,
            FAILED if name == failure.table else SKIPPED,
            reason=None if name == failure.table else f"{failure.table} failed",
            error=str(failure.error) if name == failure.table else None,
            duration_ms=failure.duration_ms if name == failure.table else 0,
            initiated_by=initiated_by,
        )
        for name in part
    ]
    with runtime.store.writing() as c:
        history.add(c, lines)
        stream = streams.get(c, failure.table)
        if stream is not None:
            streams.change(c, failure.table, **_failed(stream, failure))
    return lines


def _failed(stream: StreamTable, failure: Failure) -> dict[str, Any]:
    return {
        "status": Status.ERROR,
        "consecutive_errors": stream.consecutive_errors + 1,
        "last_error": str(failure.error),
    }


def shown(line: Refresh) -> dict[str, Any]:
    return {**vars(line), "table": str(line.table), "action": line.action.value}


def _ms(start: float) -> int:
    return round((time.perf_counter() - start) * 1000)
