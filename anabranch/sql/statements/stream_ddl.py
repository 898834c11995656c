"""Statements about stream tables.

CREATE [OR REPLACE] STREAM TABLE [IF NOT EXISTS] n
    [SCHEDULE '2s' | SCHEDULE NONE | SCHEDULE CALCULATED] [REFRESH MODE AUTO | DIFFERENTIAL | FULL]
    [IN CLUSTER c] [WITH (k = v, …)] AS query            clauses in any order
ALTER STREAM TABLE n SET SCHEDULE … | SET REFRESH MODE … | SET (k = v, …) | AS query
                   | SUSPEND | RESUME
DROP STREAM TABLE [IF EXISTS] n [CASCADE]
REFRESH STREAM TABLE n [FULL], REFRESH ALL STREAM TABLES [FULL], EXPLAIN STREAM TABLE n [RULES]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.errors import Unsupported, did_you_mean
from anabranch.model import RefreshMode
from anabranch.sql.statements.options import read_options
from anabranch.sql.statements.records import (
    CALCULATED,
    AlterStreamTable,
    CreateStreamTable,
    DropStreamTable,
    ExplainStreamTable,
    RefreshStreamTable,
    Resume,
    SetOptions,
    SetQuery,
    SetRefreshMode,
    SetSchedule,
    Statement,
    StreamTableChange,
    Suspend,
)
from anabranch.sql.statements.table_ddl import cascade
from anabranch.sql.text.cursor import Cursor
from anabranch.sql.text.tokens import Sort

_MODES = tuple(mode.value for mode in RefreshMode)


def create_stream_table(cursor: Cursor, or_replace: bool) -> Statement:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.table_name()
    if cursor.at("("):
        raise Unsupported(
            f"stream table {name} takes its columns from the query",
            hint="leave the column list out and name the columns in SELECT … AS",
        )
    clauses = _clauses(cursor)
    cursor.expect("AS")
    query = cursor.query()
    return CreateStreamTable(
        name,
        query.text,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        query_at=query.at,
        **clauses,
    )


def _clauses(cursor: Cursor) -> dict[str, Any]:
    readers: dict[tuple[str, ...], tuple[str, Callable[[Cursor], object]]] = {
        ("SCHEDULE",): ("schedule", _schedule),
        ("REFRESH", "MODE"): ("refresh_mode", _mode),
        ("IN", "CLUSTER"): ("cluster", lambda c: c.identifier("a cluster's name")),
        ("WITH",): ("options", read_options),
    }
    clauses: dict[str, Any] = {}
    while not cursor.at("AS"):
        words = next((words for words in readers if cursor.at(*words)), None)
        if words is None:
            hint = None
            if cursor.token.sort is Sort.WORD:
                hint = did_you_mean(cursor.token.text, [words[0] for words in readers])
            raise cursor.error("SCHEDULE, REFRESH MODE, IN CLUSTER, WITH or AS", hint)
        key, read = readers[words]
        if key in clauses:
            raise cursor.passage.error(cursor.token.start, f"{' '.join(words)} appears twice")
        cursor.accept(*words)
        clauses[key] = read(cursor)
    return clauses


def _schedule(cursor: Cursor) -> str | None:
    if cursor.accept("NONE"):
        return None
    if cursor.accept("CALCULATED"):
        return CALCULATED
    return cursor.string("a duration such as '2s', NONE or CALCULATED")


def _mode(cursor: Cursor) -> RefreshMode:
    token = cursor.token
    word = cursor.identifier(" or ".join(_MODES)).upper()
    if word not in _MODES:
        hint = did_you_mean(word, _MODES) or f"modes: {', '.join(_MODES)}"
        raise cursor.passage.error(token.start, f"{token.shown} is not a refresh mode", hint)
    return RefreshMode(word)


def alter_stream_table(cursor: Cursor) -> Statement:
    name = cursor.table_name()
    change = _change(cursor)
    cursor.expect_end()
    return AlterStreamTable(name, change)


def _change(cursor: Cursor) -> StreamTableChange:
    if cursor.accept("SUSPEND"):
        return Suspend()
    if cursor.accept("RESUME"):
        return Resume()
    if cursor.accept("AS"):
        query = cursor.query()
        return SetQuery(query.text, query.at)
    if cursor.accept("SET", "SCHEDULE"):
        return SetSchedule(_schedule(cursor))
    if cursor.accept("SET", "REFRESH", "MODE"):
        return SetRefreshMode(_mode(cursor))
    if cursor.at("SET", "("):
        cursor.accept("SET")
        return SetOptions(read_options(cursor))
    cursor.accept("SET")
    raise cursor.error(
        "SET SCHEDULE, SET REFRESH MODE, SET (option = value), AS, SUSPEND or RESUME"
    )


def drop_stream_table(cursor: Cursor) -> Statement:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.table_name()
    return DropStreamTable(name, if_exists, cascade(cursor))


def refresh(cursor: Cursor) -> Statement:
    if cursor.accept("ALL"):
        cursor.expect("STREAM", "TABLES")
        full = cursor.accept("FULL")
        cursor.expect_end()
        return RefreshStreamTable(None, full)
    if not cursor.accept("STREAM"):
        raise Unsupported(
            f"REFRESH {cursor.token.text.upper()} is not supported".replace("  ", " "),
            hint="possible: REFRESH STREAM TABLE name [FULL], REFRESH ALL STREAM TABLES [FULL]",
        )
    cursor.expect("TABLE")
    name = cursor.table_name()
    full = cursor.accept("FULL")
    cursor.expect_end()
    return RefreshStreamTable(name, full)


def explain(cursor: Cursor) -> Statement:
    if not cursor.accept("STREAM", "TABLE"):
        raise Unsupported(
            "EXPLAIN of a query is not supported",
            hint="possible: EXPLAIN STREAM TABLE name [RULES]",
        )
    name = cursor.table_name()
    rules = cursor.accept("RULES")
    cursor.expect_end()
    return ExplainStreamTable(name, rules)
