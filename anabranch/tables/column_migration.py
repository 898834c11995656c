"""Columns of stream tables brought in line with their queries, after a query or a source changed."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.catalog.groups import Reads
from anabranch.graph.components import components
from anabranch.names import TableName
from anabranch.refresh.columns import exactly, relaxed
from anabranch.refresh.cycles import define_again
from anabranch.refresh.definition import Definition, understood
from anabranch.refresh.rebuild import replace_table, unreadable
from anabranch.runtime import Transaction


def fit_columns(tx: Transaction, name: TableName, definition: Definition) -> None:
    if unreadable(tx, name) is not None:  # its rows are computed from nothing anyway
        replace_table(tx, name, definition.columns)
        return
    stored = tx.world.version(name).columns
    wanted = relaxed(stored, definition.columns)
    if not exactly(stored, wanted):
        tx.stage.set_columns(name, wanted)


def understood_together(
    tx: Transaction, queries: Mapping[TableName, str], *, cyclic: bool
) -> dict[TableName, Definition]:
    """The definitions of a component over what it reads now."""
    if cyclic:
        return define_again(tx, queries)
    return {name: understood(tx.world, name, query) for name, query in queries.items()}


def fit_readers(tx: Transaction, queries: Mapping[TableName, str], reads: Reads) -> None:
    """The columns of tables that read one that changed, upstreams first."""
    for part in components({name: reads[name] for name in queries}):
        own = {name: queries[name] for name in part.members}
        for name, definition in understood_together(tx, own, cyclic=part.cyclic).items():
            fit_columns(tx, name, definition)
