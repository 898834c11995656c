"""The files of a project, read: one record for each thing that a file declares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from anabranch.deploy.snapshot import ObjectKey, ObjectKind
from anabranch.errors import AnabranchError, SqlSyntaxError
from anabranch.project.problems import Problem
from anabranch.project.variables import Expanded
from anabranch.sql.analyze.tables import Reference, references
from anabranch.sql.statements.records import (
    Comment,
    CreateCluster,
    CreateIndex,
    CreateStreamTable,
    CreateTable,
    CreateTest,
    CreateView,
)
from anabranch.sql.text.parse import Passage
from anabranch.sql.text.tokens import Place, place

Created = CreateTable | CreateView | CreateStreamTable
START = Place(1, 1)


@dataclass(frozen=True)
class SourceFile:
    """A file's text with its variables filled in; `name` is its path inside the project."""

    name: str
    expanded: Expanded

    @property
    def text(self) -> str:
        return self.expanded.text

    def problem(self, at: Place | int, message: str, hint: str | None = None) -> Problem:
        """A problem at a place or offset of the text, shown where the user wrote it."""
        if isinstance(at, int):
            at = place(self.text, at)
        return self.written_problem(self.expanded.written_place(at), message, hint)

    def written_problem(self, at: Place, message: str, hint: str | None = None) -> Problem:
        lines = self.expanded.written.splitlines()
        text = lines[at.line - 1] if at.line <= len(lines) else ""
        return Problem(self.name, at.line, at.column, message, hint, text)

    def of_error(self, error: AnabranchError, passage: Passage | None = None) -> Problem:
        """An error of the parser, at its place, or else at what it names in quotes."""
        if isinstance(error, SqlSyntaxError) and error.line and error.column:
            return self.problem(Place(error.line, error.column), error.plain, error.hint)
        at = _named(error.message, passage) if passage else 0
        return self.problem(at, error.message, error.hint)


def _named(message: str, passage: Passage) -> int:
    """The offset of what the message names: in quotes, or else by the longest name in its words."""
    tokens = passage.tokens()
    for token in tokens:
        if len(token.text) > 1 and f'"{token.value}"' in message:
            return token.start
    words = set(re.findall(r"\w+", message)) - _PROSE
    named = [token for token in tokens if token.value in words and not token.value.isupper()]
    return max(named, key=lambda token: len(token.value), default=tokens[0]).start


_PROSE = frozenset(
    """a all an and as at be by can cannot column columns does exist for from function has have in is it
    its more no not of on one or query table takes than that the there this to two type value with
    """.split()
)


@dataclass(frozen=True)
class Placed:
    """Where a statement stands in its file."""

    file: SourceFile
    passage: Passage

    def problem(self, message: str, hint: str | None = None, word: str = "") -> Problem:
        """At the statement's first mention of a word, or at its start."""
        tokens = self.passage.tokens() if word else []
        at = next((t.start for t in tokens if t.value.lower() == word.lower()), self.passage.start)
        return self.file.problem(at, message, hint)


@dataclass(frozen=True)
class Index:
    statement: CreateIndex
    at: Placed


@dataclass(frozen=True)
class Remark:
    statement: Comment
    at: Placed


@dataclass(frozen=True)
class UnitTest:
    statement: CreateTest
    at: Placed

    @property
    def name(self) -> str:
        return self.statement.name


@dataclass(frozen=True)
class Model:
    """One object and all that its file says about it."""

    key: ObjectKey
    statement: Created
    at: Placed
    indexes: tuple[Index, ...] = ()
    comments: tuple[Remark, ...] = ()
    tests: tuple[UnitTest, ...] = ()

    @property
    def kind(self) -> ObjectKind:
        if isinstance(self.statement, CreateTable):
            return "table"
        return "view" if isinstance(self.statement, CreateView) else "stream table"

    @property
    def query(self) -> str:
        return "" if isinstance(self.statement, CreateTable) else self.statement.query

    @cached_property
    def references(self) -> tuple[Reference, ...]:
        """The tables that the query names, as it names them."""
        return references(self.query) if self.query else ()

    @property
    def home(self) -> tuple[str, str]:
        return self.key.database, self.key.schema

    def query_problem(self, offset: int, message: str, hint: str | None = None) -> Problem:
        """At an offset of the query's text."""
        return self.query_problem_at(place(self.query, offset), message, hint)

    def query_problem_at(self, at: Place, message: str, hint: str | None = None) -> Problem:
        """At a line and column of the query's text."""
        assert not isinstance(self.statement, CreateTable)
        return self.at.file.problem(self.statement.query_at.shift(at), message, hint)

    def with_query(self, query: str) -> Created:
        """The statement over another text of its query."""
        if isinstance(self.statement, CreateTable):
            return self.statement
        return replace(self.statement, query=query)


@dataclass(frozen=True)
class Cluster:
    statement: CreateCluster
    at: Placed

    @property
    def name(self) -> str:
        return self.statement.name


@dataclass(frozen=True)
class Files:
    """Everything that was read, and what could not be."""

    root: Path
    models: Mapping[ObjectKey, Model] = field(default_factory=dict, hash=False)
    clusters: Mapping[str, Cluster] = field(default_factory=dict, hash=False)
    problems: tuple[Problem, ...] = ()
    unread: frozenset[ObjectKey] = frozenset()  # objects whose file has mistakes of its own
    unread_clusters: frozenset[str] = frozenset()
    # Tables of attached catalogs, by full name: columns and types as they were locked.
    external: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict, hash=False)
    catalogs: frozenset[str] = frozenset()  # that the settings attach

    @cached_property
    def folded(self) -> dict[tuple[str, ...], ObjectKey]:
        """Keys by their lower-cased parts: names differ in more than case, as in Spark."""
        return {fold(key): key for key in (*self.unread, *self.models)}


def fold(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.lower() for part in parts)
