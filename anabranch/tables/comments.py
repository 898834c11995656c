"""COMMENT ON: what a table and its columns are for, said where every reader of Iceberg finds it."""

from __future__ import annotations

from anabranch.catalog import streams
from anabranch.catalog.store import Connection
from anabranch.errors import Refused
from anabranch.lake.comments import Comments
from anabranch.names import TableName
from anabranch.runtime import Runtime, Transaction
from anabranch.tables.indexes import refuse_copy


def comment_on(runtime: Runtime, name: TableName, comments: Comments) -> TableName:
    """Of source tables and stream tables; no row changes."""

    def act(tx: Transaction) -> TableName:
        table = tx.world.resolve(name)
        if table in tx.world.views:
            raise Refused(
                f"{table} is a view: it has no place for a comment",
                hint="comment on the tables it reads, or in the file of a project",
            )
        refuse_copy(runtime, table)
        tx.world.read.note_version(table)  # also where it is said already
        say(tx, table, comments)
        return table

    return runtime.write("comment", act)


def say(tx: Transaction, name: TableName, comments: Comments) -> None:
    """Other comments of a table.  Its rows stay, so nobody who stands on them is out of date."""
    before = tx.stage.version(name)
    if tx.stage.comment(name, comments) is before:
        return

    def carry(c: Connection, cut_id: int | None) -> None:
        after = tx.stage.version(name)
        if after.snapshot_id == before.snapshot_id:
            streams.carry_inputs(c, name, before.location, after.location)

    tx.later(carry)
