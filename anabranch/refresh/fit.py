"""Columns of stream tables brought in line with their queries, after a query or a source changed."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.errors import InvalidValue
from anabranch.names import TableName
from anabranch.refresh.afresh import readable_columns, replace_table, unreadable
from anabranch.refresh.circles import SETTLING, Circle
from anabranch.refresh.columns import exactly, relaxed
from anabranch.refresh.definition import Definition, understood
from anabranch.runtime import Transaction


def fit_columns(tx: Transaction, name: TableName, definition: Definition) -> None:
    if unreadable(tx, name) is not None:  # its rows are computed from nothing anyway
        replace_table(tx, name, definition.columns)
        return
    stored = tx.world.version(name).columns
    wanted = relaxed(stored, definition.columns)
    if not exactly(stored, wanted):
        tx.stage.set_columns(name, wanted)


def fit_readers(tx: Transaction, queries: Mapping[TableName, str], circle: Circle | None) -> None:
    """The columns of tables that read one that changed; round a circle until they are settled."""
    for _ in range(SETTLING):
        before = readable_columns(tx, queries)
        for name, query in queries.items():
            fit_columns(tx, name, understood(tx.world, name, query))
        if circle is None or before == {name: tx.world.version(name).columns for name in queries}:
            return
    raise InvalidValue(
        f"the columns of {' and '.join(str(name) for name in sorted(circle or ()))} do not settle",
        hint="CAST them to the types that they shall have",
    )
