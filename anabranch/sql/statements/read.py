"""One statement's text → its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anabranch.errors import Unsupported, UserError, did_you_mean
from anabranch.sql.statements.call import call
from anabranch.sql.statements.catalog_ddl import attach, detach
from anabranch.sql.statements.cluster_ddl import (
    create_cluster,
    create_index,
    drop_cluster,
    drop_index,
)
from anabranch.sql.statements.dml import delete, insert, update
from anabranch.sql.statements.group_ddl import (
    alter_refresh_group,
    create_refresh_group,
    drop_refresh_group,
)
from anabranch.sql.statements.merge import merge
from anabranch.sql.statements.project_ddl import comment, create_test
from anabranch.sql.statements.records import (
    CALCULATED,
    AddColumn,
    AlterStreamTable,
    AlterTable,
    Assignments,
    Call,
    ColumnDef,
    Comment,
    CreateCluster,
    CreateIndex,
    CreateStreamTable,
    CreateTable,
    CreateTableAs,
    CreateTest,
    CreateView,
    Delete,
    Describe,
    DropCluster,
    DropColumn,
    DropIndex,
    DropStreamTable,
    DropTable,
    DropView,
    ExplainStreamTable,
    Insert,
    Merge,
    MergeClause,
    Query,
    RefreshStreamTable,
    RenameColumn,
    Resume,
    Set,
    SetOptions,
    SetQuery,
    SetRefreshMode,
    SetSchedule,
    ShowTables,
    Statement,
    StreamTableChange,
    Suspend,
    TableChange,
    Update,
    WidenColumn,
)
from anabranch.sql.statements.stream_ddl import (
    alter_stream_table,
    create_stream_table,
    drop_stream_table,
    explain,
    refresh,
)
from anabranch.sql.statements.table_ddl import (
    alter_table,
    create_table,
    create_view,
    drop_table,
    drop_view,
)
from anabranch.sql.text.cursor import Cursor
from anabranch.sql.text.parse import QUERY_WORDS, Passage, check_query, split
from anabranch.sql.text.tokens import Sort, syntax_error

__all__ = [
    "CALCULATED",
    "AddColumn",
    "AlterStreamTable",
    "AlterTable",
    "Assignments",
    "Call",
    "ColumnDef",
    "Comment",
    "CreateCluster",
    "CreateIndex",
    "CreateStreamTable",
    "CreateTable",
    "CreateTableAs",
    "CreateTest",
    "CreateView",
    "Delete",
    "Describe",
    "DropCluster",
    "DropColumn",
    "DropIndex",
    "DropStreamTable",
    "DropTable",
    "DropView",
    "ExplainStreamTable",
    "Insert",
    "Merge",
    "MergeClause",
    "Query",
    "RefreshStreamTable",
    "RenameColumn",
    "Resume",
    "Set",
    "SetOptions",
    "SetQuery",
    "SetRefreshMode",
    "SetSchedule",
    "ShowTables",
    "Statement",
    "StreamTableChange",
    "Suspend",
    "TableChange",
    "Update",
    "WidenColumn",
    "parse_statement",
]

SETTINGS_PREFIX = "anabranch."
TRANSACTION_HINT = "write several changes as one with `with ab.transaction(): …`"
POSSIBLE = (
    "SELECT, INSERT, UPDATE, DELETE, MERGE, CREATE/ALTER/DROP TABLE, CREATE/DROP VIEW, "
    "CREATE/ALTER/DROP/REFRESH/EXPLAIN STREAM TABLE, CREATE/ALTER/DROP REFRESH GROUP, "
    "CREATE/DROP CLUSTER, CREATE/DROP INDEX, ATTACH/DETACH CATALOG, SHOW TABLES, DESCRIBE, "
    "CALL system.…, "
    "SET anabranch.…"
)
HINTS = {  # statements people try, and what to do instead
    "BEGIN": TRANSACTION_HINT,
    "START": TRANSACTION_HINT,
    "COMMIT": TRANSACTION_HINT,
    "ROLLBACK": TRANSACTION_HINT,
    "USE": "write tables as schema.table",
    "RESET": "write SET anabranch.x = …",
    "TABLE": "write SELECT * FROM …",
    "CACHE": None, "UNCACHE": None, "ANALYZE": None, "OPTIMIZE": None, "VACUUM": None,
    "GRANT": None, "REVOKE": None, "LOAD": None, "MSCK": None, "DECLARE": None,
    "EXECUTE": None, "REPLACE": "write CREATE OR REPLACE …",
}  # fmt: skip
SCHEMA_HINT = "schemas are created on first use: write CREATE TABLE schema.table …"
VIEW_HINT = "possible: CREATE VIEW, CREATE STREAM TABLE"


def parse_statement(text: str | Passage, home: tuple[str, ...] = ()) -> Statement:
    """Read one statement; a closing `;` is fine.  `home`: where names of fewer parts are at home."""
    cursor = Cursor(_only_piece(text) if isinstance(text, str) else text, home)
    first = cursor.token
    if cursor.at_any(*QUERY_WORDS):
        check_query(cursor.passage)
        return Query(cursor.passage.text, cursor.passage.at)
    if first.sort is not Sort.WORD:
        raise cursor.error("a statement")
    read = READERS.get(first.text.upper())
    if read is None:
        raise _unknown(cursor)
    cursor.next()
    return read(cursor)


def _only_piece(text: str) -> Passage:
    pieces = split(text)
    if not pieces:
        raise syntax_error(text, 0, "expected a statement, found nothing")
    if len(pieces) > 1:
        raise syntax_error(text, pieces[1].start, "expected one statement, found another behind it")
    return pieces[0]


def _unknown(cursor: Cursor) -> UserError:
    word = cursor.token.text
    upper = word.upper()
    if upper in HINTS:
        return Unsupported(
            f"{upper} is not supported", hint=HINTS[upper] or f"possible: {POSSIBLE}"
        )
    near = did_you_mean(word, [*READERS, *QUERY_WORDS])
    hint = near or f"possible: {POSSIBLE}"
    return cursor.passage.error(cursor.token.start, f'"{word}" is not a statement', hint)


def _create(cursor: Cursor) -> Statement:
    or_replace = cursor.accept("OR", "REPLACE")
    readers: Mapping[tuple[str, ...], Callable[[Cursor, bool], Statement]] = {
        ("STREAM", "TABLE"): create_stream_table,
        ("REFRESH", "GROUP"): create_refresh_group,
        ("TABLE",): create_table,
        ("VIEW",): create_view,
        ("CLUSTER",): create_cluster,
        ("INDEX",): create_index,
        ("TEST",): create_test,
    }
    for words, read in readers.items():
        if cursor.accept(*words):
            if or_replace and cursor.at("IF", "NOT", "EXISTS"):
                raise cursor.passage.error(
                    cursor.token.start, "OR REPLACE and IF NOT EXISTS do not go together"
                )
            return read(cursor, or_replace)
    raise _not_made(cursor, "CREATE", "TABLE, VIEW, STREAM TABLE, REFRESH GROUP, CLUSTER or INDEX")


def _alter(cursor: Cursor) -> Statement:
    if cursor.accept("STREAM", "TABLE"):
        return alter_stream_table(cursor)
    if cursor.accept("TABLE"):
        return alter_table(cursor)
    if cursor.accept("REFRESH", "GROUP"):
        return alter_refresh_group(cursor)
    raise _not_made(cursor, "ALTER", "TABLE, STREAM TABLE or REFRESH GROUP")


def _drop(cursor: Cursor) -> Statement:
    if cursor.accept("STREAM", "TABLE"):
        return drop_stream_table(cursor)
    if cursor.accept("REFRESH", "GROUP"):
        return drop_refresh_group(cursor)
    if cursor.accept("TABLE"):
        return drop_table(cursor)
    if cursor.accept("VIEW"):
        return drop_view(cursor)
    if cursor.accept("CLUSTER"):
        return drop_cluster(cursor)
    if cursor.accept("INDEX"):
        return drop_index(cursor)
    raise _not_made(cursor, "DROP", "TABLE, VIEW, STREAM TABLE, REFRESH GROUP, CLUSTER or INDEX")


def _not_made(cursor: Cursor, verb: str, possible: str) -> Exception:
    """Why CREATE, ALTER or DROP of this thing is not done."""
    if cursor.token.sort is not Sort.WORD:
        return cursor.error(possible)
    what = cursor.token.text.upper()
    if what in ("SCHEMA", "DATABASE", "NAMESPACE"):
        return Unsupported(f"{verb} {what} is not supported", hint=SCHEMA_HINT)
    if what in ("TEMP", "TEMPORARY", "GLOBAL", "MATERIALIZED", "EXTERNAL", "FUNCTION"):
        return Unsupported(f"{verb} {what} … is not supported", hint=VIEW_HINT)
    return cursor.error(
        possible, did_you_mean(what, ["TABLE", "VIEW", "STREAM", "CLUSTER", "INDEX"])
    )


def _truncate(cursor: Cursor) -> Statement:
    cursor.expect("TABLE")
    name = cursor.table_name()
    cursor.expect_end()
    return Delete(name)


def _set(cursor: Cursor) -> Statement:
    if cursor.ended():
        return Set()
    name = ".".join(cursor.parts("a setting's name"))
    if not name.lower().startswith(SETTINGS_PREFIX):
        raise Unsupported(
            f"SET {name} is not supported", hint=f"settings start with {SETTINGS_PREFIX}"
        )
    name = name[len(SETTINGS_PREFIX) :]
    if cursor.ended():
        return Set(name)
    cursor.expect("=")
    first = cursor.token
    rest = cursor.until()
    if rest.start == rest.end:
        raise cursor.error("a value")
    return Set(name, first.value if first.end == rest.end else rest.text)


def _show(cursor: Cursor) -> Statement:
    streams_only = cursor.accept("STREAM")
    if not cursor.accept("TABLES"):
        raise Unsupported(
            f"SHOW {cursor.token.text.upper()} is not supported".replace("  ", " "),
            hint="possible: SHOW TABLES, SHOW STREAM TABLES, SELECT … FROM system.<view>",
        )
    schema: str | None = None
    if cursor.accept("IN") or cursor.accept("FROM"):
        schema = ".".join(cursor.parts("a schema"))
    like = cursor.accept("LIKE") or cursor.token.sort is Sort.STRING
    pattern = cursor.string() if like else None
    cursor.expect_end()
    return ShowTables(schema, pattern, streams_only)


def _describe(cursor: Cursor) -> Statement:
    for word in ("EXTENDED", "FORMATTED", "QUERY", "FUNCTION", "DATABASE", "SCHEMA"):
        if cursor.at(word) and cursor.peek().sort is not Sort.END:
            raise Unsupported(f"DESCRIBE {word} is not supported", hint="possible: DESCRIBE table")
    if not cursor.accept("STREAM", "TABLE") and cursor.peek().sort is not Sort.END:
        cursor.accept("TABLE")
    name = cursor.table_name()
    cursor.expect_end()
    return Describe(name)


READERS: Mapping[str, Callable[[Cursor], Statement]] = {
    "CREATE": _create,
    "ALTER": _alter,
    "DROP": _drop,
    "INSERT": insert,
    "UPDATE": update,
    "DELETE": delete,
    "MERGE": merge,
    "TRUNCATE": _truncate,
    "COMMENT": comment,
    "REFRESH": refresh,
    "CALL": call,
    "EXPLAIN": explain,
    "ATTACH": attach,
    "DETACH": detach,
    "SET": _set,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
}
