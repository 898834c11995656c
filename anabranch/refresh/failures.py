"""What becomes of a table whose refresh failed: when it is tried again, and when it is given up.

Every class of error says in `errors` when it is tried again, and `retry` how; here it is written down.
All of it is in the catalog, so that a restart remembers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from anabranch.catalog import cuts, events, streams, tables
from anabranch.catalog.events import Event
from anabranch.catalog.groups import homes
from anabranch.catalog.store import Connection
from anabranch.catalog.streams import MONOTONE, StreamTable
from anabranch.edition import version
from anabranch.errors import AnabranchError, Refused
from anabranch.model import Status, WaitCode
from anabranch.names import TableName
from anabranch.retry import LONGEST_DELAY, delay

if TYPE_CHECKING:
    from anabranch.refresh.observe import CatalogState


@dataclass(frozen=True)
class Failure:
    """The table whose refresh failed, and why; nothing of its set was published.

    `members` are the tables that failed with it: the other members of its component.
    """

    table: TableName
    error: AnabranchError
    duration_ms: int
    members: tuple[TableName, ...] = ()

    @property
    def failed(self) -> tuple[TableName, ...]:
        return self.members or (self.table,)


def mark(state: CatalogState, name: TableName) -> str:
    """What the outcome of a refresh depends on: the query, the state of all it reads and the version
    of Anabranch, which plans it; in a cycle those of all members."""
    home = homes(tuple(state.reads.items())).get(name)
    parts: list[str] = [version()]
    for member in home.members if home is not None else (name,):
        stream = state.streams[member]
        parts += [stream.query, stream.refresh_mode.value]
        parts += [f"{source}={state.mark(source)}" for source in state.reads.get(member, ())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def hindrance(state: CatalogState, name: TableName, now: datetime) -> tuple[WaitCode, str] | None:
    """Why a table must not be refreshed now, also in words for people."""
    stream = state.streams[name]
    if stream.status is Status.SUSPENDED:
        return WaitCode.SUSPENDED, f"{name} is suspended"
    if stream.next_retry_at is not None and now < stream.next_retry_at:
        seconds = (stream.next_retry_at - now).total_seconds()
        if seconds > LONGEST_DELAY:
            return None  # written by a clock that was ahead
        said = f"{name} failed and is retried in {max(seconds, 0.1):.1f} s"
        return WaitCode.BACKING_OFF, said
    if stream.failed_mark is not None and stream.failed_mark == mark(state, name):
        said = f"{name} failed and is not retried until its query or a source changes"
        return WaitCode.AWAITING_CHANGE, said
    return None


def busy(name: TableName) -> tuple[WaitCode, str]:
    """The same for one that somebody else holds the lease of."""
    return WaitCode.BUSY, f"{name} is being refreshed by another process"


def note(
    c: Connection,
    state: CatalogState,
    failure: Failure,
    most: int | None,
    at: datetime | None = None,
) -> None:
    """Write the failure down; `most` failures in a row suspend, if a limit is given."""
    moment = at or tables.now(c)
    cuts.hold(c)  # SUSPEND queues up here as well
    for name in failure.failed:
        stream = streams.get(c, name)
        if stream is not None and not suspended_by_hand(stream):
            changes = after(state, stream, failure, most, moment)
            streams.change(c, name, **changes)
            events.add(c, _event(stream, changes))


def suspended_by_hand(stream: StreamTable) -> bool:
    """While its refresh was running, perhaps: it stays so, and the history tells of the failure."""
    return stream.status is Status.SUSPENDED and not stream.consecutive_errors


def after(
    state: CatalogState, stream: StreamTable, failure: Failure, most: int | None, moment: datetime
) -> dict[str, Any]:
    errors = stream.consecutive_errors + 1
    again = failure.error.retryable
    given_up = again and most is not None and errors >= most
    stopped = stream.status is Status.SUSPENDED  # a refresh that was asked for failed as well
    known = stream.name in state.streams
    broken = isinstance(failure.error, Refused) and failure.error.not_monotone
    return {
        **({"options": {**stream.options, MONOTONE: False}} if broken else {}),
        "status": Status.SUSPENDED if given_up or stopped else Status.ERROR,
        "consecutive_errors": errors,
        "last_error": str(failure.error),
        "next_retry_at": moment + timedelta(seconds=delay(errors)) if again else None,
        "failed_mark": mark(state, stream.name) if known and not again else None,
    }


def _event(stream: StreamTable, changes: dict[str, Any]) -> Sequence[Event]:
    if changes["status"] is not Status.SUSPENDED or stream.status is Status.SUSPENDED:
        return ()
    said = (
        f"suspended after {changes['consecutive_errors']} failures in a row; "
        f"ALTER STREAM TABLE {stream.name} RESUME re-enables it"
    )
    return (Event(stream.name, events.SUSPENDED, said),)


FORGIVEN: dict[str, Any] = {
    "consecutive_errors": 0,
    "last_error": None,
    "next_retry_at": None,
    "failed_mark": None,
}
