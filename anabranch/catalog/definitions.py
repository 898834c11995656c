"""All rows about some tables and views, taken as they are and put back: under other names, or later.

What is taken is plain JSON, so that it can be kept with a deployment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, bindparam, delete, insert, select, update

from anabranch.catalog import streams, tables
from anabranch.catalog.lineage import under_names
from anabranch.catalog.streams import all_streams, renamed, renewed
from anabranch.catalog.tables import CHUNK
from anabranch.catalog.views import all_views
from anabranch.names import TableName

KINDS: Mapping[str, tuple[Table, str]] = {  # the table, and the column that names the owner
    "streams": (tables.stream_tables, "name"),
    "views": (tables.views, "name"),
    "dependencies": (tables.dependencies, "table_name"),
    "inputs": (tables.inputs, "table_name"),
    "frontiers": (tables.frontiers, "table_name"),
}
NAMING = frozenset({"name", "table_name", "upstream", "source"})
Taken = dict[str, list[dict[str, Any]]]
V = TypeVar("V")
RECORDS = (tables.history, tables.events)  # of what happened to tables


@dataclass(frozen=True)
class Renaming:
    """Other names, other values for the rows of streams and views, other marks of views."""

    names: Mapping[str, str]
    streams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by the new name
    views: Mapping[str, str] = field(default_factory=dict)  # the new text, by the new name
    marks: Mapping[str, str] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()  # what rows say of these is left out

    def __call__(self, taken: Taken) -> Taken:
        renamed = {
            kind: [
                self._row(kind, row)
                for row in rows
                if self.gone.isdisjoint(value for key, value in row.items() if key in NAMING)
            ]
            for kind, rows in taken.items()
        }
        # A source under another name is in no cut so far: the next look finds where a table stands.
        moved = {
            self.names.get(row["table_name"], row["table_name"])
            for row in taken.get("frontiers", ())
            if row["source"] in self.names or row["source"] in self.gone
        }
        for row in renamed.get("streams", ()):
            if row["name"] in moved:
                row["cut_id"] = None
        return renamed

    def _row(self, kind: str, row: Mapping[str, Any]) -> dict[str, Any]:
        new = {
            key: self.names.get(value, value) if key in NAMING else value
            for key, value in row.items()
        }
        if kind == "streams":
            new |= self.streams.get(new["name"], {})
            told = (row["fingerprint"], new["fingerprint"])
            new["computed_from"] = renamed(row["computed_from"], *told)
            new["lineage"] = under_names(new.get("lineage"), self.names)
        if kind == "views":
            new["query"] = self.views.get(new["name"], new["query"])
        if kind == "inputs":
            location = new["metadata_location"]
            new["metadata_location"] = self.marks.get(location, location)
        return new


def take(c: Connection, names: Iterable[TableName]) -> Taken:
    """The rows of the given tables and views."""
    wanted, there, graph = sorted(set(names)), _there(c), streams.whole_graph(c)
    return {
        "streams": _rows(c, "streams", [name for name in wanted if name in there["streams"]]),
        "views": _rows(c, "views", [name for name in wanted if name in there["views"]]),
        "dependencies": streams.rows_of_dependencies(_among(wanted, graph.dependencies)),
        "inputs": streams.rows_of_inputs(_among(wanted, graph.inputs)),
        "frontiers": streams.rows_of_frontiers(_among(wanted, graph.frontiers)),
    }


def _there(c: Connection) -> Mapping[str, Collection[TableName]]:
    """What has rows of each kind."""
    graph = streams.whole_graph(c)
    return {
        "streams": all_streams(c),
        "views": all_views(c),
        "dependencies": graph.dependencies,
        "inputs": graph.inputs,
        "frontiers": graph.frontiers,
    }


def of(taken: Taken, names: Iterable[TableName]) -> Taken:
    """What was taken of some of the tables and views."""
    shown = {str(name) for name in names}
    return {
        kind: [row for row in rows if row[KINDS[kind][1]] in shown] for kind, rows in taken.items()
    }


def _rows(c: Connection, kind: str, names: Sequence[TableName]) -> list[dict[str, Any]]:
    """With all columns: who looks at every stream table or view reads fewer."""
    table, owner = KINDS[kind]
    shown = [str(name) for name in names]
    return [
        {str(key): _plain(value) for key, value in row.items()}
        for at in range(0, len(shown), CHUNK)
        for row in c.execute(
            select(table).where(table.c[owner].in_(shown[at : at + CHUNK]))
        ).mappings()
    ]


def _among(names: Iterable[TableName], found: Mapping[TableName, V]) -> dict[TableName, V]:
    return {name: found[name] for name in names if name in found}


def put(
    c: Connection,
    names: Iterable[TableName],
    taken: Mapping[str, Any],
    tokens: Mapping[str, str] | None = None,
) -> None:
    """The rows of the given tables and views become these; each definition gets another token.

    `tokens` are those to give, by name: whoever looks at what will be must see what then is.
    """
    wanted, there = sorted(set(names)), _there(c)
    for kind, (table, owner) in KINDS.items():
        gone = [str(name) for name in wanted if name in there[kind]]
        for at in range(0, len(gone), CHUNK):
            c.execute(delete(table).where(table.c[owner].in_(gone[at : at + CHUNK])))
        rows = [_typed(table, row) for row in taken.get(kind, ())]
        if kind == "streams":
            rows = [renewed(row, None if tokens is None else tokens[row["name"]]) for row in rows]
        if rows:
            c.execute(insert(table), rows)


def rename_history(c: Connection, names: Mapping[TableName, TableName]) -> None:
    """What was recorded of some tables goes on under other names: costs are learned from it."""
    pairs = [{"b_before": str(old), "b_after": str(new)} for old, new in names.items()]
    for table in RECORDS if pairs else ():
        renamed = update(table).where(table.c.table_name == bindparam("b_before"))
        c.execute(renamed.values(table_name=bindparam("b_after")), pairs)


def forget_history(c: Connection, names: Iterable[TableName]) -> None:
    """What was recorded of tables that never were to be seen goes with them."""
    rows = [{"b_name": str(name)} for name in names]
    for table in RECORDS if rows else ():
        c.execute(delete(table).where(table.c.table_name == bindparam("b_name")), rows)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _typed(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """Moments are texts in JSON; columns that a newer catalog has more are empty."""
    typed: dict[str, Any] = {}
    for column in table.columns:
        value = row.get(column.name)
        if isinstance(column.type, tables.Moment) and isinstance(value, str):
            value = datetime.fromisoformat(value)
        typed[column.name] = value
    return typed
