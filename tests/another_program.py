"""What another program may do to source tables, which knows nothing of their readers."""

from __future__ import annotations

from anabranch import Anabranch
from anabranch.names import TableName
from anabranch.sql.statements.read import parse_statement
from anabranch.sql.statements.records import AlterTable
from anabranch.sql.text.parse import split
from anabranch.verbs.source_tables import schema_change


def alter(ab: Anabranch, text: str) -> None:
    """ALTER TABLE statements, done although stream tables or views read the columns."""
    for passage in split(text):
        statement = parse_statement(passage)
        assert isinstance(statement, AlterTable)
        name, changes = statement.name, [schema_change(each) for each in statement.changes]
        ab._runtime.write(
            "alter table", lambda tx, name=name, changes=changes: tx.stage.alter(name, changes)
        )


def drop(ab: Anabranch, table: str) -> None:
    """The table is gone, although stream tables or views read it."""
    name = TableName.parse(table)
    ab._runtime.write("drop table", lambda tx: tx.stage.drop(name))
