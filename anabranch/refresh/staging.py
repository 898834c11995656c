"""Stage the members of a set that is published together, and their indexes: upstreams first, siblings
side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial

from anabranch.catalog.indexes import Index
from anabranch.catalog.read_set import ReadSet
from anabranch.clusters import cluster_of, on_cluster
from anabranch.errors import (
    AnabranchError,
    BaseExpired,
    FileMissing,
    InternalError,
    PlanFailed,
    PublishConflict,
    SparkLost,
    UserError,
)
from anabranch.graph.components import Component
from anabranch.graph.order import closure, reads_among
from anabranch.lake.stage import or_conflict
from anabranch.model import RefreshMode
from anabranch.names import TableName
from anabranch.refresh.component import Outcome, refresh_component
from anabranch.refresh.decide import ASKED, Reason, lost, no_base
from anabranch.refresh.execute.run import not_from_changes
from anabranch.refresh.failures import Failure
from anabranch.refresh.indexes import keep_index
from anabranch.refresh.lost import Part, Whose, whose
from anabranch.refresh.observe import CatalogState
from anabranch.refresh.parallel import side_by_side
from anabranch.runtime import Runtime, Transaction
from anabranch.spark.errors import Blame, blame, is_lost, plan_failed

Reading = Callable[[TableName], Transaction]  # what a member reads


@dataclass
class Staging:
    """One attempt to stage some stream tables; `done` grows as members are finished."""

    runtime: Runtime
    tx: Transaction
    state: CatalogState
    reading: Reading | None = None
    full: frozenset[TableName] = frozenset()  # recomputed because somebody asked
    done: dict[TableName, Outcome] = field(default_factory=dict)
    failure: Failure | None = None

    def run(self, names: Sequence[TableName], executor: Executor | None = None) -> None:
        """Refresh each into the stage, or say in `failure` who could not be."""
        wanted = [name for name in names if name in self.state.streams]  # others were dropped
        parts = [
            part for part in self.state.components(wanted) if set(part.members).intersection(wanted)
        ]
        self.tx.used.add(self.state.used(wanted))
        self.tx.used.add(views_read(self.tx, closure(wanted, self.state.reads)))
        indexes = {index.copy: index for name in wanted for index in self._indexes(name)}
        parts += [Component((copy,), cyclic=False) for copy in indexes]
        reads = {**self.state.reads, **{copy: (at.table,) for copy, at in indexes.items()}}

        def stage(part: Component[TableName]) -> bool:
            index = indexes.get(part.members[0])
            return self._refresh(part) if index is None else self._keep(index)

        side_by_side(parts, reads_among(parts, reads), stage, executor)

    def _indexes(self, name: TableName) -> tuple[Index, ...]:
        """Those that nobody makes or drops meanwhile; the publish brings along what else there is."""
        return () if self.tx.leased is None else self.tx.leased.indexes.get(name, ())

    def _keep(self, index: Index) -> bool:
        """An index of a table that has changed; its failure is one of the table."""
        if self.failure is not None:
            return False
        if index.table not in self.tx.stage.changes:
            return True
        start = time.perf_counter()
        try:
            with (
                self.runtime.workers.slots,
                or_conflict(self.runtime.lake, self.tx.world.cut_id, self.tx.stage.id),
            ):
                keep_index(self.runtime, self.tx, index)
        except PublishConflict:
            raise
        except Exception as error:
            named = with_name(our_fault(error, index.copy), index.copy)
            self.failure = self.failure or Failure(index.table, named, _ms(start))
            return False
        return True

    def _refresh(self, part: Component[TableName]) -> bool:
        """One component; False when it failed."""
        if self.failure is not None:
            return False
        start = time.perf_counter()
        for name in part.members:
            self.runtime.progress("refresh_started", {"table": str(name)})
        try:
            outcomes = self._outcomes(part)
        except PublishConflict:
            raise
        except Exception as error:
            named = with_name(our_fault(error, part.members[0]), part.members[0])
            failed = tuple(part.members) if part.cyclic else ()  # they fail as one
            self.failure = self.failure or Failure(part.members[0], named, _ms(start), failed)
            return False
        for outcome in outcomes:
            done = replace(outcome, duration_ms=_ms(start))
            self.done[outcome.table] = done
            self.tx.used.add(views_read(self.tx, outcome.reads))
            facts = {"action": outcome.action.value, "duration_ms": _ms(start)}
            self.runtime.progress("refresh_finished", {"table": str(outcome.table), **facts})
        return True

    def _outcomes(self, part: Component[TableName]) -> list[Outcome]:
        try:
            return self._attempted(part)
        except FileMissing as error:  # and no lost race, which would be a conflict by now
            if (refused := self._without_base(part, error)) is None:
                raise
            raise refused from error

    def _tx(self, part: Component[TableName]) -> Transaction:
        return self.reading(part.members[0]) if self.reading else self.tx

    def _attempted(self, part: Component[TableName]) -> list[Outcome]:
        first, tx = self.state.streams[part.members[0]], self._tx(part)
        with (
            self.runtime.workers.slots,
            on_cluster(self.runtime, tx, first.name, cluster_of(self.runtime, first)) as (
                runtime,
                here,
            ),
            or_conflict(self.runtime.lake, tx.world.cut_id, tx.stage.id),
        ):
            refresh = partial(refresh_component, runtime, here, self.state, part, self.done)
            if self.full.intersection(part.members):
                return refresh(full=ASKED)
            before = {name: here.stage.changes.get(name) for name in part.members}
            try:
                return refresh()
            except Exception as error:
                instead = self._instead(part, error)
                if instead is None:
                    raise
                here.stage.put_back(before)
                return refresh(full=instead)

    def _instead(self, part: Component[TableName], error: Exception) -> Reason | None:
        """Why all rows are computed after a refresh has failed; None: it has failed for good.

        Lost files of its own, whatever the mode: nothing else can be done, and the sources may be
        whole.  And lost files of others, or whatever of our own code failed, unless a member must not
        be recomputed.
        """
        strict = self._strict(part)
        if isinstance(error, FileMissing):
            own = strict is None or self._whose(part, error).part is Part.OWN
            return lost(error) if own else None
        if isinstance(error, PlanFailed) and error.in_full:
            return None  # recomputing is what failed
        if is_ours(error) and strict is None:
            return not_from_changes(error)
        return None

    def _without_base(self, part: Component[TableName], error: FileMissing) -> BaseExpired | None:
        """What to say where only what the sources were is lost, and that cannot be done without."""
        strict = self._strict(part)
        if strict is None:
            return None
        found = self._whose(part, error)
        if found.part is not Part.EARLIER:
            return None
        said = error.message.splitlines()[0]
        why = f"a file of what {found.table} was, or of its changes since, is lost: {said}"
        return no_base(strict, why, cyclic=part.cyclic)

    def _strict(self, part: Component[TableName]) -> TableName | None:
        """A member that must not be recomputed."""
        streams = self.state.streams
        return next(
            (n for n in part.members if streams[n].refresh_mode is RefreshMode.DIFFERENTIAL), None
        )

    def _whose(self, part: Component[TableName], error: FileMissing) -> Whose:
        world = self._tx(part).world
        read = closure(part.members, self.state.reads) - {*part.members}
        tables = [name for name in read if name in self.state.pointers]
        return whose(world, self.state.pointers, part.members, tables, error)


def views_read(tx: Transaction, reads: Iterable[TableName]) -> ReadSet:
    """Views have no pointer to compare: one that is replaced meanwhile is noticed by its text, also one
    that a table above reads: its rows are those of the view as it was, and the cut shows the other."""
    known = tx.world.views
    return ReadSet(views={name: known[name] for name in reads if name in known})


def is_ours(error: Exception) -> bool:
    """Whether our own code failed, and neither the data, nor the user, nor the world."""
    return not isinstance(error, UserError) and blame(error) is Blame.PLAN


def our_fault(error: Exception, table: TableName) -> Exception:
    """A plan of ours that failed fails again in the same way: that is said, and it is not retried."""
    if not is_ours(error) or isinstance(error, PlanFailed):
        return error
    found = plan_failed(table, error)
    found.__cause__ = error
    return found


def with_name(error: Exception, table: TableName) -> AnabranchError:
    """The error with the table's name; one that is not ours is a bug of ours."""
    if is_lost(error):
        return SparkLost(f"{table}: the Spark session ended", hint="start the process again")
    if not isinstance(error, AnabranchError):
        internal = InternalError(f"{table}: {type(error).__name__}: {error}")
        internal.__cause__ = error
        return internal
    if str(table) not in error.message:
        error.message = f"{table}: {error.message}"
        error.args = (error.message,)
    return error


def stage_part(
    runtime: Runtime, tx: Transaction, part: Sequence[TableName], state: CatalogState
) -> tuple[list[Outcome], Failure | None]:
    """Stage some stream tables, one after the other."""
    staging = Staging(runtime, tx, state)
    staging.run(part)
    return list(staging.done.values()), staging.failure


def _ms(start: float) -> int:
    return round((time.perf_counter() - start) * 1000)
