"""Spark SQL as tokens that know where they stand in the user's text.

sqlglot's tokenizer swallows whole statements behind words such as SHOW, and says nothing about
where a string was left open, so statements are cut up by these few patterns instead.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from anabranch.errors import SqlSyntaxError


class Sort(Enum):
    WORD = "word"  # keyword or plain identifier
    QUOTED = "quoted"  # `identifier`
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"  # one character
    END = "end"


@dataclass(frozen=True)
class Place:
    """Line and column, from 1."""

    line: int
    column: int

    def shift(self, inner: Place) -> Place:
        """Where `inner`, a place in a text that starts here, stands in the whole text."""
        if inner.line == 1:
            return Place(self.line, self.column + inner.column - 1)
        return Place(self.line + inner.line - 1, inner.column)


class Token(NamedTuple):  # a tuple, since a long INSERT has a million of them
    sort: Sort
    text: str
    start: int
    end: int  # one past the last character

    def says(self, word: str) -> bool:
        """Is this the keyword or the symbol?"""
        return self.text.upper() == word and self.sort in (Sort.WORD, Sort.SYMBOL)

    @property
    def value(self) -> str:
        """What a string or an identifier means, without its quotes."""
        if self.sort is Sort.QUOTED:
            return self.text[1:-1].replace("``", "`")
        return string_value(self.text) if self.sort is Sort.STRING else self.text

    @property
    def shown(self) -> str:
        if self.sort is Sort.END:
            return "end of text"
        return self.text if self.sort in (Sort.STRING, Sort.QUOTED) else f'"{self.text}"'


_TOKEN = re.compile(
    r"""
      (?P<blank>   \s+ | --(?:\\\r?\n|[^\r\n])* )
    | (?P<comment> /\* )
    | (?P<string>  [rR]'[^']*' | [rR]"[^"]*"
                 | '[^'\\]*(?:(?:\\.|'')[^'\\]*)*'
                 | "[^"\\]*(?:(?:\\.|"")[^"\\]*)*" )
    | (?P<quoted>  `(?:[^`]|``)*` )
    | (?P<number>  (?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?:[lLsSyYfFdD]|[bB][dD])?(?!\w) )
    | (?P<word>    \w+ )
    | (?P<symbol>  . )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_SORTS = {sort.value: sort for sort in Sort}
_OPEN = {"'": "string", '"': "string", "`": "quoted name"}


def place(text: str, offset: int) -> Place:
    """The line and column of an offset; lines end as `str.splitlines` says, like in `caret`."""
    lines = text[:offset].splitlines(keepends=True)
    if not lines:
        return Place(1, 1)
    if lines[-1].splitlines()[0] != lines[-1]:
        return Place(len(lines) + 1, 1)
    return Place(len(lines), len(lines[-1]) + 1)


def syntax_error(text: str, offset: int, message: str, hint: str | None = None) -> SqlSyntaxError:
    at = place(text, offset)
    return SqlSyntaxError(message, text=text, line=at.line, column=at.column, hint=hint)


def tokenize(text: str, start: int = 0, end: int | None = None) -> list[Token]:
    """The tokens of a stretch of `text`, without blanks and comments, closed by an END token."""
    tokens = list(_tokens(text, start, len(text) if end is None else end))
    last = tokens[-1].end if tokens else start
    return [*tokens, Token(Sort.END, "", last, last)]


def _tokens(text: str, at: int, end: int) -> Iterator[Token]:
    while match := _TOKEN.match(text, at, end):
        at = match.end()
        sort = match.lastgroup
        if sort == "comment":
            at = _comment_end(text, match.start(), end)
        elif sort is not None and sort != "blank":
            if match[0] in _OPEN:
                raise syntax_error(text, match.start(), f"{_OPEN[match[0]]} is not closed")
            if sort == "string" and _UNICODE.search(match[0]):
                _check_string(text, match.start(), match[0])
            yield Token(_SORTS[sort], match[0], match.start(), at)


def _check_string(text: str, start: int, literal: str) -> None:
    """Said with its place, whatever the literal stands in and whoever reads it."""
    try:
        string_value(literal)
    except SqlSyntaxError as error:
        raise syntax_error(text, start, error.plain, error.hint) from None


def _comment_end(text: str, start: int, end: int) -> int:
    """Comments nest, as in Spark."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start, end):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    raise syntax_error(text, start, "comment is not closed")


_ESCAPE = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-1][0-7]{2})|(.))|''|\"\"", re.DOTALL
)
_UNICODE = re.compile(r"\\[uU]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NO_CHARACTER = (
    r"write a character up to \U0010ffff, other than \ud800 to \udfff, which count in pairs only; r'…' "
    "takes a backslash as it stands"
)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def string_value(literal: str) -> str:
    """What a Spark string literal means: escapes resolved, r'…' taken as it stands.

    Spark makes other characters of escapes that stand for none: they are refused.
    """
    if literal[0] in "rR":
        return literal[2:-1]
    delimiter = literal[0]

    def meaning(match: re.Match[str]) -> str:
        short, long, octal, char = match.groups()
        if short or long:
            code = int(short or long, 16)
            if code > sys.maxunicode:
                raise SqlSyntaxError(f"{match[0]} is no character", hint=_NO_CHARACTER)
            return chr(code)
        if octal:
            return chr(int(octal, 8))
        if char is None:  # a doubled quote is one quote only inside quotes of its own kind
            return delimiter if match[0][0] == delimiter else match[0]
        if char in "%_":  # kept with its backslash: it is LIKE that reads it
            return match[0]
        return _ESCAPED.get(char, char)

    value = _ESCAPE.sub(meaning, literal[1:-1])
    return _joined(value) if _SURROGATE.search(value) else value


def _joined(value: str) -> str:
    r"""Pairs such as `\ud83e\udd86` become the one character that they stand for."""
    try:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError as error:
        half = value.encode("utf-16-le", "surrogatepass")[error.start : error.start + 2]
        shown = f"\\u{int.from_bytes(half, 'little'):04x}"
        raise SqlSyntaxError(f"{shown} is half of a character", hint=_NO_CHARACTER) from None
