"""CALL system.procedure(value, …, name => value, …): verbs that SQL has no statement for.

A value is a text, a number, TRUE, FALSE or NULL.
"""

from __future__ import annotations

from anabranch.errors import Unsupported
from anabranch.names import SYSTEM_SCHEMA
from anabranch.sql.statements.records import Call, Statement, Value
from anabranch.sql.text.cursor import Cursor
from anabranch.sql.text.tokens import Sort

WORDS: dict[str, Value] = {"TRUE": True, "FALSE": False, "NULL": None}


def call(cursor: Cursor) -> Statement:
    schema, *name = cursor.parts("a procedure")
    if schema.lower() != SYSTEM_SCHEMA or len(name) != 1:
        raise Unsupported(
            f"there is no procedure {'.'.join((schema, *name))}",
            hint="procedures are called as CALL system.name(…)",
        )
    given: list[Value] = []
    named: dict[str, Value] = {}
    cursor.expect("(")
    while not cursor.at(")"):
        start = cursor.token.start
        if cursor.token.sort is Sort.WORD and cursor.peek().says("="):
            key = cursor.identifier("an argument").lower()
            cursor.expect("=", ">")
            if key in named:
                raise cursor.passage.error(start, f"{key} is given twice")
            named[key] = _value(cursor)
        elif named:
            raise cursor.error("name => value", "arguments without a name come first")
        else:
            given.append(_value(cursor))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    cursor.expect_end()
    return Call(name[0].lower(), tuple(given), tuple(named.items()))


def _value(cursor: Cursor) -> Value:
    sign = -1 if cursor.accept("-") else 1
    token = cursor.next()
    if token.sort is Sort.STRING and sign == 1:
        return token.value
    if token.sort is Sort.NUMBER:
        try:
            return sign * int(token.text)
        except ValueError:
            pass
        try:
            return sign * float(token.text)
        except ValueError:
            pass
    if token.sort is Sort.WORD and token.text.upper() in WORDS and sign == 1:
        return WORDS[token.text.upper()]
    raise cursor.passage.error(
        token.start, f"expected a value, found {token.shown}", "write 'text', a number or TRUE"
    )
