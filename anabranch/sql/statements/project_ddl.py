"""Statements that stand in the files of a project: comments and unit tests.

COMMENT ON TABLE | VIEW | STREAM TABLE t IS '…' | NULL
COMMENT ON COLUMN t.c IS '…' | NULL
CREATE TEST name [FOR t] [AT '2024-01-31 12:00:00']
    [GIVEN input [(column, …)] AS (query)] …
    EXPECT [(column, …) AS] (query) | EXPECT NO ROWS
"""

from __future__ import annotations

from datetime import datetime, timezone

from anabranch.names import TableName
from anabranch.sql.statements.records import Comment, CreateTest, Rows, Statement
from anabranch.sql.statements.table_ddl import no_repeats
from anabranch.sql.text.cursor import Cursor
from anabranch.sql.text.parse import Passage, check_query


def comment(cursor: Cursor) -> Statement:
    cursor.expect("ON")
    column = None
    if cursor.accept("COLUMN"):
        *table, column = cursor.parts("a column's name")
        if not table:
            raise cursor.error('"." and a column', "write COMMENT ON COLUMN table.column IS '…'")
        name = cursor.absolute(table)
    elif cursor.accept("STREAM", "TABLE") or cursor.accept("TABLE") or cursor.accept("VIEW"):
        name = cursor.table_name()
    else:
        raise cursor.error("TABLE, VIEW, STREAM TABLE or COLUMN")
    cursor.expect("IS")
    text = None if cursor.accept("NULL") else cursor.string()
    cursor.expect_end()
    return Comment(name, text, column)


def create_test(cursor: Cursor, or_replace: bool) -> Statement:
    at = cursor.passage.at
    name = cursor.identifier("a test's name")
    table = cursor.table_name() if cursor.accept("FOR") else None
    moment = _moment(cursor) if cursor.accept("AT") else None
    given: list[tuple[TableName, Rows]] = []
    while cursor.accept("GIVEN"):
        given.append(_given(cursor, given))
    if not cursor.accept("EXPECT"):
        raise cursor.error("GIVEN or EXPECT")
    expect = None if cursor.accept("NO", "ROWS") else _expected(cursor)
    cursor.expect_end()
    return CreateTest(name, table, tuple(given), expect, moment, at)


def _moment(cursor: Cursor) -> datetime:
    """The current time of the test; UTC unless it says otherwise."""
    start, text = cursor.token.start, cursor.string("a 'point in time'")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        hint = "write AT '2024-01-31' or AT '2024-01-31 12:00:00'"
        raise cursor.passage.error(start, f"{text!r} is not a point in time", hint) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def _given(cursor: Cursor, before: list[tuple[TableName, Rows]]) -> tuple[TableName, Rows]:
    start = cursor.token.start
    table = cursor.table_name()
    if any(table == other for other, _ in before):
        raise cursor.passage.error(start, f"{table} is given twice")
    columns = _columns(cursor) if cursor.at("(") else None
    cursor.expect("AS")
    return table, _rows(cursor, columns)


def _expected(cursor: Cursor) -> Rows:
    """Names in brackets come before AS; a query in brackets ends the statement."""
    index = cursor.index
    _bracketed(cursor)
    named = cursor.at("AS")
    cursor.index = index
    columns = _columns(cursor) if named else None
    if named:
        cursor.expect("AS")
    return _rows(cursor, columns)


def _columns(cursor: Cursor) -> tuple[str, ...]:
    columns = cursor.bracketed(lambda: cursor.identifier("a column's name"))
    no_repeats(columns)
    return columns


def _rows(cursor: Cursor, columns: tuple[str, ...] | None) -> Rows:
    passage = _bracketed(cursor)
    check_query(passage)
    return Rows(passage.text, columns, passage.at)


def _bracketed(cursor: Cursor) -> Passage:
    cursor.expect("(")
    passage = cursor.until(")")
    cursor.expect(")")
    return passage
