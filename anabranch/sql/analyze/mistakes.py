"""What is wrong with a query, as an error."""

from __future__ import annotations

from contextlib import suppress

from anabranch.errors import AnabranchError, UnknownName, UserError
from anabranch.names import TableName
from anabranch.sql.analyze.analysis import analyze
from anabranch.sql.analyze.columns import Relation
from anabranch.sql.analyze.failures import spark_judges
from anabranch.sql.analyze.findings import Finding
from anabranch.sql.analyze.walk import Tables
from anabranch.sql.text.parse import Passage
from anabranch.sql.text.tokens import place


def mistake(query: str, tables: Tables, table: TableName | None = None) -> UserError | None:
    """The first thing that is surely wrong with a query, that of `table` perhaps, with its place."""
    if is_list_of_values(query):
        return None
    findings: tuple[Finding, ...] = ()
    what = "a query" if table is None else "its query"
    with suppress(AnabranchError), spark_judges(what, table):  # Spark may take what we cannot read
        findings = analyze(query, tables).findings
    if not findings:
        return None
    at = place(query, findings[0].start)
    message = f"{findings[0].message} (line {at.line}, column {at.column})"
    error = UnknownName(message) if findings[0].unknown else UserError(message)
    error.hint = findings[0].hint
    return error


def relation_of(query: str, tables: Tables) -> Relation:
    """What a view gives to those who read it; what is wrong with it is not their mistake."""
    with suppress(AnabranchError), spark_judges("a query"):
        return analyze(query, tables).relation
    return Relation(None)


def is_list_of_values(query: str) -> bool:
    """VALUES (…), (…): there is nothing to be looked up in it, and it may be long."""
    upper = query.upper()
    if "VALUES" not in upper or "SELECT" not in upper:
        return upper.lstrip().startswith("VALUES")
    tokens = Passage.of(query).tokens()
    return tokens[0].says("VALUES") and not any(token.says("SELECT") for token in tokens)
