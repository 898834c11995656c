"""A query's text, its tree, and where in the text a part of the tree stands."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokenizer_core import Token

from anabranch.errors import SqlSyntaxError
from anabranch.names import TableName
from anabranch.plan.exprs import VERBATIM, Tree, unwrapped
from anabranch.sql.obstacles import Obstacle, obstacle

_NEAR = 12  # tokens between a keyword and the first name after it


@dataclass(frozen=True)
class SourceText:
    text: str
    view: TableName | None = None  # the view whose text it is; None: the user's own query

    @cached_property
    def tree(self) -> Tree:
        logging.getLogger("sqlglot").setLevel(logging.ERROR)
        try:
            trees = VERBATIM.parse(self.text, error_level=ErrorLevel.IMMEDIATE)
        except SqlglotError as error:
            raise self.syntax_error(error) from None
        statements = [tree for tree in trees if tree is not None]
        if len(statements) != 1:
            raise SqlSyntaxError(f"expected one query, found {len(statements)}")
        tree = unwrapped(statements[0])
        if not isinstance(tree, (exp.Query, exp.Values)):
            raise SqlSyntaxError("expected a query", text=self.text, line=1, column=1)
        return tree

    def syntax_error(self, error: SqlglotError) -> SqlSyntaxError:
        where = f" in view {self.view}" if self.view else ""
        details = getattr(error, "errors", None)
        if not details:
            return SqlSyntaxError(f"the text{where} does not parse: {error}")
        first = details[0]
        line, last = first.get("line") or 1, first.get("col") or 1
        start = max(1, last - len(first.get("highlight") or "") + 1)
        message = f"{first.get('description') or 'syntax error'}{where}".rstrip(".")
        return SqlSyntaxError(message, text=self.text, line=line, column=start)

    @cached_property
    def tokens(self) -> list[Token]:
        return VERBATIM.tokenize(self.text)

    def obstacle(self, code: str, node: Tree, *words: str, what: str = "") -> Obstacle:
        line, column = self.place(node, *words)
        return obstacle(code, line, column, what=what, view=self.view)

    def place(self, node: Tree, *words: str) -> tuple[int, int]:
        """Line and column of the node; of the nearest of `words` before it, where there is one."""
        start = self.start(node)
        if words:
            start = self.keyword(start, words)
        return self.position(start)

    def position(self, start: int) -> tuple[int, int]:
        """Line and column of an offset, from 1."""
        return self.text.count("\n", 0, start) + 1, start - self.text.rfind("\n", 0, start)

    def start(self, node: Tree | None) -> int:
        while node is not None:
            starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
            if starts:
                return int(min(starts))
            node = node.parent
        return 0

    def keyword(self, start: int, words: tuple[str, ...]) -> int:
        for token in self._backwards(start):
            if token.text.upper() in words:
                return token.start
        return start

    def _backwards(self, start: int) -> Iterator[Token]:
        before = [token for token in self.tokens if token.start <= start]
        return reversed(before[-_NEAR:])
