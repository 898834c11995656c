"""Where the columns of stream tables come from, kept with their definitions.

A record is JSON: `columns` lists a name, what it is computed from and what else decides about it, each
as pairs of table and column; `decides` is what decides about all columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from anabranch.catalog import tables
from anabranch.catalog.tables import CHUNK
from anabranch.names import TableName

Record = Mapping[str, Any]


def set_lineage(c: Connection, records: Mapping[TableName, Record]) -> None:
    rows = [{"b_name": str(name), "b_record": dict(record)} for name, record in records.items()]
    if rows:
        own = tables.stream_tables.c.name == bindparam("b_name")
        statement = update(tables.stream_tables).where(own)
        c.execute(statement.values(lineage=bindparam("b_record")), rows)


def lineage_of(c: Connection, names: Iterable[TableName]) -> dict[TableName, Record | None]:
    """Stream tables among the given; None for one that was declared before this was kept."""
    columns = tables.stream_tables.c
    shown = sorted({str(name) for name in names})
    return {
        TableName.parse(row.name): row.lineage
        for at in range(0, len(shown), CHUNK)
        for row in c.execute(
            select(columns.name, columns.lineage).where(columns.name.in_(shown[at : at + CHUNK]))
        )
    }


def under_names(record: Record | None, names: Mapping[str, str]) -> Record | None:
    """The same with tables under other names."""
    if record is None:
        return None

    def renamed(pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
        return [[names.get(table, table), column] for table, column in pairs]

    columns = [[name, *map(renamed, flows)] for name, *flows in record["columns"]]
    return {"columns": columns, "decides": renamed(record["decides"])}
