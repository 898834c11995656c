"""A component by its queries as they were written: X ← Q(X), from empty until nothing comes any more.

Nothing of our plans is used, so that it tells whose fault it is when they fail, and gives the rows all
the same.  Queries of a component never lose a row when members gain some: a round that leaves every
member with as many rows as it had leaves it with the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch.cut_view import CutView
from anabranch.delta.fixpoint import Converged, Count, Counts, Meter, Strategy, iterate
from anabranch.model import Columns, FixpointBounds
from anabranch.names import TableName
from anabranch.refresh.execute.backend import SparkBackend
from anabranch.refresh.execute.bounded import bounded, within
from anabranch.refresh.sources import Sources
from anabranch.runtime import Runtime
from anabranch.spark.identity import typed
from anabranch.spark.query import Inputs, run_sql
from anabranch.spark.rounds import counted
from anabranch.spark.scan import empty, frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class AsWritten:
    runtime: Runtime
    world: CutView
    queries: Mapping[TableName, str]
    columns: Mapping[TableName, Columns]
    sources: Sources
    bounds: FixpointBounds
    watch: Callable[[Counts], None]
    started: float | None = None  # before its rounds, where others were tried first
    read: Callable[[TableName], DataFrame] | None = None  # a source; as it is now if not given
    rows: dict[TableName, DataFrame] = field(default_factory=dict)
    sizes: dict[TableName, int] = field(default_factory=dict)
    meter: Meter | None = None

    def run(self) -> None:
        self.settle()

    def settle(self) -> Converged:
        with self.runtime.spark.tuned(max(self.sources.rows, 1)):
            self.meter = Meter(self.bounds, self.started)
            return Converged(Strategy.EMPTY, (), iterate(self, self.meter, self.watch))

    def round(self, count: Count) -> None:
        for name in self.queries:
            with bounded(self.runtime.spark.session, self.meter, name):
                self.rows[name], size = self.computed(name)
            grown = size - self.sizes.get(name, 0)
            self.sizes[name] = size
            count(name, grown)

    def computed(self, name: TableName) -> tuple[DataFrame, int]:
        """The query over the members as they are now, and how many rows it has."""
        session = self.runtime.spark.session

        def rows_of(source: TableName, looked_in: str | None) -> DataFrame:
            if source in self.rows:
                return self.rows[source]
            if source in self.queries:
                return empty(session, self.columns[source])
            if self.read is not None:
                return self.read(source)
            version = self.sources.versions[source]
            return frame(session, version.reading(), version.columns)

        with Inputs(session) as inputs:
            text = self.world.bind(inputs, self.queries[name], rows=rows_of)
            found = run_sql(session, text, labels=inputs.labels)
            rows = within(typed(found, self.columns[name]), self.meter, self.sizes.get(name, 0))
            return counted(rows, inputs.labels)

    def keep(self, backend: SparkBackend) -> None:
        """Put the rows where those of our own rounds would be."""
        backend.restart()
        backend.clear()
        backend.meter = None  # the rows were bounded while they were computed
        for name, rows in backend.rows.items():
            batch = backend.written(rows, self.rows[name], self.sizes[name])
            backend.kept(rows, rows.added, batch)
