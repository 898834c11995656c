"""Variables of a profile: `:name` in a file stands for a literal, and for nothing else.

A value of TOML becomes the SQL literal of its type, whole and quoted, so it cannot change the shape of
a statement: there is no text that is pasted in.  A list becomes `1, 2, 3`, to stand in brackets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property

from anabranch.errors import InvalidValue, SqlSyntaxError
from anabranch.sql.text.tokens import Place, Sort, Token, place, tokenize


@dataclass(frozen=True)
class Expanded:
    """A text with its variables filled in, and how to find a place of it in the text as written."""

    text: str
    written: str
    edits: tuple[tuple[int, int, int, int], ...] = ()  # (new start, new end, old start, old end)
    used: frozenset[str] = frozenset()
    unknown: tuple[tuple[str, int], ...] = ()  # (name, offset in the text as written)

    def origin(self, offset: int) -> int:
        """Where an offset of the text stands in the text as written."""
        shift = 0
        for new_start, new_end, old_start, old_end in self.edits:
            if offset < new_start:
                break
            if offset < new_end:
                return old_start
            shift = old_end - new_end
        return offset + shift

    def written_place(self, at: Place) -> Place:
        return place(self.written, self.origin(self.offset(at)))

    def offset(self, at: Place) -> int:
        start = self._lines[min(at.line, len(self._lines)) - 1]
        return min(start + at.column - 1, len(self.text))

    @cached_property
    def _lines(self) -> list[int]:
        starts = [0]
        for line in self.text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts


def expand(text: str, values: Mapping[str, object]) -> Expanded:
    """Fill in the variables; those that have no value are reported, and NULL for the time being."""
    if ":" not in text:
        return Expanded(text, text)
    try:
        tokens = tokenize(text)
    except SqlSyntaxError:  # said again, with its place, when the file is read
        return Expanded(text, text)
    pieces: list[str] = []
    edits: list[tuple[int, int, int, int]] = []
    used: set[str] = set()
    unknown: list[tuple[str, int]] = []
    at = length = 0
    for index, token in enumerate(tokens):
        if not _is_variable(tokens, index):
            continue
        name, end = tokens[index + 1].text, tokens[index + 1].end
        if name in values:
            used.add(name)
        else:
            unknown.append((name, token.start))
        value = literal(name, values[name]) if name in values else "NULL"
        between = text[at : token.start]
        start = length + len(between)
        edits.append((start, start + len(value), token.start, end))
        pieces += [between, value]
        at, length = end, start + len(value)
    return Expanded(
        "".join(pieces) + text[at:], text, tuple(edits), frozenset(used), tuple(unknown)
    )


def _is_variable(tokens: list[Token], index: int) -> bool:
    """`:name` in one piece that touches no word before it: `STRUCT<a:INT>` and `a::INT` are none."""
    token, behind = tokens[index], tokens[min(index + 1, len(tokens) - 1)]
    if not token.says(":") or behind.sort is not Sort.WORD or behind.start != token.end:
        return False
    before = tokens[index - 1] if index else None
    if before is None or before.end != token.start:
        return True
    return before.sort is Sort.SYMBOL and before.text not in (":", ")", "]")


def literal(name: str, value: object) -> str:
    """A value as SQL writes it."""
    kinds: list[tuple[type | tuple[type, ...], Callable[[object], str]]] = [
        (bool, lambda one: "TRUE" if one else "FALSE"),
        (int, lambda one: _signed(str(one))),
        (float, lambda one: _double(name, one)),
        (str, lambda one: "'" + "".join(map(_escaped, str(one))) + "'"),
        (datetime, _timestamp),
        (date, lambda one: f"DATE '{one}'"),
    ]
    for kind, write in kinds:
        if isinstance(value, kind):
            return write(value)
    if isinstance(value, list) and value and not any(isinstance(one, list) for one in value):
        return ", ".join(literal(name, one) for one in value)
    raise InvalidValue(
        f"variable {name}: {value!r} has no SQL literal",
        hint="use a text, number, boolean, date, time stamp or a list of those",
    )


def _escaped(char: str) -> str:
    if char in "\\'":
        return "\\" + char
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text  # `- -1` would be a comment


def _double(name: str, value: object) -> str:
    assert isinstance(value, float)
    if not math.isfinite(value):
        raise InvalidValue(f"variable {name}: {value} is not a number")
    return _signed(f"{value!r}D")


def _timestamp(value: object) -> str:
    assert isinstance(value, datetime)
    kind = "TIMESTAMP" if value.tzinfo is not None else "TIMESTAMP_NTZ"
    return f"{kind} '{value.isoformat(sep=' ')}'"
