"""Statements about refresh groups.

CREATE REFRESH GROUP n [MEMBERS] (table, table, …) [ISOLATION REPEATABLE READ | READ COMMITTED]
    [WITH (isolation = …, snapshot_timeout_ms = …)]
ALTER REFRESH GROUP n [ADD t | ADD (t, …)] [DROP t | DROP (t, …)]
    [SET ISOLATION REPEATABLE READ | READ COMMITTED] [SET SNAPSHOT TIMEOUT ms]
    [SET (isolation = …, snapshot_timeout_ms = …)]          clauses in any order, all at once
DROP REFRESH GROUP [IF EXISTS] n
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.errors import Unsupported
from anabranch.names import TableName
from anabranch.sql.statements.options import read_options
from anabranch.sql.statements.records import (
    AlterRefreshGroup,
    CreateRefreshGroup,
    DropRefreshGroup,
    Statement,
)
from anabranch.sql.text.cursor import Cursor

OPTIONS = ("isolation", "snapshot_timeout_ms")


def create_refresh_group(cursor: Cursor, or_replace: bool) -> Statement:
    if or_replace:
        raise Unsupported(
            "CREATE OR REPLACE REFRESH GROUP is not supported", hint="DROP REFRESH GROUP first"
        )
    name = cursor.identifier("a group's name")
    cursor.accept("MEMBERS")
    members = cursor.bracketed(cursor.table_name)
    options: dict[str, str] = {}
    while not cursor.ended():
        if cursor.accept("ISOLATION"):
            options["isolation"] = _isolation(cursor)
        elif cursor.accept("WITH"):
            options |= _known(read_options(cursor))
        else:
            raise cursor.error("ISOLATION or WITH")
    return CreateRefreshGroup(name, members, options)


def alter_refresh_group(cursor: Cursor) -> Statement:
    name = cursor.identifier("a group's name")
    members: dict[str, tuple[TableName, ...]] = {"ADD": (), "DROP": ()}
    options: dict[str, str] = {}
    while True:
        word = next((each for each in members if cursor.accept(each)), None)
        if word is not None:
            cursor.accept("MEMBER")
            several = cursor.at("(")
            named = cursor.bracketed(cursor.table_name) if several else (cursor.table_name(),)
            members[word] += named
        elif cursor.accept("SET", "ISOLATION"):
            options["isolation"] = _isolation(cursor)
        elif cursor.accept("SET", "SNAPSHOT", "TIMEOUT"):
            sign = "-" if cursor.accept("-") else ""
            options["snapshot_timeout_ms"] = sign + cursor.next().text
        elif cursor.at("SET", "("):
            cursor.accept("SET")
            options |= _known(read_options(cursor))
        else:
            raise cursor.error("ADD, DROP, SET ISOLATION or SET SNAPSHOT TIMEOUT")
        cursor.accept(",")
        if cursor.ended():
            return AlterRefreshGroup(name, members["ADD"], members["DROP"], options)


def _isolation(cursor: Cursor) -> str:
    for words in (("REPEATABLE", "READ"), ("READ", "COMMITTED")):
        if cursor.accept(*words):
            return "_".join(words).lower()
    return cursor.string("REPEATABLE READ or READ COMMITTED")


def _known(options: Mapping[str, str]) -> Mapping[str, str]:
    for name in options:
        if name not in OPTIONS:
            raise Unsupported(f'there is no option "{name}"', hint=f"known: {', '.join(OPTIONS)}")
    return options


def drop_refresh_group(cursor: Cursor) -> Statement:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.identifier("a group's name")
    cursor.expect_end()
    return DropRefreshGroup(name, if_exists)
