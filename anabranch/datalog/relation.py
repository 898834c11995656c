"""A relation: a set of tuples with an index for any combination of columns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from anabranch.errors import InvalidValue

Row = tuple[Hashable, ...]
Columns = tuple[int, ...]


class Relation:
    """Rows of one width; an index is built when first used, and kept."""

    def __init__(self, name: str, width: int) -> None:
        self.name = name
        self.width = width
        self.rows: set[Row] = set()
        self._indexes: dict[Columns, dict[Row, list[Row]]] = {}

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if len(row) != self.width:
                raise InvalidValue(f"{self.name} has {self.width} columns, not {len(row)}")
            if row not in self.rows:
                self.rows.add(row)
                for columns, index in self._indexes.items():
                    index.setdefault(_key(row, columns), []).append(row)

    def index(self, columns: Columns) -> dict[Row, list[Row]]:
        """Rows by the values of some columns; it includes rows added later."""
        if columns not in self._indexes:
            index: dict[Row, list[Row]] = {}
            for row in self.rows:
                index.setdefault(_key(row, columns), []).append(row)
            self._indexes[columns] = index
        return self._indexes[columns]


def _key(row: Row, columns: Columns) -> Row:
    return tuple([row[column] for column in columns])
