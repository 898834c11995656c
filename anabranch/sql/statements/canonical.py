"""The canonical form of a query or a statement: equal forms mean the same to Spark.

Layout, comments, the case of keywords and functions and the way a string is quoted do not count.
Plain names are folded where only Spark's lookup sees them: in table names, conditions, keys and
orders.  In a SELECT list their case may become the name of a column, so there they stay.  Names in
quotes, literals and all the rest stay as written: two meanings never get one form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from sqlglot import exp

from anabranch.names import quote, shown
from anabranch.sql.statements.records import (
    ColumnDef,
    CreateStreamTable,
    CreateTable,
    CreateTableAs,
    CreateView,
    Statement,
)
from anabranch.sql.text.parse import Passage, parse_query
from anabranch.sql.text.tokens import Sort, Token, tokenize

_LOOKED_UP = ("where", "group", "having", "qualify", "order", "joins", "sort", "cluster")


def canonical_query(text: str) -> str:
    """The canonical form of a query."""
    tokens = tokenize(text)[:-1]
    while tokens and tokens[-1].says(";"):
        tokens.pop()
    if not tokens:
        return ""
    end = tokens[-1].end
    if tokens[0].says("VALUES") and not any(token.says("SELECT") for token in tokens):
        return " ".join(_spelled(tokens, {}))  # long lists need no tree: nothing in them is a name
    tree = parse_query(Passage(text, tokens[0].start, end))
    base = tokens[0].start
    names = {
        base + start: _folds(part)
        for part in tree.find_all(exp.Identifier)
        if isinstance(start := part.meta.get("start"), int)
    }
    return " ".join(_spelled(tokens, names))


def canonical(statement: Statement) -> str:
    """The canonical form of a CREATE without the object's name, which is its key.

    Only what decides rows, columns and home: see `metadata` for the rest.
    """
    match statement:
        case CreateTable():
            return f"TABLE ({', '.join(map(_column, statement.columns))})"
        case CreateTableAs():
            return f"TABLE AS {canonical_query(statement.query)}"
        case CreateView():
            columns = ", ".join(map(quote, statement.columns or ()))
            return f"VIEW{f' ({columns})' if columns else ''} AS {canonical_query(statement.query)}"
        case CreateStreamTable():
            home = f" IN CLUSTER {quote(statement.cluster)}" if statement.cluster else ""
            return f"STREAM TABLE{home} AS {canonical_query(statement.query)}"
    raise TypeError(f"{type(statement).__name__} creates no object of a project")


def metadata(statement: Statement) -> str:
    """What a CREATE says beyond its canonical form, one `name = value` a line: it changes no row."""
    options: dict[str, str | None] = {}
    if isinstance(statement, CreateStreamTable):
        options = {"schedule": statement.schedule, "refresh_mode": statement.refresh_mode.value}
        options |= statement.options
    elif isinstance(statement, (CreateTable, CreateTableAs, CreateView)):
        options = {"comment": statement.comment}
        if isinstance(statement, CreateTable):
            options |= {f"comment of {shown(c.name)}": c.comment for c in statement.columns}
    return "\n".join(
        f"{name} = {json.dumps(value, ensure_ascii=False)}"
        for name, value in sorted(options.items())
        if value is not None or name == "schedule"
    )


def _column(column: ColumnDef) -> str:
    return f"{quote(column.name)} {column.type}{'' if column.nullable else ' NOT NULL'}"


def _spelled(tokens: list[Token], names: dict[int, bool]) -> Iterator[str]:
    for token in tokens:
        yield _spelling(token, names.get(token.start))


def _spelling(token: Token, folds: bool | None) -> str:
    """`folds` is None for what is no name: a keyword, a function, a type."""
    match token.sort:
        case Sort.STRING:
            return json.dumps(token.value, ensure_ascii=False)
        case Sort.QUOTED:
            return quote(token.value)
        case Sort.WORD if folds is None:
            return token.text.upper()
        case Sort.WORD if folds:
            return token.text.lower()
        case Sort.NUMBER:
            return token.text.upper()
    return token.text


def _folds(name: exp.Identifier) -> bool:
    """Is the case of this name seen by nobody but Spark's lookup?"""
    parent = name.parent
    if isinstance(parent, exp.Table):
        return True
    if isinstance(parent, exp.TableAlias):
        return name.arg_key == "this"
    if not isinstance(parent, exp.Column):
        return False
    if name.arg_key != "this":
        return True
    node: exp.Expr = parent
    while node.parent is not None and not isinstance(node.parent, exp.Query):
        node = node.parent
    return node.arg_key in _LOOKED_UP and not node.find(exp.Dot)
