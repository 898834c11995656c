"""INSERT, UPDATE and DELETE."""

from __future__ import annotations

from anabranch.errors import Unsupported
from anabranch.names import TableName, shown
from anabranch.sql.statements.records import (
    Assignments,
    Delete,
    Insert,
    Statement,
    Update,
)
from anabranch.sql.statements.table_ddl import no_repeats, refuse
from anabranch.sql.text.cursor import Cursor
from anabranch.sql.text.parse import QUERY_WORDS
from anabranch.sql.text.tokens import Sort

_INSERT_REFUSED = (("PARTITION",), ("REPLACE",), ("IF", "NOT", "EXISTS"), ("WITH", "SCHEMA"))


def insert(cursor: Cursor) -> Statement:
    if cursor.at("OVERWRITE"):
        raise Unsupported(
            "INSERT OVERWRITE is not supported",
            hint="DELETE FROM and then INSERT INTO, inside ab.transaction()",
        )
    cursor.expect("INTO")
    cursor.accept("TABLE")
    table = cursor.table_name()
    refuse(cursor, _INSERT_REFUSED, "INSERT")
    columns: tuple[str, ...] | None = None
    by_name = cursor.accept("BY", "NAME")
    if not by_name and cursor.at("(") and not _query_in_brackets(cursor):
        columns = cursor.bracketed(lambda: cursor.identifier("a column's name"))
        no_repeats(columns)
    query = cursor.query()
    return Insert(table, query.text, columns, by_name, query.at)


def _query_in_brackets(cursor: Cursor) -> bool:
    ahead = 1
    while cursor.peek(ahead).says("("):
        ahead += 1
    return any(cursor.peek(ahead).says(word) for word in QUERY_WORDS)


def read_alias(cursor: Cursor, *followers: str) -> str | None:
    """`[AS] alias`, where the words that may follow are no alias."""
    plain = cursor.token.sort is Sort.WORD and not cursor.at_any(*followers)
    if not (cursor.accept("AS") or plain or cursor.token.sort is Sort.QUOTED):
        return None
    alias = cursor.identifier("an alias")
    if cursor.at("("):
        raise Unsupported(f"alias {shown(alias)} may not rename columns here")
    return alias


def read_target(cursor: Cursor, table: TableName, alias: str | None) -> str:
    """`c`, or `c` behind the alias or (a part of) the table's name."""
    parts = cursor.parts("a column's name")
    qualifier = [part.lower() for part in parts[:-1]]
    full = [part.lower() for part in table.parts]
    own = [alias.lower()] if alias else full[-len(qualifier) :]
    if qualifier and qualifier != own:
        raise Unsupported(
            f"{'.'.join(map(shown, parts))} is not a column of {table}",
            hint="fields inside a column cannot be set one by one; set the whole column",
        )
    return parts[-1]


def read_assignments(
    cursor: Cursor, table: TableName, alias: str | None, *stops: str
) -> Assignments:
    def assignment() -> tuple[str, str]:
        column = read_target(cursor, table, alias)
        cursor.expect("=")
        cursor.accept("=")  # Spark reads == as =
        return column, read_value(cursor, ",", *stops)

    assignments = cursor.listed(assignment)
    no_repeats(column for column, _ in assignments)
    return assignments


def read_value(cursor: Cursor, *stops: str) -> str:
    if cursor.at("DEFAULT") and (
        cursor.peek().sort is Sort.END or any(cursor.peek().says(stop) for stop in stops)
    ):
        raise Unsupported("DEFAULT is not supported as a value", hint="write the value, or NULL")
    return cursor.expression(*stops)


def update(cursor: Cursor) -> Statement:
    table = cursor.table_name()
    alias = read_alias(cursor, "SET")
    cursor.expect("SET")
    assignments = read_assignments(cursor, table, alias, "WHERE")
    where = cursor.expression() if cursor.accept("WHERE") else None
    cursor.expect_end()
    return Update(table, assignments, alias, where)


def delete(cursor: Cursor) -> Statement:
    cursor.expect("FROM")
    table = cursor.table_name()
    alias = read_alias(cursor, "WHERE", "USING")
    refuse(cursor, [("USING",)], "DELETE")
    where = cursor.expression() if cursor.accept("WHERE") else None
    cursor.expect_end()
    return Delete(table, alias, where)
