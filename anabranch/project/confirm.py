"""Let Spark's analyser confirm a project: over empty tables with the declared columns, without data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch.deploy.snapshot import ObjectKey
from anabranch.errors import AnabranchError, UserError
from anabranch.graph.components import components
from anabranch.graph.order import closure
from anabranch.model import Column, Columns, RefreshMode
from anabranch.names import TableName
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import Item, Node, Parameter, Project, Scan
from anabranch.project.compile import Compiled, CompiledObject, refusal, whole_query
from anabranch.project.problems import Problem
from anabranch.refresh.definition import planned
from anabranch.spark.query import Inputs, run_sql, types_of, view_names
from anabranch.spark.scan import empty
from anabranch.spark.types import result_columns
from anabranch.sql.analyze.tables import rebind, tables_of
from anabranch.sql.lower.cycle_columns import settle_columns
from anabranch.sql.lower.recursion import is_beyond_spark
from anabranch.sql.obstacles import Obstacle
from anabranch.sql.render import to_sql
from anabranch.sql.statements.records import CreateStreamTable, CreateTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Confirmed:
    """The columns that Spark gives each object, what is not incremental, and what is wrong."""

    columns: Mapping[ObjectKey, Columns] = field(default_factory=dict, hash=False)
    obstacles: Mapping[ObjectKey, tuple[Obstacle, ...]] = field(default_factory=dict, hash=False)
    problems: tuple[Problem, ...] = ()


@dataclass
class AnalysedTables:
    """The tables of a cycle as they are analysed so far."""

    analysed: Callable[[str, Mapping[ObjectKey, Columns]], Columns]
    known: dict[ObjectKey, Columns] = field(default_factory=dict)

    def parts(self, key: ObjectKey) -> tuple[str, ...]:
        return key.table.parts

    def columns(self, key: ObjectKey, query: str) -> Columns:
        return self.analysed(query, self.known)

    def put(self, key: ObjectKey, columns: Columns) -> Columns:
        self.known[key] = columns
        return columns


def confirm(
    compiled: Compiled, session: SparkSession, only: Collection[ObjectKey] | None = None
) -> Confirmed:
    """Analyse all objects, or some with everything they read; an object whose input is wrong waits."""
    reads = {key: each.reads for key, each in compiled.objects.items()}
    wanted = closure(only if only is not None else reads, reads)
    check = _Check(compiled, session)
    for part in components(reads):
        if wanted.isdisjoint(part.members):
            continue
        members = [compiled.objects[key] for key in part.members]
        if part.cyclic:
            check.look_round(members)
        else:
            check.look(members[0])
    return Confirmed(check.columns, check.obstacles, tuple(check.problems))


class _Check:
    def __init__(self, compiled: Compiled, session: SparkSession) -> None:
        self.compiled = compiled
        self.session = session
        self.columns: dict[ObjectKey, Columns] = {}
        self.obstacles: dict[ObjectKey, tuple[Obstacle, ...]] = {}
        self.problems: list[Problem] = []

    def look(self, found: CompiledObject) -> None:
        statement = found.model.statement
        if isinstance(statement, CreateTable):
            self.columns[found.key] = declared(statement)
        elif found.reads <= self.columns.keys():  # else a mistake below it
            with self.blaming(found):
                self.columns[found.key] = self.analysed(whole_query(found), {})
                self.judge(found)

    def look_round(self, members: Sequence[CompiledObject]) -> None:
        """Stream tables that read each other: all of them, or none."""
        queries = {each.key: whole_query(each) for each in members}
        if any(not each.reads <= self.columns.keys() | queries.keys() for each in members):
            return
        with self.blaming(members[0]):
            self.columns |= settle_columns(queries, AnalysedTables(self.analysed))
            for each in members:
                self.judge(each)

    @contextmanager
    def blaming(self, found: CompiledObject) -> Iterator[None]:
        try:
            yield
        except AnabranchError as error:
            self.problems.append(found.model.at.file.of_error(error, found.model.at.passage))

    def analysed(self, query: str, others: Mapping[ObjectKey, Columns]) -> Columns:
        """The columns of a query over the objects so far, and others."""
        if is_beyond_spark(query):
            raise UserError(
                "Spark cannot read this query on its own", hint="it is checked on creation"
            )
        known = {key.table: found for key, found in {**self.columns, **others}.items()}
        with Inputs(self.session) as inputs:
            names = {
                name: inputs.add(empty(self.session, known[name]), str(name))
                for name in tables_of(query)
                if name in known
            }
            frame = run_sql(self.session, rebind(query, names), labels=inputs.labels)
            return result_columns(frame.schema)

    def judge(self, found: CompiledObject) -> None:
        """Can the stream table be kept incrementally?  DIFFERENTIAL asks for it."""
        statement = found.model.statement
        if not isinstance(statement, CreateStreamTable):
            return
        below = sorted(self.compiled.through_views(found.key))
        views = {key.table: self.compiled.objects[key].query for key in below if self.is_view(key)}
        tables = {key.table: self.columns[key] for key in below if not self.is_view(key)}
        output = self.columns[found.key]
        lowered, _ = planned(found.query, tables, views, self.types(tables), output)
        self.obstacles[found.key] = lowered.obstacles
        if statement.refresh_mode is RefreshMode.DIFFERENTIAL:
            for each in lowered.obstacles:
                self.problems.append(found.model.at.problem(*refusal(found.key, each)))

    def is_view(self, key: ObjectKey) -> bool:
        return self.compiled.objects[key].model.kind == "view"

    def types(self, tables: Mapping[TableName, Columns]) -> _Types:
        return _Types(self.session, tables)


@dataclass(frozen=True)
class _Types:
    """The types that Spark gives expressions over a plan."""

    session: SparkSession
    tables: Mapping[TableName, Columns]

    def __call__(self, node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
        probe = Project(node, tuple(Item(f"e{at}", expr) for at, expr in enumerate(exprs)))
        names = view_names(self.tables)

        def name_of(scan: Scan | Parameter) -> str:
            assert isinstance(scan, Scan)
            return names[scan.table]

        text = to_sql(probe, name_of, "spark")
        return types_of(self.session, text, {names[n]: c for n, c in self.tables.items()})


def declared(statement: CreateTable) -> Columns:
    return tuple(Column(each.name, each.type, each.nullable) for each in statement.columns)


def differing(compiled: Compiled, confirmed: Confirmed) -> Iterable[str]:
    """Types that were told offline and are not Spark's: there should be none."""
    for key, columns in confirmed.columns.items():
        for known, found in zip(compiled.objects[key].columns or (), columns, strict=False):
            told = str(known.type) if known.type is not None else None
            if told not in (None, "void", found.type):
                yield f"{key}.{found.name}: {told} is {found.type}"
