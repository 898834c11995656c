"""Indexes: which sorted copies a table has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from anabranch.catalog import tables
from anabranch.catalog.remembered import once
from anabranch.names import TableName

COPY_OF = "anabranch.index.table"  # a property of the copies, and of no other table


@dataclass(frozen=True)
class Index:
    """A copy of `table`, sorted by `columns`."""

    table: TableName
    name: str
    columns: tuple[str, ...]
    cluster: str | None = None

    @property
    def copy(self) -> TableName:
        """The table that holds the sorted rows."""
        return TableName(self.table.namespace, f"{self.table.name}__{self.name}")


def set_indexes(c: Connection, table: TableName, indexes: Iterable[Index]) -> None:
    """Replace the indexes of a table; who makes copies again has no right to, and needs none."""
    indexes = sorted(indexes, key=lambda each: each.name)
    if tuple(indexes) == tuple(sorted(all_indexes(c).get(table, ()), key=lambda each: each.name)):
        return
    c.execute(delete(tables.indexes).where(tables.indexes.c.table_name == str(table)))
    rows = [
        {
            "table_name": str(table),
            "name": each.name,
            "columns": list(each.columns),
            "cluster": each.cluster,
            "created_at": tables.now(),
        }
        for each in indexes
    ]
    if rows:
        c.execute(insert(tables.indexes), rows)


@once(tables.indexes)
def all_indexes(c: Connection) -> dict[TableName, tuple[Index, ...]]:
    found: dict[TableName, list[Index]] = {}
    query = select(tables.indexes).order_by(tables.indexes.c.table_name, tables.indexes.c.name)
    for row in c.execute(query):
        table = TableName.parse(row.table_name)
        found.setdefault(table, []).append(Index(table, row.name, tuple(row.columns), row.cluster))
    return {table: tuple(each) for table, each in found.items()}
