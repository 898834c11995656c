"""Components from scratch at a frontier, for `verify`: nothing of it is ever published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch.catalog.bounds import bounds_of
from anabranch.delta.fixpoint import Counts, NotSettled, from_empty
from anabranch.engine.query import Inputs
from anabranch.errors import InternalError
from anabranch.names import TableName
from anabranch.plan.nodes import Scan
from anabranch.refresh.circles import Circle, check_member
from anabranch.refresh.component.bench import Rows, SparkBench
from anabranch.refresh.component.circle import defined_in_circle, rule
from anabranch.refresh.component.way import not_converged
from anabranch.refresh.look import Look
from anabranch.runtime import Runtime, Transaction
from anabranch.sql.moments import Moment
from anabranch.world import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Bound = Callable[[TableName], str]  # the view of a source at the frontier


@dataclass
class Anew:
    """Each component is computed once; `close` removes its files."""

    runtime: Runtime
    world: World
    seen: Look
    found: dict[TableName, DataFrame] = field(default_factory=dict)
    tx: Transaction | None = None

    def member(self, name: TableName, circle: Circle, inputs: Inputs, bound: Bound) -> DataFrame:
        if name not in self.found:
            self.found |= self.compute(circle, inputs, bound)
        return self.found[name]

    def compute(self, circle: Circle, inputs: Inputs, bound: Bound) -> dict[TableName, DataFrame]:
        self.tx = tx = self.tx or Transaction(self.world)
        rows, members, sources = {}, [], set[TableName]()
        for name in sorted(circle):
            stream = self.seen.streams[name]
            moment = stream.options.get("moment")
            at = Moment.parse(moment) if moment else None
            definition = defined_in_circle(self.world, stream, circle, at)
            rows[name] = Rows(tx.world.version(name), definition.hidden, tx.stage.directory(name))
            member = rule(name, definition, circle)
            if member is None:
                check_member(self.world, name, stream.refresh_mode, definition, circle)
                raise InternalError(f"{name}: no plan")
            members.append(member)
            sources |= definition.sources - circle
        names = {name: bound(name) for name in sorted(sources)}
        size = sum(self.world.version(name).rows for name in sources)

        def view(scan: Scan) -> str:
            return names[scan.table]

        bench = SparkBench(self.runtime.spark, rows, view, inputs, size)
        streams = [self.seen.streams[name] for name in circle]
        bounds = bounds_of(streams, self.runtime.settings)
        try:
            from_empty(bench, members, bounds, _nothing)
        except NotSettled as error:
            raise not_converged(error, sorted(circle), bounds) from error
        return {name: bench.batches(each, each.added) for name, each in rows.items()}

    def close(self) -> None:
        if self.tx is not None:
            self.tx.abandon()


def _nothing(_: Counts) -> None:
    """Nobody watches the rounds."""
