"""`(name = value, …)`: options of a statement, as texts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from anabranch.errors import InvalidValue
from anabranch.sql.text.cursor import Cursor
from anabranch.sql.text.tokens import Sort

_REFERENCES = ("ENV", "FILE")  # ENV('X'): a secret that stands elsewhere


def read_options(cursor: Cursor) -> Mapping[str, str]:
    """Names are lower-cased; those of Spark keep their letters."""
    pairs = cursor.bracketed(lambda: _option(cursor))
    options = dict(pairs)
    if len(options) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidValue(f'option "{twice}" appears twice')
    return MappingProxyType(options)


def _option(cursor: Cursor) -> tuple[str, str]:
    quoted = cursor.token.sort is Sort.STRING
    name = cursor.string() if quoted else ".".join(cursor.parts("an option's name"))
    cursor.expect("=")
    return name if name.startswith("spark.") else name.lower(), _value(cursor)


def _value(cursor: Cursor) -> str:
    sign = "-" if cursor.accept("-") else ""
    if cursor.token.sort not in (Sort.STRING, Sort.NUMBER, Sort.WORD):
        raise cursor.error("a value")
    value = cursor.next()
    if value.sort is Sort.WORD and value.text.upper() in _REFERENCES and cursor.accept("("):
        name = cursor.string()
        cursor.expect(")")
        return f"{value.text.upper()}('{name}')"
    return sign + value.value
