"""Components from scratch at a frontier, for `verify`: nothing of it is ever published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch.catalog.bounds import bounds_of
from anabranch.catalog.streams import is_unplanned
from anabranch.cut_view import CutView
from anabranch.delta.fixpoint import Counts, NoFixedPoint, from_empty
from anabranch.errors import InternalError
from anabranch.model import FixpointBounds
from anabranch.names import TableName
from anabranch.plan.nodes import Scan
from anabranch.refresh.cycles import Members, check_member
from anabranch.refresh.definition import Definition
from anabranch.refresh.execute.backend import Rows, SparkBackend
from anabranch.refresh.execute.fixpoint import not_converged
from anabranch.refresh.execute.queries import AsWritten
from anabranch.refresh.members import member_definition_leniently, rule_of
from anabranch.refresh.observe import CatalogState
from anabranch.refresh.sources import Sources
from anabranch.runtime import Runtime, Transaction
from anabranch.spark.query import Inputs
from anabranch.sql.lower.moments import Moment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Bound = Callable[[TableName], str]  # the view of a source at the frontier


@dataclass
class Recompute:
    """Each component is computed once; `close` removes its files."""

    runtime: Runtime
    world: CutView
    state: CatalogState
    found: dict[TableName, DataFrame] = field(default_factory=dict)
    tx: Transaction | None = None

    def member(
        self, name: TableName, component: Members, inputs: Inputs, bound: Bound
    ) -> DataFrame:
        if name not in self.found:
            self.found |= self.compute(component, inputs, bound)
        return self.found[name]

    def compute(
        self, component: Members, inputs: Inputs, bound: Bound
    ) -> dict[TableName, DataFrame]:
        self.tx = tx = self.tx or Transaction(self.world)
        definitions = {name: self.defined(name, component) for name in sorted(component)}
        read = frozenset(each for found in definitions.values() for each in found.sources)
        names = {name: bound(name) for name in sorted(read - component)}
        bounds = bounds_of([self.state.streams[name] for name in component], self.runtime.settings)
        if any(is_unplanned(each.fingerprint) for each in definitions.values()):
            return self.as_written(definitions, names, bounds)
        rows, members = {}, []
        for name, definition in definitions.items():
            rows[name] = Rows(tx.world.version(name), definition.hidden, tx.stage.directory(name))
            member = rule_of(name, definition, component)
            if member is None:
                mode = self.state.streams[name].refresh_mode
                check_member(self.world, name, mode, definition, component)
                raise InternalError(f"{name}: no plan")
            members.append(member)
        size = sum(self.world.version(name).rows for name in names)

        def view(scan: Scan) -> str:
            return names[scan.table]

        backend = SparkBackend(self.runtime.spark, rows, view, inputs, size)
        try:
            from_empty(backend, members, bounds, _nothing)
        except NoFixedPoint as error:
            raise not_converged(error, sorted(component), bounds) from error
        return {name: backend.batches(each, each.added) for name, each in rows.items()}

    def defined(self, name: TableName, component: Members) -> Definition:
        stream = self.state.streams[name]
        moment = stream.options.get("moment")
        at = Moment.parse(moment) if moment else None
        return member_definition_leniently(self.world, stream, component, at)

    def as_written(
        self,
        definitions: Mapping[TableName, Definition],
        names: Mapping[TableName, str],
        bounds: FixpointBounds,
    ) -> dict[TableName, DataFrame]:
        """By the queries as they were written, since one of them could not be planned."""
        session = self.runtime.spark.session
        queries = AsWritten(
            self.runtime,
            self.world,
            {name: each.query for name, each in definitions.items()},
            {name: each.columns for name, each in definitions.items()},
            Sources({name: self.world.version(name) for name in names}, {}, {}),
            bounds,
            _nothing,
            read=lambda name: session.table(names[name]),
        )
        try:
            queries.run()
        except NoFixedPoint as error:
            raise not_converged(error, sorted(definitions), bounds) from error
        return queries.rows

    def close(self) -> None:
        if self.tx is not None:
            self.tx.abandon()


def _nothing(_: Counts) -> None:
    """Nobody watches the rounds."""
