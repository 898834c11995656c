"""Types of columns in statements: those that a table can hold."""

from __future__ import annotations

from anabranch.errors import Unsupported
from anabranch.sql.text.cursor import Cursor
from anabranch.sql.text.parse import Passage
from anabranch.sql.text.tokens import Sort
from anabranch.types import NotAType, Type, UnknownType
from anabranch.types import read_type as read


def column_type(text: str) -> str:
    """`DECIMAL(12, 2)` → `decimal(12,2)`."""
    cursor = Cursor(Passage.of(text))
    parsed = read_type(cursor)
    cursor.expect_end()
    return parsed


def read_type(cursor: Cursor) -> str:
    if cursor.token.sort is not Sort.WORD:
        raise cursor.error("a type")
    try:
        parsed, end = read(cursor.passage.whole[: cursor.passage.end], cursor.token.start)
    except UnknownType as error:
        raise Unsupported(error.message, hint=error.hint) from None
    except NotAType as error:
        raise cursor.passage.error(error.at, error.message, error.hint) from None
    _refuse(parsed)
    while not cursor.ended() and cursor.token.start < end:
        cursor.next()
    return str(parsed)


def _refuse(type_: Type) -> None:
    if (part := type_.unstorable) is not None:
        hint = "use STRING" if part.collation else None
        raise Unsupported(f"columns of type {str(part).upper()} are not supported", hint=hint)
    if any(field.required for part in type_.walk() for field in part.fields):
        raise Unsupported("NOT NULL inside STRUCT is not supported")
