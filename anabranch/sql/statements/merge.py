"""MERGE INTO target USING source ON condition WHEN … THEN …"""

from __future__ import annotations

from typing import Literal

from anabranch.errors import Unsupported
from anabranch.names import TableName, quote
from anabranch.sql.statements.dml import read_alias, read_assignments, read_target, read_value
from anabranch.sql.statements.records import Assignments, Merge, MergeClause, Statement
from anabranch.sql.statements.table_ddl import no_repeats, refuse
from anabranch.sql.text.cursor import Cursor
from anabranch.sql.text.parse import Passage, check_query
from anabranch.sql.text.tokens import Place

Match = Literal["matched", "not_matched", "not_matched_by_source"]


def merge(cursor: Cursor) -> Statement:
    refuse(cursor, [("WITH", "SCHEMA", "EVOLUTION")], "MERGE")
    cursor.expect("INTO")
    target = cursor.table_name()
    target_alias = read_alias(cursor, "USING")
    cursor.expect("USING")
    source, source_at, source_table = _source(cursor)
    source_alias = read_alias(cursor, "ON")
    cursor.expect("ON")
    on = cursor.expression("WHEN")
    clauses: list[MergeClause] = []
    while cursor.accept("WHEN"):
        clauses.append(_clause(cursor, target, target_alias, clauses))
    if not clauses:
        raise cursor.error("WHEN MATCHED or WHEN NOT MATCHED")
    cursor.expect_end()
    return Merge(
        target, source, on, tuple(clauses), target_alias, source_table, source_alias, source_at
    )


def _source(cursor: Cursor) -> tuple[str, Place, TableName | None]:
    start = cursor.token.start
    if cursor.accept("("):
        query = cursor.until(")")
        cursor.expect(")")
        check_query(query)
        return query.text, query.at, None
    table = cursor.table_name()
    refuse(cursor, [("VERSION",), ("TIMESTAMP", "AS")], "the source of MERGE")
    name = ".".join(quote(part) for part in table.parts)
    return f"SELECT * FROM {name}", Passage(cursor.passage.whole, start, start).at, table


def _clause(
    cursor: Cursor, target: TableName, alias: str | None, before: list[MergeClause]
) -> MergeClause:
    start = cursor.token
    match = _match(cursor)
    # Spark wants it so: whatever follows an unconditional clause could never be reached
    if any(clause.match == match and clause.condition is None for clause in before):
        raise cursor.passage.error(
            start.start,
            f"WHEN {match.replace('_', ' ').upper()} follows one without a condition",
            "only the last clause of a kind may leave AND … out",
        )
    condition = cursor.expression("THEN") if cursor.accept("AND") else None
    cursor.expect("THEN")
    if match == "not_matched":
        return _insert(cursor, match, condition, target, alias)
    if cursor.accept("DELETE"):
        return MergeClause(match, "delete", condition)
    if not cursor.accept("UPDATE"):
        raise cursor.error("UPDATE or DELETE")
    cursor.expect("SET")
    if cursor.accept("*"):
        if match == "not_matched_by_source":
            raise Unsupported("UPDATE SET * needs a source row: not with NOT MATCHED BY SOURCE")
        return MergeClause(match, "update", condition, star=True)
    assignments = read_assignments(cursor, target, alias, "WHEN")
    return MergeClause(match, "update", condition, assignments)


def _match(cursor: Cursor) -> Match:
    if cursor.accept("MATCHED"):
        return "matched"
    cursor.expect("NOT", "MATCHED")
    if not cursor.accept("BY"):
        return "not_matched"
    if cursor.accept("SOURCE"):
        return "not_matched_by_source"
    if cursor.accept("TARGET"):
        return "not_matched"
    raise cursor.error("SOURCE or TARGET")


def _insert(
    cursor: Cursor, match: Match, condition: str | None, target: TableName, alias: str | None
) -> MergeClause:
    cursor.expect("INSERT")
    if cursor.accept("*"):
        return MergeClause(match, "insert", condition, star=True)
    if not cursor.at("("):
        raise cursor.error('"*" or the columns in brackets')
    columns = cursor.bracketed(lambda: read_target(cursor, target, alias))
    no_repeats(columns)
    cursor.expect("VALUES")
    start = cursor.token
    values = cursor.bracketed(lambda: read_value(cursor, ",", ")"))
    if len(columns) != len(values):
        raise cursor.passage.error(
            start.start, f"INSERT names {len(columns)} columns but gives {len(values)} values"
        )
    assignments: Assignments = tuple(zip(columns, values, strict=True))
    return MergeClause(match, "insert", condition, assignments)
