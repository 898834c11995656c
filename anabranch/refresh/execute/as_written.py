"""Whose fault a failed plan is: the query as it was written decides.

What Spark says of an error that it met among rows does not tell whether the rows are at fault or a plan
of ours that made values which the query never has.  So the query is run as it was written, over the
same snapshots, with nobody looking at its rows: if it fails as well, the data is at fault, else we are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anabranch.catalog.bounds import bounds_of
from anabranch.catalog.streams import StreamTable
from anabranch.errors import InternalError, PlanFailed
from anabranch.names import TableName
from anabranch.refresh.definition import Definition
from anabranch.refresh.execute.scans import Scans
from anabranch.refresh.sources import Sources
from anabranch.runtime import Runtime, Transaction
from anabranch.spark.errors import Blame, as_written_failed, blame, plan_failed
from anabranch.spark.query import Inputs
from anabranch.spark.write import evaluate
from anabranch.sql.lower.recursion import is_beyond_spark


def judged(table: TableName, error: Exception, trial: Callable[[], None] | None) -> Exception:
    """The error to raise for a plan that failed.

    `trial` runs the query as it was written; None where there is no way to run it.
    """
    match blame(error):
        case Blame.WORLD:
            return error
        case Blame.PLAN:
            return plan_failed(table, error)
    if trial is None:
        return plan_failed(table, error) if isinstance(error, InternalError) else error
    try:
        trial()
    except Exception as found:
        return as_written_failed(table, found)
    return plan_failed(table, error)


def of_all_rows(error: Exception) -> Exception:
    """The error, marked: whoever recomputes once more meets it again."""
    if isinstance(error, PlanFailed):
        error.in_full = True
    return error


@dataclass(frozen=True)
class Trial:
    """The defining query of one table over the sources that its refresh reads."""

    runtime: Runtime
    tx: Transaction
    stream: StreamTable
    definition: Definition
    sources: Sources

    def judge(self, error: Exception, *, of_changes: bool) -> Exception:
        """`of_changes`: the plan of the changes failed, not that of the whole query."""
        beyond = is_beyond_spark(self.definition.query)
        # What Spark cannot read as it was written is computed from nothing by our plan of it.
        trial = self.run if not beyond else self.run_plan if of_changes else None
        return judged(self.stream.name, error, trial)

    def run(self) -> None:
        bounds = bounds_of([self.stream], self.runtime.settings)
        with self.runtime.spark.tuned(max(self.sources.rows, 1), levels=bounds.rounds):
            rows = self.tx.world.sql(self.definition.query)
            evaluate(rows, self.tx.world.version(self.stream.name).columns)

    def run_plan(self) -> None:
        session, kept = self.runtime.spark.session, self.definition.kept
        name = self.stream.name
        assert kept is not None  # else nothing was planned
        try:
            with Inputs(session) as inputs, self.runtime.spark.tuned(max(self.sources.rows, 1)):
                bounds = bounds_of([self.stream], self.runtime.settings)
                scans = Scans(session, self.sources, inputs, name, bounds, hints=False, afresh=True)
                evaluate(scans.run(kept.full), self.tx.world.version(name).columns)
        except Exception as error:
            raise judged(name, error, None) from error
