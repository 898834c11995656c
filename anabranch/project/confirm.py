"""Let Spark's analyser confirm a project: over empty tables with the declared columns, without data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch.deploy.snapshot import ObjectKey
from anabranch.engine.query import Inputs, run_sql, types_of
from anabranch.engine.scan import empty
from anabranch.engine.types import columns_of
from anabranch.errors import AnabranchError, UserError
from anabranch.graph.order import closure
from anabranch.model import Column, Columns, RefreshMode
from anabranch.names import TableName
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import Given, Item, Node, Project, Scan
from anabranch.project.compile import Compiled, CompiledObject
from anabranch.project.problems import Problem
from anabranch.sql.column_names import with_column_names
from anabranch.sql.lower import lower
from anabranch.sql.predicates import is_beyond_spark
from anabranch.sql.render import to_sql
from anabranch.sql.statement_records import CreateStreamTable, CreateTable, CreateView
from anabranch.sql.support import Obstacle
from anabranch.sql.tables import rebind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Confirmed:
    """The columns that Spark gives each object, what is not incremental, and what is wrong."""

    columns: Mapping[ObjectKey, Columns] = field(default_factory=dict, hash=False)
    obstacles: Mapping[ObjectKey, tuple[Obstacle, ...]] = field(default_factory=dict, hash=False)
    problems: tuple[Problem, ...] = ()


def confirm(
    compiled: Compiled, session: SparkSession, only: Collection[ObjectKey] | None = None
) -> Confirmed:
    """Analyse all objects, or some with everything they read; an object whose input is wrong waits."""
    reads = {key: each.reads for key, each in compiled.objects.items()}
    wanted = closure(only if only is not None else reads, reads)
    check = _Check(compiled, session)
    for key, each in compiled.objects.items():
        if key in wanted:
            check.look(each)
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
        elif found.reads <= self.columns.keys():  # else a mistake, or a circle, below it
            try:
                self.columns[found.key] = self.analysed(found)
                self.judge(found)
            except AnabranchError as error:
                self.problems.append(found.model.at.file.of_error(error, found.model.at.passage))

    def analysed(self, found: CompiledObject) -> Columns:
        query = found.query
        statement = found.model.statement
        if isinstance(statement, CreateView) and statement.columns:
            query = with_column_names(query, statement.columns)
        if is_beyond_spark(query):
            raise UserError(
                "Spark cannot read this query on its own", hint="it is checked on creation"
            )
        with Inputs(self.session) as inputs:
            names = {
                key.table: inputs.add(empty(self.session, self.columns[key]), str(key))
                for key in found.reads
            }
            frame = run_sql(self.session, rebind(query, names), labels=inputs.labels)
            return columns_of(frame.schema)

    def judge(self, found: CompiledObject) -> None:
        """Can the stream table be kept incrementally?  DIFFERENTIAL asks for it."""
        statement = found.model.statement
        if not isinstance(statement, CreateStreamTable):
            return
        below = sorted(self.compiled.through_views(found.key))
        views = {key.table: self.compiled.objects[key].query for key in below if self.is_view(key)}
        tables = {key.table: self.columns[key] for key in below if not self.is_view(key)}
        output = self.columns[found.key]
        lowered = lower(found.query, tables, views, self.types(tables), output=output)
        self.obstacles[found.key] = lowered.obstacles
        if statement.refresh_mode is RefreshMode.DIFFERENTIAL:
            for each in lowered.obstacles:
                message = f"{found.key} cannot be refreshed incrementally: {each.message}"
                self.problems.append(found.model.at.problem(message, each.hint))

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
        names = {name: f"_ab_t{at}" for at, name in enumerate(self.tables)}

        def name_of(scan: Scan | Given) -> str:
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
            if known.type not in (None, "void", found.type):
                yield f"{key}.{found.name}: {known.type} is {found.type}"
