"""What is surely wrong with an INSERT, UPDATE, DELETE or MERGE, told without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sqlglot.errors import ErrorLevel

from anabranch.errors import AnabranchError, UnknownName, UserError, did_you_mean
from anabranch.names import TableName
from anabranch.plan.exprs import VERBATIM, Tree
from anabranch.sql.analyze.aggregates import misplaced
from anabranch.sql.analyze.analysis import analyze
from anabranch.sql.analyze.checks import not_a_condition
from anabranch.sql.analyze.columns import Column, Relation
from anabranch.sql.analyze.expressions import types_in
from anabranch.sql.analyze.failures import spark_judges
from anabranch.sql.analyze.findings import Finding
from anabranch.sql.analyze.from_items import items_of
from anabranch.sql.analyze.mistakes import is_list_of_values
from anabranch.sql.analyze.obstacles import mark_window_calls
from anabranch.sql.analyze.scope import Scope
from anabranch.sql.analyze.sight import Sight
from anabranch.sql.analyze.types import VOID
from anabranch.sql.analyze.walk import Tables, Walk
from anabranch.sql.statements.records import (
    START,
    Assignments,
    Delete,
    Insert,
    Merge,
    MergeClause,
    Update,
)
from anabranch.sql.text.parse import Fragment
from anabranch.sql.text.source_text import SourceText
from anabranch.sql.text.tokens import Place, place
from anabranch.types import TIMES, Type

Write = Insert | Update | Delete | Merge


@dataclass(frozen=True)
class Mistake:
    message: str
    at: Place | None = None
    hint: str | None = None
    unknown: bool = False

    @property
    def error(self) -> UserError:
        where = f" (line {self.at.line}, column {self.at.column})" if self.at else ""
        error = (UnknownName if self.unknown else UserError)(self.message + where)
        error.hint = self.hint
        return error


def mistake_of_write(statement: Write, name: TableName, tables: Tables) -> UserError | None:
    """The first thing that is surely wrong with a statement that writes to the table `name`."""
    what = f"a statement that writes to {name}"
    with suppress(AnabranchError), spark_judges(what):  # Spark may take what we cannot read
        return next((each.error for each in _Judge(name, tables).mistakes(statement)), None)
    return None


@dataclass
class _Judge:
    name: TableName
    tables: Tables
    columns: Sequence[Column] = field(init=False)

    def __post_init__(self) -> None:
        self.columns = self.relation(self.name).columns or ()

    def relation(self, name: TableName) -> Relation:
        return Walk(SourceText(""), self.tables).table(name)

    def mistakes(self, statement: Write) -> Iterator[Mistake]:
        match statement:
            case Insert():
                yield from self.insert(statement)
            case Update():
                scope = self.scope(self.relation(self.name), statement.alias, self.name)
                yield from self.assignments(statement.assignments, scope)
                if statement.where:
                    yield from self.condition("WHERE", statement.where, scope)
            case Delete() if statement.where:
                scope = self.scope(self.relation(self.name), statement.alias, self.name)
                yield from self.condition("WHERE", statement.where, scope)
            case Merge():
                yield from self.merge(statement)

    # -- INSERT --------------------------------------------------------------------------------

    def insert(self, statement: Insert) -> Iterator[Mistake]:
        into = list(self.columns)
        if statement.columns is not None:
            yield from map(self.no_column, self.unknown(statement.columns))
            into = [self.column(each) for each in statement.columns]
        if is_list_of_values(statement.query):
            return
        analysis = analyze(statement.query, self.tables)
        yield from _placed(analysis.findings, statement.query, statement.query_at)
        if analysis.columns is None:
            return
        if statement.by_name:
            names = [each.name for each in analysis.columns if each.name]
            yield from map(self.no_column, self.unknown(names, statement.query_at))
            into = [
                self.column(each.name) if each.name else Column(None) for each in analysis.columns
            ]
        elif len(analysis.columns) != len(into):
            message = (
                f"table {self.name} takes {len(into)} values and was given {len(analysis.columns)}"
            )
            listed = ", ".join(each.name or "" for each in into)
            yield Mistake(message, statement.query_at, f"the columns are {listed}")
            return
        for source, target in zip(analysis.columns, into, strict=True):
            yield from self.taken(source.type, target, statement.query_at)

    # -- MERGE ---------------------------------------------------------------------------------

    def merge(self, statement: Merge) -> Iterator[Mistake]:
        named = statement.source_table
        target = self.scope(self.relation(self.name), statement.target_alias, self.name)
        if named is None:
            analysis = analyze(statement.source, self.tables)
            yield from _placed(analysis.findings, statement.source, statement.source_at)
            rows = analysis.relation
        else:
            rows = self.relation(named)
        alias = statement.source_alias or (None if named else "source")
        source = self.scope(rows, alias, named or self.name)
        visible = {
            "matched": target + source,
            "not_matched": source,
            "not_matched_by_source": target,
        }
        yield from self.condition("ON", statement.on, target + source)
        for clause in statement.clauses:
            yield from self.clause(clause, visible[clause.match], rows)

    def clause(self, clause: MergeClause, scope: Scope, source: Relation) -> Iterator[Mistake]:
        if clause.condition:
            yield from self.condition("WHEN", clause.condition, scope)
        yield from self.assignments(clause.assignments, scope)
        if clause.star and source.columns is not None:
            known = {each.name.lower(): each for each in source.columns if each.name}
            for column in self.columns:
                given = known.get((column.name or "").lower())
                if given is None:
                    message = (
                        f'the source has no column "{column.name}" for {clause.action.upper()} *'
                    )
                    hint = did_you_mean(
                        column.name or "", [each.name or "" for each in known.values()]
                    )
                    yield Mistake(message, hint=hint, unknown=True)
                else:
                    yield from self.taken(given.type, column, None)

    # -- parts of statements -------------------------------------------------------------------

    def scope(self, rows: Relation, alias: str | None, name: TableName) -> Scope:
        parts = (alias,) if alias else name.parts
        walk = Walk(SourceText(""), self.tables)
        scope = items_of(walk, rows, tuple(part.lower() for part in parts)).scope
        own = {each.column: f"{parts[-1]}.{each.column}" for each in scope.fields}
        fields = tuple(replace(each, column=own[each.column]) for each in scope.fields)
        return Scope(fields, scope.opaque)

    def assignments(self, assignments: Assignments, scope: Scope) -> Iterator[Mistake]:
        yield from map(self.no_column, self.unknown([column for column, _ in assignments]))
        for column, value in assignments:
            type_, mistakes = self.expression("SET", value, scope)
            yield from mistakes
            yield from self.taken(type_, self.column(column), _place_of(value))

    def condition(self, clause: str, text: str, scope: Scope) -> Iterator[Mistake]:
        yield from self.expression(clause, text, scope, condition=True)[1]

    def expression(
        self, clause: str, text: str, scope: Scope, *, condition: bool = False
    ) -> tuple[Type | None, list[Mistake]]:
        """The type of an expression, and what is wrong with it."""
        tree, sight = _tree(text), Sight(scope)
        walk, types = Walk(SourceText(text), self.tables), types_in(Sight(scope))
        walk.flow(tree, sight)
        if condition:
            for wrong in not_a_condition(clause, tree, types):
                walk.say(*wrong)
        for wrong in misplaced(clause, tree, None):
            walk.say(*wrong)
        return types(tree), list(_placed(sorted(set(walk.findings)), text, _place_of(text)))

    def column(self, name: str) -> Column:
        matching = (each for each in self.columns if (each.name or "").lower() == name.lower())
        return next(matching, Column(None))

    def unknown(
        self, names: Iterable[str], at: Place | None = None
    ) -> Iterator[tuple[str, Place | None]]:
        if not self.columns:
            return
        for name in names:
            if self.column(name).name is None:
                yield name, _place_of(name) or at

    def no_column(self, unknown: tuple[str, Place | None]) -> Mistake:
        name, at = unknown
        hint = did_you_mean(name, [each.name or "" for each in self.columns])
        return Mistake(f'table {self.name} has no column "{name}"', at, hint, unknown=True)

    def taken(self, source: Type | None, target: Column, at: Place | None) -> Iterator[Mistake]:
        if source is not None and target.type is not None and not takes(target.type, source):
            yield Mistake(
                f'column "{target.name}" of {self.name} is {target.type} and cannot take {source}',
                at,
                f"cast it to {target.type}",
            )


def takes(target: Type, source: Type) -> bool:
    """Whether a column may take values of a type; only types without parts are judged here.

    >>> takes(Type("date"), Type("int")), takes(Type("int"), Type("bigint")), takes(Type("int"), VOID)
    (False, True, True)
    """
    plain = not (source.is_nested or target.is_nested or source.name == "variant")
    if not plain or source == VOID or source.name == target.name:
        return True
    if target.name in ("string", "char", "varchar") or source.name not in _JUDGED:
        return True
    if target.is_number:
        return source.is_number
    return target.name in TIMES and (source.name in TIMES or source.name == "string")


_JUDGED = frozenset(
    (*TIMES, "boolean", "string", "binary", "decimal", "float", "double")
) | frozenset(("tinyint", "smallint", "int", "bigint"))


def _tree(text: str) -> Tree:
    (tree,) = VERBATIM.parse(text, error_level=ErrorLevel.IMMEDIATE)
    if tree is None:
        raise ValueError("no expression")
    mark_window_calls(tree)
    return tree


def _place_of(text: str) -> Place | None:
    return text.at if isinstance(text, Fragment) else None


def _placed(findings: Iterable[Finding], text: str, start: Place | None) -> Iterator[Mistake]:
    for each in findings:
        at = (start or START).shift(place(text, each.start))
        yield Mistake(each.message, at, each.hint, each.unknown)
