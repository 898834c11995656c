"""Tables at one cut: what names mean, and how they are read.

A CutView is one version of everything: the pointers of one SELECT, the texts of the views, and, inside
a transaction or refresh, the staged versions in front of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, TypeVar

from anabranch.boundary import public_class
from anabranch.errors import (
    AnabranchError,
    DataError,
    Refused,
    SqlSyntaxError,
    UnknownName,
    Unsupported,
    UserError,
)
from anabranch.lake.indexes import cheapest
from anabranch.lake.lake import Lake
from anabranch.lake.stage import Stage
from anabranch.lake.version import TableVersion
from anabranch.model import Columns, Reading
from anabranch.names import TableName
from anabranch.spark.handed import handed_out
from anabranch.spark.query import Inputs, run_sql
from anabranch.spark.scan import empty, frame
from anabranch.sql.analyze.columns import Column, Relation, table
from anabranch.sql.analyze.external import refuse_external_code
from anabranch.sql.analyze.mistakes import mistake, relation_of
from anabranch.sql.analyze.tables import rebind, tables_of
from anabranch.sql.analyze.types import type_or_none
from anabranch.sql.analyze.writes import Write, mistake_of_write
from anabranch.sql.lower.lookups import filtered, looked_up, lookup_bounds
from anabranch.sql.lower.moments import Moment
from anabranch.sql.lower.recursion import has_distinct_recursion
from anabranch.sql.text.parse import Passage, check_query, parse_expression
from anabranch.system_views import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from anabranch.catalog.indexes import Index
    from anabranch.spark.session import Spark

    SystemRows = Callable[[str], "DataFrame"]
    # The rows of a table, or those that a query looks up.
    RowsOf = Callable[[TableName, "str | None"], "DataFrame"]

T = TypeVar("T")


class NotObserved(UnknownName):
    """Foreign tables that must be looked up in their catalogs before they can be read."""

    def __init__(self, names: Iterable[TableName]) -> None:
        self.names = frozenset(names)
        super().__init__(f"there is no table {', '.join(sorted(map(str, self.names)))} at this cut")
        self.hint = "a foreign table becomes part of a cut once it has been read"


@public_class("table", "sql")
@dataclass
class CutView:
    lake: Lake
    spark: Spark
    pointers: Mapping[TableName, str]
    views: Mapping[TableName, str]
    stage: Stage | None = None
    cut_id: int | None = None
    system: SystemRows | None = None
    at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    indexes: Mapping[TableName, tuple[Index, ...]] = field(default_factory=dict)
    instead: Mapping[TableName, TableVersion] = field(default_factory=dict)  # of what pointers say
    check_held: Callable[[], None] | None = None  # refuses when a held cut is held no more
    read: set[TableName] = field(default_factory=set)  # tables and views whose rows were asked for
    # Foreign tables that were observed for this world, and the world after more were; None: all are
    # read as the cut shows them.
    fresh: frozenset[TableName] | None = None
    again: Callable[[Collection[TableName]], CutView] | None = None

    @property
    def moment(self) -> Moment:
        """The current time of this world: tables that are refreshed together share it."""
        return Moment(self.at, self.spark.time_zone)

    # -- names ---------------------------------------------------------------------------------

    def names(self) -> set[TableName]:
        """Everything that can stand in a FROM clause here."""
        staged = self.stage.changes if self.stage else {}
        dropped = {name for name, each in staged.items() if each.version is None}
        return ((set(self.pointers) | set(staged)) - dropped) | set(self.views)

    def find(self, name: TableName) -> TableName | None:
        """The name as it is kept: the same letters, else the only one that differs in case."""
        return name.find_in(self.names())

    def resolve(self, name: TableName) -> TableName:
        if name.is_system:
            raise Refused(f"{name} shows the catalog: it can be queried and nothing else")
        found = self.find(name)
        self._expect_observed((found or name,))
        if found is None:
            raise UnknownName(
                f"there is no table {name}",
                name=str(name),
                known=[str(known) for known in self.names()],
            )
        return found

    def _expect_observed(self, names: Iterable[TableName]) -> None:
        """Refuse foreign tables that were not looked up for this world."""
        if self.fresh is None:
            return
        unseen = {
            name
            for name in names
            if name not in self.fresh and self.lake.attached.of(name) is not None
        }
        if unseen:
            raise NotObserved(unseen)

    def _observing(self, act: Callable[[CutView], T]) -> T:
        """Act upon this world, or upon the one after foreign tables that it needs were observed."""
        try:
            return act(self)
        except NotObserved as error:
            if self.again is None:
                raise
            return self.again({*(self.fresh or ()), *error.names})._observing(act)

    def version(self, name: TableName) -> TableVersion:
        """The table at this cut, or its staged version."""
        if name in self.instead:
            return self.instead[name]
        if self.stage is not None and (name in self.stage.changes or name not in self.pointers):
            return self.stage.version(name)
        location = self.pointers.get(name)
        if location is None:
            raise UnknownName(
                f"there is no table {name}",
                name=str(name),
                known=[str(known) for known in self.names()],
            )
        return self.lake.version(name, location)

    # -- reading -------------------------------------------------------------------------------

    def table(self, name: str | TableName, where: str | None = None) -> DataFrame:
        """A table or view of this cut as a DataFrame; `where` may be answered by an index."""
        parsed = TableName.parse(name)
        if where is not None:
            parse_expression(where)
            return self.sql(filtered(parsed, where))
        return self._observing(lambda world: world._handed(world._table(parsed)))

    def _table(self, parsed: TableName) -> DataFrame:
        self._check_held()
        if parsed.is_system:
            return self._system(parsed)
        found = self.resolve(parsed)
        self.read.add(found)
        if found in self.views:
            return self._analysed(self.views[found], self._rows)
        version = self.version(found)
        return frame(self.spark.session, version.reading(), version.columns)

    def sql(self, query: str) -> DataFrame:
        """A query over tables and views of this cut."""
        return self._observing(lambda world: world._handed(world._analysed(query, world._rows)))

    def _handed(self, rows: DataFrame) -> DataFrame:
        """What users get: an action that finds a file missing or damaged says so in our words."""
        return handed_out(rows, self.check_held) if self.check_held is not None else rows

    def schema(self, query: str) -> StructType:
        """The columns of a query, for which no file is looked at."""
        return self._observing(lambda world: world._analysed(query, world._no_rows).schema)

    def _check_held(self) -> None:
        if self.check_held is not None:
            self.check_held()

    def _analysed(self, query: str, rows: RowsOf) -> DataFrame:
        check_query(Passage.of(query))
        if "recursive" in query.lower() and has_distinct_recursion(query):
            raise Unsupported(
                "Spark cannot run WITH RECURSIVE … UNION",
                hint="make the query a stream table (CREATE STREAM TABLE … AS WITH RECURSIVE …) and "
                "read that, or write UNION ALL",
            )
        self._check_held()
        named = [name for name in tables_of(query) if not name.is_system]
        self._expect_observed(self.find(name) or name for name in named)
        for name in named:  # a wrong name is said before Spark has to start
            self.resolve(name)
        wrong = mistake(query, self.relation)
        if wrong is not None and not self.spark.started:
            self.guard(query)
            raise wrong
        with Inputs(self.spark.session) as inputs:
            text = self.bind(inputs, query, rows=rows)
            try:
                return run_sql(self.spark.session, text, labels=inputs.labels)
            except SqlSyntaxError:
                self._show_place(query)
                raise
            except UserError as error:
                if wrong is None:
                    raise
                raise wrong from error

    @contextmanager
    def judged(self, statement: Write, name: TableName) -> Iterator[None]:
        """Run a statement that writes to a table.

        Without Spark a mistake is told at once; if Spark has started, it has the last word.
        """
        wrong = mistake_of_write(statement, name, self.relation)
        if wrong is not None and not self.spark.started:
            raise wrong
        try:
            yield
        except UserError as error:
            if wrong is None or isinstance(error, DataError):
                raise
            raise wrong from error

    def relation(self, name: TableName) -> Relation:
        """What a query can know of a table or view here without Spark."""
        return self._relation(name, ())

    def _relation(self, name: TableName, inside: Sequence[TableName]) -> Relation:
        if name.is_system:
            types = COLUMNS.get(name.name.lower(), {})
            known = tuple(Column(each, type_or_none(type_)) for each, type_ in types.items())
            return table(name, known or None)
        found = self.find(name)
        if found is None or found in inside:
            return Relation(None)
        if found in self.views:
            text = self.views[found]
            return relation_of(text, lambda below: self._relation(below, (*inside, found)))
        columns = self.version(found).columns
        return table(found, tuple(Column(each.name, type_or_none(each.type)) for each in columns))

    def _show_place(self, query: str) -> None:
        """Raise the syntax error at its place in the text as it was written."""
        try:
            run_sql(self.spark.session, query)
        except SqlSyntaxError:
            raise
        except AnabranchError:
            return

    def bind(
        self,
        inputs: Inputs,
        text: str,
        *,
        expression: bool = False,
        outer: Mapping[TableName, str] | None = None,
        rows: RowsOf | None = None,
    ) -> str:
        self.guard(text)
        references = tables_of(text, expression=expression)
        looked = looked_up(text) if references and not expression else None
        names = {
            reference: self._bind_one(
                inputs, reference, (), rows or self._rows, text if reference == looked else None
            )
            for reference in references
        }
        return rebind(text, names, expression=expression, outer=outer)

    def guard(self, text: str) -> None:
        """Refuse SQL that runs code of its own, unless the operator allows it."""
        if not self.spark.allows_external_code:
            refuse_external_code(text)

    def _bind_one(
        self,
        inputs: Inputs,
        name: TableName,
        inside: Sequence[TableName],
        rows: RowsOf,
        looked_in: str | None = None,
    ) -> str:
        if name.is_system:
            return inputs.add(self._system(name), str(name))
        found = self.resolve(name)
        self.read.add(found)
        if found not in self.views:
            return inputs.add(rows(found, looked_in), str(name))
        if found in inside:
            raise UserError(f"view {found} reads itself")
        text = self.views[found]
        self.guard(text)
        names = {
            below: self._bind_one(inputs, below, (*inside, found), rows)
            for below in tables_of(text)
        }
        view = run_sql(self.spark.session, rebind(text, names), labels=inputs.labels)
        return inputs.add(view, str(name))

    def _rows(self, name: TableName, query: str | None) -> DataFrame:
        reading, columns = self.reading(name, query)
        return frame(self.spark.session, reading, columns)

    def _no_rows(self, name: TableName, query: str | None) -> DataFrame:
        return empty(self.spark.session, self.version(name).columns)

    def reading(self, name: TableName, query: str | None = None) -> tuple[Reading, Columns]:
        """The files of a table; of those that cannot hold what the query looks up, none."""
        version = self.version(name)
        bounds = lookup_bounds(query, version.columns) if query is not None else ()
        if not bounds:
            return version.reading(), version.columns

        def version_of(other: TableName) -> TableVersion | None:
            return self.version(other) if other in self.names() else None

        return cheapest(version, self.indexes.get(name, ()), bounds, version_of)

    def _system(self, name: TableName) -> DataFrame:
        if self.system is None:
            raise UnknownName(f"there is no table {name}")
        return self.system(name.name)
