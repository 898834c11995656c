"""Column types as Spark writes them, in one lower-case form: `decimal(12,2)`, `array<int>`."""

from __future__ import annotations

from anabranch.errors import InvalidValue, Unsupported, did_you_mean
from anabranch.names import shown
from anabranch.sql.cursor import Cursor
from anabranch.sql.parse import Passage
from anabranch.sql.tokens import Sort

PLAIN = {
    "BOOLEAN": "boolean",
    "BYTE": "tinyint",
    "TINYINT": "tinyint",
    "SHORT": "smallint",
    "SMALLINT": "smallint",
    "INT": "int",
    "INTEGER": "int",
    "LONG": "bigint",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "REAL": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamp",
    "TIMESTAMP_NTZ": "timestamp_ntz",
}
DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
SIZED = {"CHAR": "char", "CHARACTER": "char", "VARCHAR": "varchar"}
NESTED = ("ARRAY", "MAP", "STRUCT")
REFUSED = ("INTERVAL", "VARIANT", "VOID", "TIME", "GEOMETRY", "GEOGRAPHY", "OBJECT")
KNOWN = (*PLAIN, *DECIMALS, *SIZED, *NESTED)
MAX_PRECISION = 38


def column_type(text: str) -> str:
    """`DECIMAL(12, 2)` → `decimal(12,2)`."""
    cursor = Cursor(Passage.of(text))
    found = read_type(cursor)
    cursor.expect_end()
    return found


def read_type(cursor: Cursor) -> str:
    if cursor.token.sort is not Sort.WORD:
        raise cursor.error("a type")
    word = cursor.next().text
    upper = word.upper()
    if upper in PLAIN:
        return _uncollated(cursor, PLAIN[upper])
    if upper in DECIMALS:
        return _decimal(cursor)
    if upper in SIZED:
        return f"{SIZED[upper]}({_size(cursor)})"
    if upper in NESTED:
        return _nested(cursor, upper)
    if upper in REFUSED:
        raise Unsupported(f"columns of type {upper} are not supported")
    raise Unsupported(
        f'"{word}" is not a type', hint=did_you_mean(word, KNOWN) or f"types: {', '.join(KNOWN)}"
    )


def _uncollated(cursor: Cursor, name: str) -> str:
    if name == "string" and cursor.at("COLLATE"):
        raise Unsupported("STRING COLLATE is not supported", hint="use STRING")
    return name


def _decimal(cursor: Cursor) -> str:
    precision, scale = 10, 0
    if cursor.accept("("):
        precision = _number(cursor)
        scale = _number(cursor) if cursor.accept(",") else 0
        cursor.expect(")")
    if not 1 <= precision <= MAX_PRECISION or scale > precision:
        raise InvalidValue(
            f"decimal({precision},{scale}) is not a type",
            hint=f"precision is 1 to {MAX_PRECISION}, scale 0 to the precision",
        )
    return f"decimal({precision},{scale})"


def _size(cursor: Cursor) -> int:
    cursor.expect("(")
    size = _number(cursor)
    cursor.expect(")")
    if size < 1:
        raise InvalidValue("the length of CHAR or VARCHAR is at least 1")
    return size


def _number(cursor: Cursor) -> int:
    token = cursor.token
    if token.sort is not Sort.NUMBER or not token.text.isdigit():
        raise cursor.error("a whole number")
    return int(cursor.next().text)


def _nested(cursor: Cursor, kind: str) -> str:
    cursor.expect("<")
    if kind == "ARRAY":
        inside = read_type(cursor)
    elif kind == "MAP":
        key = read_type(cursor)
        cursor.expect(",")
        inside = f"{key},{read_type(cursor)}"
    else:
        fields = cursor.listed(lambda: _field(cursor))
        names = [name.lower() for name, _ in fields]
        for name in names:
            if names.count(name) > 1:
                raise InvalidValue(f"field {shown(name)} appears twice in a struct")
        inside = ",".join(f"{shown(name)}:{type_}" for name, type_ in fields)
    cursor.expect(">")
    return f"{kind.lower()}<{inside}>"


def _field(cursor: Cursor) -> tuple[str, str]:
    name = cursor.identifier("a field's name")
    cursor.accept(":")
    found = read_type(cursor)
    if cursor.at_any("NOT", "COMMENT"):
        clause = "NOT NULL" if cursor.at("NOT") else "COMMENT"
        raise Unsupported(f"{clause} inside STRUCT is not supported")
    return name, found
