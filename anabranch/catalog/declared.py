"""What people declared, and no file of a table tells: rows that a lost catalog gets back.

Stream tables, views, refresh groups, indexes and clusters, as they are declared and not where they
stand: what rows follow, when they were refreshed and what was read is left out, so that whoever gets
them back recomputes everything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, insert, select

from anabranch.catalog import tables
from anabranch.catalog.indexes import Index
from anabranch.catalog.rows import typed, with_plain_values
from anabranch.catalog.streams import new_token
from anabranch.model import Status
from anabranch.names import TableName

_DECLARES = (
    *("query", "refresh_mode", "schedule", "diamond_consistency"),
    *("diamond_schedule_policy", "cluster", "max_fixpoint_iterations", "max_fixpoint_rows"),
    *("max_fixpoint_time", "created_at"),
)
_WHOLE = (tables.clusters, tables.views, tables.refresh_groups, tables.indexes)
_OTHERS = "|".join(each.name for each in _WHOLE)
_STREAMS = tables.stream_tables.name
# A refresh changes rows of stream tables as well, and declares nothing.
_SETS = "|".join(_DECLARES)
_CHANGES = re.compile(
    rf"(?:INSERT INTO|UPDATE|DELETE FROM) (?:{_OTHERS})\b"
    rf"|(?:INSERT INTO|DELETE FROM) (?:{_STREAMS}|{tables.iceberg_tables.name})\b"
    rf"|UPDATE {_STREAMS} SET (?:.*, )?\"?(?:{_SETS})\"?="
)
Row = dict[str, Any]
Declared = Mapping[str, Sequence[Row]]


def declares(statement: str) -> bool:
    """Whether a statement changes what is declared, or which tables there are."""
    return bool(_CHANGES.match(statement))


def dump(c: Connection) -> dict[str, list[Row]]:
    """All of it, by table, as plain values; but what a deployment has staged."""
    staged = tuple(f"__{id_}" for id_ in c.execute(select(tables.deployments.c.id)).scalars())
    dumped = {
        each.name: with_plain_values(c.execute(select(each).order_by(*each.primary_key)))
        for each in (*_WHOLE, tables.dependencies)
    }
    table = tables.stream_tables
    columns = [table.c[name] for name in ("name", *_DECLARES)]
    dumped[_STREAMS] = with_plain_values(c.execute(select(*columns).order_by(table.c.name)))
    return {
        name: [row for row in rows if not _is_staged(row, staged)] for name, rows in dumped.items()
    }


def _is_staged(row: Row, suffixes: tuple[str, ...]) -> bool:
    name = row.get("table_name") or row["name"]
    return bool(suffixes) and any(suffix in name for suffix in suffixes)


def streams_in(declared: Declared) -> frozenset[TableName]:
    return frozenset(TableName.parse(row["name"]) for row in declared.get(_STREAMS, ()))


def views_in(declared: Declared) -> frozenset[TableName]:
    return frozenset(TableName.parse(row["name"]) for row in declared.get(tables.views.name, ()))


def indexes_in(declared: Declared) -> frozenset[TableName]:
    """The tables that hold the sorted copies."""
    rows = declared.get(tables.indexes.name, ())
    return frozenset(
        Index(TableName.parse(row["table_name"]), row["name"], ()).copy for row in rows
    )


def put(c: Connection, declared: Declared, filled: Collection[TableName]) -> None:
    """Into a catalog that has none; `filled` are the tables that have rows, of whatever age."""
    shown = {str(name) for name in filled}
    for each in (*_WHOLE, tables.dependencies):
        rows = declared.get(each.name, ())
        if each is tables.indexes:
            rows = [row for row in rows if row["table_name"] in shown]
        _put(c, each, rows)
    _put(
        c,
        tables.stream_tables,
        [_unread(r, r["name"] in shown) for r in declared.get(_STREAMS, ())],
    )


def _unread(row: Row, populated: bool) -> Row:
    """A stream table of which nothing says what its rows follow."""
    status = Status.ACTIVE if populated else Status.INITIALIZING
    return {
        **row,
        "fingerprint": "",
        "status": status.value,
        "populated": populated,
        "consecutive_errors": 0,
        "options": {},
        "definition": new_token(),
    }


def _put(c: Connection, table: Table, rows: Sequence[Row]) -> None:
    if rows:
        c.execute(insert(table), [typed(table, row) for row in rows])
