"""Resolve a project offline: names, order, columns, types, and everything that is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from anabranch.deploy.snapshot import ObjectKey
from anabranch.errors import AnabranchError
from anabranch.graph.components import Component, components
from anabranch.graph.order import closure
from anabranch.model import Column as StoredColumn
from anabranch.model import Columns as StoredColumns
from anabranch.model import RefreshMode
from anabranch.names import RESERVED_PREFIX, TableName, shown
from anabranch.project.problems import Problem
from anabranch.project.records import Files, Model
from anabranch.project.references import Link, links, qualified
from anabranch.project.rules import object_problems
from anabranch.sql.analyze.analysis import Analysis, Column, Columns, analyze
from anabranch.sql.analyze.columns import Relation
from anabranch.sql.analyze.external import external_code
from anabranch.sql.analyze.failures import GoingOn, failure
from anabranch.sql.lower.recursion import is_beyond_spark
from anabranch.sql.obstacles import Obstacle
from anabranch.sql.offline import offline_obstacles
from anabranch.sql.statements.records import CreateStreamTable, CreateTable, CreateView
from anabranch.sql.text.column_names import with_column_names
from anabranch.sql.text.tokens import Place
from anabranch.types import Type


@dataclass(frozen=True)
class CompiledObject:
    """An object with its names resolved; `columns` is None when they cannot be told offline."""

    model: Model
    reads: frozenset[ObjectKey] = frozenset()
    query: str = ""  # with every table by its full name
    columns: Columns = None
    complete: bool = True  # False when a name in the query leads nowhere

    @property
    def key(self) -> ObjectKey:
        return self.model.key


@dataclass(frozen=True)
class Compiled:
    """`objects` stand in order: what an object reads comes before it."""

    files: Files
    objects: Mapping[ObjectKey, CompiledObject] = field(default_factory=dict, hash=False)
    problems: tuple[Problem, ...] = ()
    # Objects whose analysis failed by a fault of ours, and what is said of it: only Spark can judge.
    failures: Mapping[ObjectKey, str] = field(default_factory=dict, hash=False)

    def reads_of(self, key: ObjectKey) -> frozenset[ObjectKey]:
        return self.objects[key].reads

    def through_views(self, key: ObjectKey) -> set[ObjectKey]:
        """The objects that a query reads, directly or through views; the views too."""
        views = {
            each: found.reads for each, found in self.objects.items() if found.model.kind == "view"
        }
        return closure(self.objects[key].reads, views)


def compile_files(
    files: Files, *, allow_circular: bool = False, allow_external_code: bool = False
) -> Compiled:
    """All mistakes are gathered; one that would only follow from another is left out."""
    problems = list(files.problems)
    found = {key: links(model, files) for key, model in files.models.items()}
    problems += [link.problem for each in found.values() for link in each if link.problem]
    reads = {key: [link.key for link in each if link.key] for key, each in found.items()}
    objects: dict[ObjectKey, CompiledObject] = {}
    failures: dict[ObjectKey, str] = {}
    for part in components(reads):
        if part.cyclic:
            problems += circular(part, reads, found, files, allow_circular)
        wrong: list[Problem] = []
        for _ in range(2 if part.cyclic else 1):  # in a cycle the first look only learns names
            wrong = []
            for key in part.members:
                objects[key], said = resolved(files.models[key], found[key], objects, failures)
                wrong += said
        problems += wrong
        for key in part.members if not wrong else ():
            seen = Compiled(files, objects)
            with noting(key, failures):
                problems += refresh_problems(objects[key], found[key], seen, allow_external_code)
    compiled = Compiled(files, objects)
    for key, each in objects.items():
        with noting(key, failures):
            problems += object_problems(each, compiled)
        if not allow_external_code:
            problems += external_problems(each.model)
    return Compiled(files, objects, tuple(sorted(set(problems))), failures)


def noting(key: ObjectKey, failures: dict[ObjectKey, str]) -> GoingOn:
    """A fault of ours is no mistake of the project, which Spark may take as it is."""
    return GoingOn(lambda error: failures.setdefault(key, failure(error)))


def resolved(
    model: Model,
    found: tuple[Link, ...],
    done: Mapping[ObjectKey, CompiledObject],
    failures: dict[ObjectKey, str],
) -> tuple[CompiledObject, list[Problem]]:
    """One object after all it reads, as far as that is known."""
    reads = frozenset(link.key for link in found if link.key)
    if isinstance(model.statement, CreateTable):
        columns = tuple(Column(each.name, stored(each.type)) for each in model.statement.columns)
        return CompiledObject(model, columns=columns), []
    by_name = {link.name: link.key for link in found}
    external = {link.name: locked(link) for link in found if link.external is not None}

    def table(name: TableName) -> Columns:
        if name in external:
            return external[name]
        key = by_name.get(name)
        return done[key].columns if key is not None and key in done else None

    found_ = Analysis(Relation(None))
    try:
        with noting(model.key, failures):
            found_ = analyze(model.query, table)
    except AnabranchError as error:
        return CompiledObject(model, reads), [model.at.file.of_error(error, model.at.passage)]
    columns_ = found_.columns
    problems = [model.query_problem(e.start, e.message, e.hint) for e in found_.findings]
    problems += list(column_problems(model, columns_))
    if isinstance(model.statement, CreateView) and model.statement.columns:
        names = model.statement.columns
        types = [each.type for each in columns_] if columns_ else [None] * len(names)
        if len(types) != len(names):
            message = f"the view names {len(names)} columns, its query gives {len(types)}"
            problems.append(model.at.problem(message, word=names[0]))
        columns_ = tuple(Column(name, type_) for name, type_ in zip(names, types, strict=False))
    complete = all(link.key or link.external is not None for link in found)
    query = qualified(model.query, found)
    return CompiledObject(model, reads, query, columns_, complete), problems


def refresh_problems(
    found: CompiledObject, named: tuple[Link, ...], compiled: Compiled, external: bool
) -> Iterator[Problem]:
    """DIFFERENTIAL asks for a query that is incremental; so do those that Spark cannot run at all."""
    statement = found.model.statement
    if not isinstance(statement, CreateStreamTable) or not found.complete:
        return
    strict = statement.refresh_mode is RefreshMode.DIFFERENTIAL
    if not strict and not is_beyond_spark(found.model.query):
        return
    below = sorted(compiled.through_views(found.key))
    names = {key.table: key for key in below} | {link.name: link.key for link in named if link.key}
    read = {name: compiled.objects[key] for name, key in names.items() if key in compiled.objects}
    views = {name: whole_query(each) for name, each in read.items() if each.model.kind == "view"}
    tables = {
        name: stored_columns(read[name].columns) if name in read else None
        for name in names
        if name not in views
    }
    tables |= {
        each.name: stored_columns(locked(each)) for each in named if each.external is not None
    }
    width = len(found.columns) if found.columns is not None else None
    for why in offline_obstacles(found.model.query, width, tables, views):
        if why.code == "UNKNOWN_FUNCTION" and not external:
            continue  # told by `external_problems`
        said = refusal(found.key, why)
        if why.view is not None:
            yield found.model.at.problem(*said)
        else:
            yield found.model.query_problem_at(Place(why.line, why.column), *said)


def locked(link: Link) -> Columns:
    """The columns of a table of an attached catalog."""
    return tuple(Column(name, stored(type_)) for name, type_ in link.external or ())


def refusal(key: ObjectKey, why: Obstacle) -> tuple[str, str]:
    """What to say of a query that is not incremental, though its refresh mode asks for it."""
    message = f"{key} cannot be refreshed incrementally: {why.code}: {why.message}"
    auto = "" if "AUTO" in why.hint else "; refresh mode AUTO recomputes it in full"
    return message, why.hint + auto


def stored_columns(columns: Columns) -> StoredColumns | None:
    """The columns of a table for a plan; a type that is not known is an empty text."""
    if columns is None or any(each.name is None for each in columns):
        return None
    return tuple(StoredColumn(each.name or "", str(each.type or ""), True) for each in columns)


def whole_query(found: CompiledObject) -> str:
    """The query on its own: the names of a view's columns become part of it."""
    statement = found.model.statement
    if isinstance(statement, CreateView) and statement.columns:
        return with_column_names(found.query, statement.columns)
    return found.query


def external_problems(model: Model) -> Iterator[Problem]:
    """Queries and mock rows that run code: whoever reads a project must not have to fear it."""
    if found := external_code(model.query):
        yield model.query_problem(found.offset, found.message, found.hint)
    for test in model.tests:
        given = [rows for _, rows in test.statement.given]
        expected = [test.statement.expect] if test.statement.expect else []
        for rows in (*given, *expected):
            if found := external_code(rows.query):
                yield test.at.problem(found.message, found.hint, word=found.what.split()[-1])


def stored(type_: str) -> Type | None:
    """CHAR and VARCHAR come out of a table as something else: left to Spark."""
    found = Type.parse(type_)
    return None if any(part.name in ("char", "varchar") for part in found.walk()) else found


def column_problems(model: Model, columns: Columns) -> Iterator[Problem]:
    """A stored table needs names of its own for its columns."""
    if isinstance(model.statement, CreateView) and model.statement.columns:
        return
    seen: set[str] = set()
    for column in columns or ():
        if column.name is None:
            continue
        name = column.name.lower()
        if name in seen:
            message = f"the query gives the column {shown(column.name)} twice"
            yield model.query_problem(0, message, "name one of them with AS")
        if name.startswith(RESERVED_PREFIX):
            message = f"column {column.name}: names that start with {RESERVED_PREFIX} are reserved"
            yield model.query_problem(0, message, "choose another name")
        seen.add(name)


def circular(
    part: Component[ObjectKey],
    reads: Mapping[ObjectKey, list[ObjectKey]],
    found: Mapping[ObjectKey, tuple[Link, ...]],
    files: Files,
    allowed: bool,
) -> Iterator[Problem]:
    """Objects that read each other: the path, at the reference that closes it."""
    outsiders = [key for key in part.members if files.models[key].kind != "stream table"]
    if allowed and not outsiders:
        return
    path = shortest(part.members[0], set(part.members), reads)
    link = next(link for link in found[path[0]] if link.key == path[1])
    message = f"objects read each other in a cycle: {' -> '.join(map(str, path))}"
    hint = "break the cycle"
    if not outsiders:
        hint = "break the cycle, or set allow_circular = true for stream tables"
    elif allowed:
        hint = f"break the cycle: {outsiders[0]} is a {files.models[outsiders[0]].kind}"
    yield files.models[path[0]].query_problem(link.start, message, hint)


def shortest(
    start: ObjectKey, inside: set[ObjectKey], reads: Mapping[ObjectKey, list[ObjectKey]]
) -> list[ObjectKey]:
    """The shortest way from an object back to itself."""
    paths = [[start]]
    seen: set[ObjectKey] = set()
    for path in paths:
        for step in sorted(inside.intersection(reads[path[-1]])):
            if step == start:
                return [*path, start]
            if step not in seen:
                seen.add(step)
                paths.append([*path, step])
    raise AssertionError("a cyclic component has a cycle")
