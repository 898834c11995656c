"""A full refresh that somebody asked for, or that lost files need: nothing that is stored is used.

    after = query(sources now), whatever the table, its files or its state were before

The stored rows are not even looked at.  Metadata that can be read is kept, so that readers still find
what changed; where it cannot, the table starts again under the same name, and readers find that the
snapshot they stand on is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from anabranch.graph.order import closure, dependants
from anabranch.lake.changes import net_rows
from anabranch.lake.version import TableVersion
from anabranch.model import Columns
from anabranch.names import TableName
from anabranch.refresh.columns import carried, exactly, relaxed
from anabranch.refresh.definition import understood
from anabranch.refresh.observe import CatalogState
from anabranch.runtime import Transaction
from anabranch.spark.errors import Blame, blame


def unreadable(tx: Transaction, name: TableName) -> str | None:
    """Why nothing of a stored table can be kept, if that is so."""
    if not tx.stage.exists(name):
        return "the table was gone"
    try:
        return _not_kept(tx.world.version(name))
    except Exception as error:  # whatever is broken: it is about to be replaced
        first = (str(error) or type(error).__name__).splitlines()[0]
        return f"what was stored cannot be read: {first}"


def _not_kept(version: TableVersion) -> str | None:
    _ = version.columns
    version.state(version.snapshot_id)
    if version.metadata.format_version > 2 or version.metadata.spec().fields:
        return "another program changed the format of the table"
    return None


def replace_table(tx: Transaction, name: TableName, columns: Columns) -> None:
    """The same name, with nothing below it."""
    if tx.stage.exists(name):
        tx.stage.drop(name)
    tx.stage.create(name, columns)


def make_room(tx: Transaction, name: TableName, columns: Columns) -> str | None:
    """Let the table take the rows of its query; why nothing of it could be kept, if that is so."""
    why = unreadable(tx, name)
    if why is not None:
        replace_table(tx, name, columns)
        return why
    stored = tx.world.version(name).columns
    wanted = relaxed(stored, columns)
    if not exactly(stored, wanted):
        tx.stage.set_columns(name, wanted)
    return None


def refuse_to_break_readers(
    tx: Transaction,
    state: CatalogState,
    before: Mapping[TableName, Columns],
    rebuilt: Collection[TableName],
) -> None:
    """A column that goes must not be one that a table outside the refresh still reads."""
    shrunk = [
        name
        for name, columns in before.items()
        if not carried(columns, tx.world.version(name).columns)
    ]
    readers = closure(shrunk, dependants(state.reads)) - {*shrunk, *rebuilt}
    for reader in sorted(readers):
        if reader in state.streams and state.streams[reader].populated:
            understood(tx.world, reader, state.streams[reader].query)


def readable_columns(tx: Transaction, names: Iterable[TableName]) -> dict[TableName, Columns]:
    """The columns of those tables that can be read."""
    return {name: tx.world.version(name).columns for name in names if unreadable(tx, name) is None}


def all_rows(before: TableVersion, after: TableVersion) -> tuple[int, int]:
    """Rows that came and went where every row was put in place again.

    They are only told of: that they cannot be counted does not stop what was computed.
    """
    try:
        return net_rows(before, after)
    except Exception as error:
        if blame(error) is Blame.WORLD:
            raise
        return after.rows, before.rows
