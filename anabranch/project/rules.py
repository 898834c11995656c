"""What an object must keep to beyond its query: clusters, indexes, comments, options and tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from anabranch.errors import AnabranchError, InternalError, Unsupported, did_you_mean
from anabranch.names import shown
from anabranch.project.problems import Problem
from anabranch.project.records import Index, Placed, UnitTest, fold
from anabranch.schedules import Schedule
from anabranch.settings import Settings
from anabranch.sql.analyze.analysis import Columns, analyze
from anabranch.sql.analyze.mistakes import is_list_of_values
from anabranch.sql.statements.records import CreateStreamTable, Rows
from anabranch.sql.text.tokens import place
from anabranch.tables.options import read_options, written_options

if TYPE_CHECKING:
    from anabranch.project.compile import Compiled, CompiledObject


def object_problems(found: CompiledObject, compiled: Compiled) -> Iterator[Problem]:
    model = found.model
    if isinstance(model.statement, CreateStreamTable):
        yield from stream_problems(model.statement, model.at, compiled)
    yield from repeated([(each.statement.name, each.at) for each in model.indexes], "index")
    yield from repeated([(each.name, each.at) for each in model.tests], "test")
    for index in model.indexes:
        yield from index_problems(index, found, compiled)
    for remark in model.comments:
        if remark.statement.column is not None:
            wrong = unknown_columns([remark.statement.column], found.columns, str(model.key))
            yield from (remark.at.problem(*each) for each in wrong)
    for test in model.tests:
        yield from unit_test_problems(test, found, compiled)


def stream_problems(
    statement: CreateStreamTable, at: Placed, compiled: Compiled
) -> Iterator[Problem]:
    yield from cluster_problems(statement.cluster, at, compiled)
    try:
        Schedule.parse(statement.schedule)
    except AnabranchError as error:
        yield at.problem(error.message, error.hint, statement.schedule or "")
    for name, value in statement.options.items():
        try:
            read_options(written_options({name: value}), Settings())
        except AnabranchError as error:
            message = (
                error.message
                if isinstance(error, Unsupported)
                else f"option {name}: {error.message}"
            )
            yield at.problem(message, error.hint, name)


def cluster_problems(name: str | None, at: Placed, compiled: Compiled) -> Iterator[Problem]:
    files = compiled.files
    if name is None or name in files.clusters or name in files.unread_clusters:
        return
    hint = (
        did_you_mean(name, files.clusters)
        or f"write clusters/{name}.sql: CREATE CLUSTER {shown(name)}"
    )
    yield at.problem(f"there is no cluster {shown(name)}", hint, name)


def index_problems(index: Index, found: CompiledObject, compiled: Compiled) -> Iterator[Problem]:
    statement = index.statement
    if found.model.kind == "view":
        hint = "make it a stream table, or index the tables it reads"
        yield index.at.problem(f"{found.key} is a view: it has no rows to sort", hint)
    yield from cluster_problems(statement.cluster, index.at, compiled)
    wrong = unknown_columns(statement.columns, found.columns, str(found.key))
    yield from (index.at.problem(*each) for each in wrong)
    types = {(each.name or "").lower(): each.type for each in found.columns or ()}
    for name in statement.columns:
        type_ = types.get(name.lower())
        if type_ is not None and type_.is_nested:
            message = f"column {shown(name)} is a {type_}: it cannot be sorted by"
            yield index.at.problem(message, "index another column", name)


def unit_test_problems(
    test: UnitTest, found: CompiledObject, compiled: Compiled
) -> Iterator[Problem]:
    statement = test.statement
    if found.model.kind == "table":
        yield test.at.problem(
            f"{found.key} is a source table: it has no query to test", "test what reads it"
        )
        return
    inputs = {fold(key): key for key in compiled.through_views(found.key)}
    for table, rows in statement.given:
        key = inputs.get(fold(table.parts))
        if key is None and found.complete:
            known = [key.name for key in inputs.values()]
            hint = (
                did_you_mean(table.name, known)
                or f"it reads {', '.join(map(str, inputs.values()))}"
            )
            yield test.at.problem(f"{found.key} does not read {table}", hint, table.name)
        elif key is not None:
            wrong = row_problems(rows, compiled.objects[key].columns, str(key))
            yield from (test.at.problem(*each) for each in wrong)
        yield from query_problems(test, rows)
    if statement.expect is not None:
        wrong = row_problems(statement.expect, found.columns, str(found.key))
        yield from (test.at.problem(*each) for each in wrong)
        yield from query_problems(test, statement.expect)


def query_problems(test: UnitTest, rows: Rows) -> Iterator[Problem]:
    """What is wrong with a query that gives rows; it reads no tables."""
    if is_list_of_values(rows.query):
        return
    try:
        found = analyze(rows.query, lambda name: None)
    except InternalError:
        raise
    except AnabranchError:
        return  # Spark may take what we cannot read
    for each in found.findings:
        at = rows.query_at.shift(place(rows.query, each.start))
        yield test.at.file.problem(at, each.message, each.hint)
    width = len(found.columns) if found.columns is not None else None
    if rows.columns is not None and width is not None and width != len(rows.columns):
        message = f"{len(rows.columns)} columns are named, but the query gives {width}"
        yield test.at.file.problem(rows.query_at, message, "name as many as there are")


Wrong = tuple[str, str | None, str]  # message, hint, and the word it is about


def row_problems(rows: Rows, columns: Columns, table: str) -> Iterator[Wrong]:
    if rows.columns is not None:
        yield from unknown_columns(rows.columns, columns, table)


def unknown_columns(names: Iterable[str], columns: Columns, table: str) -> Iterator[Wrong]:
    if columns is None or any(each.name is None for each in columns):
        return
    known = [each.name or "" for each in columns]
    for name in names:
        if name.lower() not in fold(known):
            hint = did_you_mean(name, known) or f"columns: {', '.join(known)}"
            yield f"{table} has no column {shown(name)}", hint, name


def repeated(named: list[tuple[str, Placed]], what: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for name, at in named:
        if name.lower() in seen:
            yield at.problem(f"{what} {shown(name)} appears twice", "choose another name", name)
        seen.add(name.lower())
