"""Random rows and windows of changes, as statements that DuckDB and Spark read alike.

Few values, so that rows meet, repeat and are NULL; one value of a key is more frequent.
"""

from __future__ import annotations

from random import Random

from tests.oracle.tables import columns_of

Window = tuple[str, ...]

_VALUES = {
    "int": ("NULL", "0", "1", "1", "1", "2", "3"),
    "text": ("NULL", "'x'", "'x'", "'y'", "'z'"),
    "dec": ("NULL", "0.50", "1.25", "1.25", "3.00"),
    "real": ("NULL", "0e0", "0e0", "-0e0", "1.5e0", "1e308 * 10 - 1e308 * 10"),  # the last is NaN
}
_SIZES = (0, 1, 2, 4, 4, 6, 9)


def table_of(statement: str) -> str:
    """INSERT INTO t …, DELETE FROM t …, UPDATE t …"""
    return next(word for word in statement.split()[1:] if word not in ("INTO", "FROM"))


def start(random: Random, tables: tuple[str, ...]) -> Window:
    """The rows there are before the stream table is made; some tables are empty."""
    made = []
    for table in tables:
        rows: list[str] = []
        for _ in range(random.choice(_SIZES)):
            again = rows and random.random() < 0.2
            rows.append(random.choice(rows) if again else _row(random, table))
        if rows:
            made.append(_insert(table, rows))
    return tuple(made)


def windows(
    random: Random, tables: tuple[str, ...], *, portable: bool = False
) -> tuple[Window, ...]:
    """One or two windows, each over some of the tables.  `portable`: without DuckDB's rowid."""
    kinds = [kind for kind, weight in _CHANGES.items() for _ in range(weight)]
    if portable:
        kinds = [kind for kind in kinds if kind is not _delete_one]
    made = []
    moving: list[str] = []
    for _ in range(random.choice((1, 1, 1, 1, 2))):
        if not moving or random.random() < 0.4:  # plans for the same tables are made once
            moving = random.sample(tables, random.choice((1, 1, min(2, len(tables)), len(tables))))
        window: list[str] = []
        for table in moving:
            for _ in range(random.choice((1, 1, 2, 3))):
                window += random.choice(kinds)(random, table)
        made.append(tuple(window))
    return tuple(made)


def _row(random: Random, table: str) -> str:
    return f"({', '.join(random.choice(_VALUES[col.kind]) for col in columns_of(table))})"


def _insert(table: str, rows: list[str]) -> str:
    names = ", ".join(col.text for col in columns_of(table))
    return f"INSERT INTO {table} ({names}) VALUES {', '.join(rows)}"


def _some(random: Random, table: str) -> str:
    col = random.choice(columns_of(table))
    return f"{col.text} IS NOT DISTINCT FROM {random.choice(_VALUES[col.kind])}"


def _insert_some(random: Random, table: str) -> list[str]:
    rows = [_row(random, table) for _ in range(random.choice((1, 1, 2, 3)))]
    return [_insert(table, [*rows, random.choice(rows)] if random.random() < 0.2 else rows)]


def _delete_some(random: Random, table: str) -> list[str]:
    return [f"DELETE FROM {table} WHERE {_some(random, table)}"]


def _delete_one(random: Random, table: str) -> list[str]:
    """One of perhaps several equal rows."""
    return [f"DELETE FROM {table} WHERE rowid = (SELECT min(rowid) FROM {table})"]


def _delete_all(random: Random, table: str) -> list[str]:
    return [f"DELETE FROM {table}"]


def _update_some(random: Random, table: str) -> list[str]:
    col = random.choice(columns_of(table))
    value = random.choice(_VALUES[col.kind])
    return [f"UPDATE {table} SET {col.text} = {value} WHERE {_some(random, table)}"]


def _come_and_go(random: Random, table: str) -> list[str]:
    """A row that comes and goes in one window; rows equal to it go along."""
    row = _row(random, table)
    cells = zip(columns_of(table), row.strip("()").split(", "), strict=True)
    where = " AND ".join(f"{col.text} IS NOT DISTINCT FROM {cell}" for col, cell in cells)
    return [_insert(table, [row]), f"DELETE FROM {table} WHERE {where}"]


def _nothing(random: Random, table: str) -> list[str]:
    return [f"UPDATE {table} SET id = id WHERE {_some(random, table)}"]


_CHANGES = {
    _insert_some: 8,
    _delete_some: 4,
    _delete_one: 4,
    _delete_all: 1,
    _update_some: 5,
    _come_and_go: 1,
    _nothing: 1,
}
