"""The catalog's rows as plain values, to be kept in a file, changed, and put into any database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Connection,
    Result,
    String,
    Table,
    Text,
    and_,
    delete,
    func,
    insert,
    null,
    select,
    update,
)

from anabranch.catalog import tables

# Notes about processes and machines, which mean nothing elsewhere.
_OF_PROCESSES = {"ab_leases", "ab_waiters", "ab_read_leases", "ab_stages", "ab_boots"}
# Texts for people, in which a path is what it was.
_PROSE = {"ab_history", "ab_events", "ab_upkeep"}
# Columns that catalogs had until a migration dropped them.
_DROPPED = {"ab_meta.layout"}
Change = Callable[[Any], Any]
Row = dict[str, Any]


def dump(c: Connection) -> dict[str, list[Row]]:
    """All rows that outlive processes, by table, as plain values."""
    found = {}
    for table in tables.metadata.sorted_tables:
        if table.name not in _OF_PROCESSES:
            found[table.name] = with_plain_values(c.execute(select(table)))
    return found


def with_plain_values(rows: Result[Any]) -> list[Row]:
    return [{str(key): _plain(value) for key, value in row.items()} for row in rows.mappings()]


def load(c: Connection, dumped: Mapping[str, Sequence[Row]]) -> None:
    """Put dumped rows into a catalog that has none; its own identity stays."""
    for table in tables.metadata.sorted_tables:
        rows = [typed(table, row) for row in dumped.get(table.name, ())]
        if table is tables.meta:
            c.execute(update(table).values(cut=rows[0]["cut"], created_at=rows[0]["created_at"]))
        elif rows:
            c.execute(insert(table), rows)
            _count_on(c, table)


def put_back(c: Connection, dumped: Mapping[str, Sequence[Row]]) -> None:
    """Dumped rows in place of those that a catalog has."""
    for table in reversed(tables.metadata.sorted_tables):
        if table is not tables.meta and table.name not in _OF_PROCESSES:
            c.execute(delete(table))
    load(c, dumped)


def unknown_parts(dumped: Mapping[str, Sequence[Row]]) -> list[str]:
    """Tables and columns that a newer Anabranch has dumped, and this one does not know."""
    known = {each.name: set(each.columns.keys()) for each in tables.metadata.sorted_tables}
    return sorted(
        {name for name in dumped if name not in known}
        | {f"{n}.{key}" for n, rows in dumped.items() for row in rows[:1] for key in row}
        - {f"{n}.{key}" for n, keys in known.items() for key in keys}
        - _DROPPED
    )


def is_empty(c: Connection) -> bool:
    """Whether nothing was ever put into the catalog."""
    noise = (tables.meta, tables.boots)  # whoever opens a catalog leaves these
    found = (each for each in tables.metadata.sorted_tables if each not in noise)
    return all(c.execute(select(table).limit(1)).first() is None for table in found)


def _count_on(c: Connection, table: Table) -> None:
    """PostgreSQL's counters go on after the numbers that were put in."""
    (key, *others) = table.primary_key.columns
    if others or c.dialect.name == "sqlite" or not isinstance(key.type, BigInteger):
        return
    place = select(func.pg_get_serial_sequence(table.name, key.name)).scalar_subquery()
    if c.execute(select(place)).scalar_one() is not None:
        newest = select(func.max(key)).scalar_subquery()
        c.execute(select(func.setval(place, newest)))


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def typed(table: Table, row: Row) -> Row:
    """A row with all columns; moments are read, and what an older Anabranch did not know is empty."""
    values = {}
    for column in table.columns:
        value = row.get(column.name)
        if isinstance(column.type, tables.Moment) and value is not None:
            value = datetime.fromisoformat(value)
        elif isinstance(column.type, JSON) and value is None:
            value = null()
        values[column.name] = value
    return values


def change_values(c: Connection, change: Change) -> int:
    """Change texts in all rows, as `change` says; how many rows did."""
    changed = 0
    for table in tables.metadata.sorted_tables:
        if table.name not in _PROSE | _OF_PROCESSES:
            changed += _change_rows(c, table, change)
    return changed


def _change_rows(c: Connection, table: Table, change: Change) -> int:
    texts = [each.name for each in table.columns if isinstance(each.type, (String, Text, JSON))]
    changed = 0
    for row in c.execute(select(table)).mappings().all():
        new = {name: after for name in texts if (after := change(row[name])) != row[name]}
        if new:
            here = and_(*(column == row[column.name] for column in table.primary_key))
            c.execute(update(table).where(here).values(**new))
            changed += 1
    return changed
