"""The catalog's rows as plain values, to be kept in a file, changed, and put into any database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import JSON, Connection, String, Table, Text, and_, select, update

from anabranch.catalog import tables

# Notes about processes, which mean nothing elsewhere.
_OF_PROCESSES = {"ab_leases", "ab_waiters", "ab_read_leases", "ab_stages"}
# Texts for people, in which a path is what it was.
_PROSE = {"ab_history", "ab_events"}
Change = Callable[[Any], Any]
Row = dict[str, Any]


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
