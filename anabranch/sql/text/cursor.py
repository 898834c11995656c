"""A reader that walks over the tokens of one statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from anabranch.errors import SqlSyntaxError
from anabranch.names import TableName
from anabranch.sql.text.parse import Fragment, Passage, check_query, parse_expression
from anabranch.sql.text.tokens import Sort, Token

T = TypeVar("T")
_OPENING = {"(": ")", "[": "]", "{": "}"}


class Cursor:
    """`home` are the database and schema that names of fewer parts are seen from."""

    def __init__(self, passage: Passage, home: tuple[str, ...] = ()) -> None:
        self.passage = passage
        self.home = home
        self.tokens = passage.tokens()
        self.index = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def peek(self, ahead: int = 1) -> Token:
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def ended(self) -> bool:
        return self.token.sort is Sort.END

    def next(self) -> Token:
        token = self.token
        self.index = min(self.index + 1, len(self.tokens) - 1)
        return token

    def at(self, *words: str) -> bool:
        """Do these keywords or symbols come next, one behind the other?"""
        return all(self.peek(ahead).says(word) for ahead, word in enumerate(words))

    def at_any(self, *words: str) -> bool:
        return any(self.token.says(word) for word in words)

    def accept(self, *words: str) -> bool:
        """Step over these keywords if they come next."""
        if not self.at(*words):
            return False
        self.index += len(words)
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                raise self.error(word if word.isalpha() else f'"{word}"')

    def expect_end(self) -> None:
        if not self.ended():
            raise self.passage.error(self.token.start, f"unexpected {self.token.shown}")

    def error(self, expected: str, hint: str | None = None) -> SqlSyntaxError:
        message = f"expected {expected}, found {self.token.shown}"
        return self.passage.error(self.token.start, message, hint)

    def identifier(self, what: str = "a name") -> str:
        if self.token.sort not in (Sort.WORD, Sort.QUOTED):
            raise self.error(what)
        token = self.next()
        if self.at("-") and self.peek().sort in (Sort.WORD, Sort.NUMBER):
            raise self.passage.error(
                self.token.start, 'unexpected "-"', "put names with other characters in `backticks`"
            )
        return Fragment.of(token.value, self.passage.whole, token.start)

    def parts(self, what: str = "a name") -> tuple[str, ...]:
        parts = [self.identifier(what)]
        while self.accept("."):
            parts.append(self.identifier(what))
        return tuple(parts)

    def table_name(self) -> TableName:
        return self.absolute(self.parts("a table name"))

    def absolute(self, parts: Sequence[str]) -> TableName:
        missing = max(0, 3 - len(parts))
        return TableName.of(*self.home[:missing], *parts)

    def string(self, what: str = "a 'string'") -> str:
        if self.token.sort is not Sort.STRING:
            raise self.error(what)
        return self.next().value

    def bracketed(self, item: Callable[[], T]) -> tuple[T, ...]:
        """`( item, item, … )`, at least one."""
        self.expect("(")
        items = self.listed(item)
        self.expect(")")
        return items

    def listed(self, item: Callable[[], T]) -> tuple[T, ...]:
        items = [item()]
        while self.accept(","):
            items.append(item())
        return tuple(items)

    def until(self, *stops: str) -> Passage:
        """The text up to a stop word (or the end) outside brackets and CASE … END."""
        start = self.token.start
        end = start
        closers: list[str] = []
        while not self.ended() and (closers or not self._stops(stops)):
            token = self.next()
            end = token.end
            if self._behind_dot(self.index - 1):
                continue
            if closers and token.says(closers[-1]):
                closers.pop()
            elif token.text in _OPENING:
                closers.append(_OPENING[token.text])
            elif token.says("CASE"):
                closers.append("END")
        return Passage(self.passage.whole, start, end)

    def _stops(self, stops: tuple[str, ...]) -> bool:
        return not self._behind_dot(self.index) and self.at_any(*stops)

    def _behind_dot(self, index: int) -> bool:
        """A word behind a dot is a column's name, not a keyword."""
        return index > 0 and self.tokens[index - 1].says(".")

    def expression(self, *stops: str) -> str:
        """The exact text of the expression up to a stop word; checked, not rewritten."""
        passage = self.until(*stops)
        if passage.start == passage.end:
            raise self.error("an expression")
        parse_expression(passage)
        return Fragment.of(passage.text, passage.whole, passage.start)

    def query(self) -> Passage:
        """The rest of the statement as a query; checked, not rewritten."""
        passage = self.until()
        check_query(passage)
        return passage
