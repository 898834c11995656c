"""The four tables of the random queries, and the kinds of values in them."""

from __future__ import annotations

from dataclasses import dataclass

TABLES = {
    "a": "id INT, k INT, v VARCHAR",
    "b": "id INT, k INT, w VARCHAR",
    "d": "id INT, k INT, z DECIMAL(8,2), y DOUBLE",
    "t": "id INT, g VARCHAR, x INT",
}
_KINDS = {"INT": "int", "VARCHAR": "text", "DECIMAL(8,2)": "dec", "DOUBLE": "real"}
LITERALS = {
    "int": ("0", "1", "2", "3"),
    "text": ("'x'", "'y'", "'z'"),
    "dec": ("CAST(0.50 AS DECIMAL(8,2))", "CAST(1.25 AS DECIMAL(8,2))"),
    "bool": ("true", "false"),
    "real": ("CAST(1 AS DOUBLE)", "CAST(2 AS DOUBLE)"),
}


@dataclass(frozen=True)
class Col:
    """A value as a query writes it, and its kind: int, text, dec, bool or real.

    A real comes from an average, or is a zero of either sign or NaN: it is passed on and compared,
    never computed with.
    """

    text: str
    kind: str


Cols = tuple[Col, ...]


def columns_of(table: str) -> Cols:
    pairs = (part.split(" ", 1) for part in TABLES[table].split(", "))
    return tuple(Col(name, _KINDS[kind]) for name, kind in pairs)


def under(alias: str, cols: Cols) -> Cols:
    return tuple(Col(f"{alias}.{col.text}", col.kind) for col in cols)
