"""What a roll-back puts back: whatever is still as the deployment left it, and nothing else.

A deployment changes some values from `before` to `left`.  Where a value is `now` another one, somebody
has changed it since, and theirs stays.  Options, comments, indexes and clusters all go by this rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from anabranch.catalog import events, streams
from anabranch.catalog.bounds import BOUNDS
from anabranch.catalog.deployment_state import Option, Options, Undo
from anabranch.catalog.events import Event
from anabranch.catalog.indexes import Index
from anabranch.catalog.store import Connection
from anabranch.catalog.streams import StreamTable
from anabranch.model import Columns, RefreshMode
from anabranch.names import TableName

V = TypeVar("V")
OPTIONS = (
    "schedule", "diamond_consistency", "diamond_schedule_policy", "cluster", "refresh_mode", *BOUNDS,
)  # fmt: skip
OF_THE_QUERY = frozenset({"refresh_mode"})  # chosen for a query: it goes where the query goes
KEPT = "{what} changed since the deployment that was rolled back, and stays as it is"


def put_back(
    before: Mapping[str, V], left: Mapping[str, V], now: Mapping[str, V]
) -> tuple[dict[str, V], list[str]]:
    """The values to have, and whose values stay because they are not what was left."""
    other = (key for key in {*left, *now} if now.get(key) != left.get(key))
    kept = sorted(key for key in other if now.get(key) != before.get(key))
    wanted = {key: value for key, value in before.items() if key not in kept}
    return wanted | {key: now[key] for key in kept if key in now}, kept


def options_of(stream: StreamTable) -> dict[str, Option]:
    """What somebody may set, as plain JSON; `created_at` tells two tables of one name apart."""
    values = {name: getattr(stream, name) for name in OPTIONS}
    plain = {**values, "refresh_mode": stream.refresh_mode.value}
    return plain | {"created_at": stream.created_at.isoformat()}


def options_left(c: Connection, names: Iterable[TableName]) -> dict[TableName, dict[str, Option]]:
    known = streams.all_streams(c)
    return {name: options_of(known[name]) for name in names if name in known}


def set_options(c: Connection, undo: Undo, tokens: Mapping[str, str]) -> list[Event]:
    """Options of tables that stay: those that nobody touched since become what they were."""
    said: list[Event] = []
    for name, values in undo.metadata.items():
        stream = streams.get(c, name)
        if stream is None:
            continue
        now = options_of(stream)
        left = undo.options_left.get(name, now)
        if now["created_at"] != left["created_at"]:
            said.append(
                Event(name, events.OPTIONS_KEPT, KEPT.format(what="the table was recreated"))
            )
            continue
        wanted, kept = put_back(values, *({key: of[key] for key in values} for of in (left, now)))
        typed = {**wanted, "refresh_mode": RefreshMode(str(wanted["refresh_mode"]))}
        streams.change(c, name, **typed, definition=tokens[str(name)])
        said += told(name, kept)
    return said


def by_hand(c: Connection, undo: Undo, names: Iterable[TableName]) -> dict[TableName, Options]:
    """Options that somebody gave since to tables that will be replaced: they outlive the query."""
    found: dict[TableName, Options] = {}
    for name, now in options_left(c, names).items():
        left = undo.options_left.get(name)
        if left is None or now["created_at"] != left["created_at"]:
            continue
        changed = {
            key: now[key] for key in OPTIONS if key not in OF_THE_QUERY and now[key] != left[key]
        }
        if changed:
            found[name] = changed
    return found


def hand_over(
    c: Connection, changed: Mapping[TableName, Options], tokens: Mapping[str, str]
) -> list[Event]:
    """Give the tables that came back what somebody had set."""
    said: list[Event] = []
    for name, values in changed.items():
        if streams.change(c, name, **values, definition=tokens[str(name)]):
            said += told(name, sorted(values))
    return said


def told(name: TableName, kept: Sequence[str]) -> list[Event]:
    if not kept:
        return []
    return [Event(name, events.OPTIONS_KEPT, KEPT.format(what=f"{', '.join(kept)} was"))]


def indexes_back(
    table: TableName,
    undo: Undo,
    now: Iterable[Index],
    columns: Columns,
) -> tuple[Index, ...]:
    """The indexes that a table had, and those that somebody made since, as far as columns allow."""
    before = {each.name: each for each in undo.indexes[table]}
    here = {each.name: each for each in now}
    left = here
    if undo.indexes_left is not None:
        left = {each.name: each for each in undo.indexes_left.get(table, ())}
    wanted, _ = put_back(before, left, here)
    known = {column.name for column in columns}
    return tuple(wanted[name] for name in sorted(wanted) if known.issuperset(wanted[name].columns))
