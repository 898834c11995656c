"""What is wrong with a query, as an error."""

from __future__ import annotations

from anabranch.errors import AnabranchError, UnknownName, UserError
from anabranch.sql.analyze.analysis import analyze
from anabranch.sql.analyze.columns import Relation
from anabranch.sql.analyze.walk import Tables
from anabranch.sql.text.parse import Passage
from anabranch.sql.text.tokens import place


def mistake(query: str, tables: Tables) -> UserError | None:
    """The first thing that is surely wrong with a query, with its place."""
    if is_list_of_values(query):
        return None
    try:
        analysis = analyze(query, tables).findings
    except AnabranchError:
        return None  # Spark may take what we cannot read
    if not analysis:
        return None
    at = place(query, analysis[0].start)
    message = f"{analysis[0].message} (line {at.line}, column {at.column})"
    error = UnknownName(message) if analysis[0].unknown else UserError(message)
    error.hint = analysis[0].hint
    return error


def relation_of(query: str, tables: Tables) -> Relation:
    """What a view gives to those who read it; what is wrong with it is not their mistake."""
    try:
        return analyze(query, tables).relation
    except AnabranchError:
        return Relation(None)


def is_list_of_values(query: str) -> bool:
    """VALUES (…), (…): there is nothing to be looked up in it, and it may be long."""
    upper = query.upper()
    if "VALUES" not in upper or "SELECT" not in upper:
        return upper.lstrip().startswith("VALUES")
    tokens = Passage.of(query).tokens()
    return tokens[0].says("VALUES") and not any(token.says("SELECT") for token in tokens)
