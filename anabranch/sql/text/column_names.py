"""A query under other column names."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.names import TableName, quote


def with_column_names(query: str, columns: Sequence[str]) -> str:
    """`SELECT * FROM (query) AS v(a, b)`; the query keeps its own text and lines."""
    names = ", ".join(quote(column) for column in columns)
    return f"SELECT * FROM ({query}\n) AS v({names})"


def only_columns(columns: Sequence[str], table: TableName) -> str:
    """Some columns of a table."""
    names = ", ".join(quote(column) for column in columns)
    return f"SELECT {names} FROM {table}"
