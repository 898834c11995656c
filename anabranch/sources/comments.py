"""COMMENT ON: what a table and its columns are for, said where every reader of Iceberg finds it."""

from __future__ import annotations

from anabranch.errors import Refused
from anabranch.lake.comments import Comments
from anabranch.names import TableName
from anabranch.runtime import Runtime, Transaction
from anabranch.sources.indexes import refuse_copy


def comment_on(runtime: Runtime, name: TableName, comments: Comments) -> TableName:
    """Of source tables and stream tables; no row changes."""

    def act(tx: Transaction) -> TableName:
        found = tx.world.resolve(name)
        if found in tx.world.views:
            raise Refused(
                f"{found} is a view: it has no place for a comment",
                hint="comment on the tables it reads, or in the file of a project",
            )
        refuse_copy(runtime, found)
        tx.stage.comment(found, comments)
        return found

    return runtime.write("comment", act)
