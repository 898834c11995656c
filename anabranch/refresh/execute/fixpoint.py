"""One refresh of a component: understand its members, choose the way, run the rounds, stage them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from anabranch import failpoints
from anabranch.catalog import events
from anabranch.catalog.bounds import bounds_of
from anabranch.catalog.events import REINITIALIZED, Event
from anabranch.catalog.streams import Input, StreamTable
from anabranch.delta.fixpoint import Converged, Counts, NoFixedPoint, Strategy, follow, from_empty
from anabranch.errors import FileMissing, NotIncremental, PlanFailed, RowsLost
from anabranch.lake.changes import net_rows
from anabranch.lake.version import TableVersion
from anabranch.model import Action, FixpointBounds, RefreshMode
from anabranch.names import TableName
from anabranch.plan.monotone import not_monotone
from anabranch.refresh.apply import (
    Outcome,
    cuts_read,
    fallback_event,
    frontier_now,
    inputs_now,
    marked,
    mixed,
    summary,
)
from anabranch.refresh.cycle_members import CycleMember, replace_broken, understand
from anabranch.refresh.decide import ASKED, Decision
from anabranch.refresh.execute.as_written import judged, of_all_rows
from anabranch.refresh.execute.backend import Rows, SparkBackend
from anabranch.refresh.execute.outside import (
    Outside,
    SourceViews,
    deleted_rows,
    outside,
    rows_before,
)
from anabranch.refresh.execute.queries import AsWritten
from anabranch.refresh.execute.scans import Scans
from anabranch.refresh.execute.staged_rows import stage_rows
from anabranch.refresh.execute.strategy import (
    FEW,
    TOO_MANY,
    Facts,
    Plan,
    choice_of,
    decide,
    not_converged,
    rounds_text,
)
from anabranch.refresh.observe import CatalogState
from anabranch.refresh.rebuild import (
    LOST,
    all_rows,
    inputs_of,
    not_from_changes,
    only_now,
    readable_columns,
    rebuilding,
    rebuilt_event,
    refuse_to_break_readers,
)
from anabranch.refresh.sources import Sources
from anabranch.runtime import Runtime, Transaction
from anabranch.spark.errors import Blame, as_written_failed, blame, plan_failed, said
from anabranch.spark.query import Inputs
from anabranch.sql.lower.recursion import is_beyond_spark


def refresh_component(
    runtime: Runtime,
    tx: Transaction,
    state: CatalogState,
    members: Sequence[StreamTable],
    done: Mapping[TableName, Outcome],
    *,
    full: str | None = None,
) -> list[Outcome]:
    """Stage all members; upstreams that were refreshed before are read as staged.

    `full`: why it starts from empty, and nothing that is stored is used.
    """
    columns = readable_columns(tx, [each.name for each in members]) if full else {}
    broken = replace_broken(tx, members) if full else {}
    circle = understand(tx, state, members, full=full is not None)
    refuse_to_break_readers(tx, state, columns, set(circle))
    definitions = {name: each.definition for name, each in circle.items()}
    if full:
        read = {source for each in definitions.values() for source in each.sources}
        found = Outside(only_now(tx, read - set(definitions)))
        chosen = rebuilding(full)
        plan = Plan(Strategy.EMPTY, chosen.action, full, afresh=True, fallback=chosen.fallback)
    else:
        found = outside(tx.world, state, definitions)
        plan = decide(facts(circle, found))
    stands_at = cuts_read(tx, state, done, found.sources)
    work = Work(runtime, tx, circle, found.sources, plan, stands_at)
    before = {name: tx.world.version(name) for name in circle}
    settled, decision = work.done()
    after = {name: tx.world.version(name) for name in circle}
    frontier = frontier_now(state, done, found.sources)
    marks = {**mixed(state, done, found.sources), **marked(stands_at)}
    made = [
        outcome(
            tx,
            state,
            circle[name],
            Sides(before, after, whole=full is not None),
            found.sources,
            frontier,
            decision,
            settled,
        )
        for name in circle
    ]
    return [
        replace(
            each,
            options={**each.options, **marks},
            cuts=stands_at,
            event=each.event or rebuilt_event(each.table, broken.get(each.table), full or ASKED),
        )
        for each in made
    ]


def facts(circle: Mapping[TableName, CycleMember], found: Outside) -> Facts:
    sources = found.sources
    streams = [each.stream for each in circle.values()]
    strict = [each.name for each in streams if each.refresh_mode is RefreshMode.DIFFERENTIAL]
    return Facts(
        unfilled=[each.name for each in streams if not each.populated],
        members=len(circle),
        redefined={name: each.why for name, each in circle.items() if each.why},
        apart=found.apart,
        expired=sources.expired,
        strict=strict[0] if strict else None,
        unplanned=next((name for name, each in circle.items() if each.member is None), None),
        changed=bool(sources.deltas),
        delta_rows=sources.delta_rows,
        deleted_rows=deleted_rows(sources, list(sources.deltas)),
        source_rows=rows_before(sources),
    )


@dataclass
class Work:
    runtime: Runtime
    tx: Transaction
    circle: Mapping[TableName, CycleMember]
    sources: Sources
    plan: Plan
    stands_at: tuple[int, ...]

    def __post_init__(self) -> None:
        self.rows = {
            name: Rows(
                self.tx.world.version(name), each.definition.hidden, self.tx.stage.directory(name)
            )
            for name, each in self.circle.items()
        }
        found = [each.member for each in self.circle.values()]
        self.members = [member for member in found if member is not None]
        self.rounds = 0

    @cached_property
    def started(self) -> float:
        """Whatever is tried one after the other shares the time of one refresh."""
        return time.monotonic()

    def done(self) -> tuple[Converged | None, Decision]:
        """Run the rounds and stage what they found."""
        unstaged = {name: self.tx.stage.changes.get(name) for name in self.circle}
        settled = self.run()
        if settled is None:
            return None, self.decision(settled)
        try:
            self.stage(settled, self.decision(settled))
        except Exception as error:
            if self.plan.afresh or blame(error) is Blame.WORLD:
                raise
            # The rounds came to an end, but not what was to be made of them.
            self.fall_back(error)
            self.tx.stage.put_back(unstaged)
            self.__post_init__()
            settled = self.run()
            assert settled is not None
            self.stage(settled, self.decision(settled))
        return settled, self.decision(settled)

    def decision(self, settled: Converged | None) -> Decision:
        plan = self.plan
        found = Decision(plan.action, plan.reason) if settled is None else choice_of(plan, settled)
        return replace(found, fallback=plan.fallback)

    def run(self) -> Converged | None:
        """The rounds; None when there is nothing to do."""
        if self.plan.strategy is None:
            return None
        _ = self.started
        session = self.runtime.spark.session
        with Inputs(session) as inputs:
            first = next(iter(self.circle))
            views = SourceViews(
                Scans(session, self.sources, inputs, first, self.bounds, hints=True)
            )
            backend = SparkBackend(
                self.runtime.spark,
                self.rows,
                views.view,
                inputs,
                self.sources.rows,
                self.sources.delta_rows,
            )
            try:
                return self.follow(backend)
            except NoFixedPoint as error:
                raise not_converged(error, list(self.circle), self.bounds) from error
            except RowsLost as error:
                with self.runtime.store.writing() as c:
                    said_so = f"rows lost and refused: {error.message}"
                    events.record(c, next(iter(self.circle)), events.ROWS_LOST, said_so)
                raise
            except Exception as error:
                if blame(error) is Blame.PLAN and not isinstance(error, PlanFailed):
                    raise plan_failed(next(iter(self.circle)), error) from error
                raise

    @cached_property
    def bounds(self) -> FixpointBounds:
        streams = [each.stream for each in self.circle.values()]
        return bounds_of(streams, self.runtime.settings)

    @property
    def strict(self) -> bool:
        """Whether a member must not be recomputed unless somebody asks for it."""
        modes = [each.stream.refresh_mode for each in self.circle.values()]
        return RefreshMode.DIFFERENTIAL in modes

    def follow(self, backend: SparkBackend) -> Converged:
        if self.plan.strategy is Strategy.EMPTY:
            return self.from_empty(backend)
        changed = frozenset(self.sources.deltas)
        gains = self.sources.insert_only and not any(
            list(not_monotone(member.plan, changed)) for member in self.members
        )
        try:
            return self.from_changes(backend, changed, only_gains=gains)
        except NoFixedPoint:
            raise
        except Exception as error:
            failed = error
        if self.strict and not gains and blame(failed) is Blame.OPEN:
            # Pairs of old and new rows that were never in a result may break a query.
            backend.restart()
            try:
                return self.from_changes(backend, changed, only_gains=False, careful=True)
            except NoFixedPoint:
                raise
            except Exception as error:
                failed = error
        self.fall_back(failed)
        return self.from_empty(backend)

    def from_empty(self, backend: SparkBackend) -> Converged:
        """From nothing by our plans; if those fail, by the queries as they were written, which also
        tell whether the data is at fault."""
        if len(self.members) < len(self.circle):
            return self.from_queries(backend, self.plan.reason, None)
        try:
            return from_empty(backend, self.members, self.bounds, self.watch, started=self.started)
        except NoFixedPoint:
            raise
        except Exception as error:
            if blame(error) is Blame.WORLD:
                raise
            if self.strict and self.plan.reason != ASKED and not self.plan.reason.startswith(LOST):
                raise of_all_rows(self.judged(error)) from error
            reason = self.plan.reason
            if reason != ASKED:
                reason = (
                    f"{reason}; by the queries as they were written, because our plan of them "
                    f"failed: {said(error)}"
                )
            return self.from_queries(backend, reason, error)

    def from_queries(
        self, backend: SparkBackend, reason: str, failed: Exception | None
    ) -> Converged:
        """By the queries as they were written; `failed`: what our plans of them came to."""
        queries = self.as_written()
        if queries is None and failed is not None:
            raise of_all_rows(self.judged(failed)) from failed
        if queries is None:
            raise NotIncremental(f"{next(iter(self.circle))}: Spark cannot run its query: {reason}")
        try:
            settled = queries.settle()
            queries.keep(backend)
        except NoFixedPoint:
            raise
        except Exception as error:
            raise of_all_rows(as_written_failed(next(iter(self.circle)), error)) from error
        self.plan = replace(self.plan, reason=reason, afresh=True, fallback=True)
        return settled

    def as_written(self) -> AsWritten | None:
        """The rounds of the queries as they were written; None where Spark cannot read one."""
        if any(is_beyond_spark(each.definition.query) for each in self.circle.values()):
            return None
        queries = {name: each.definition.query for name, each in self.circle.items()}
        columns = {name: each.columns for name, each in self.rows.items()}
        return AsWritten(
            self.runtime,
            self.tx.world,
            queries,
            columns,
            self.sources,
            self.bounds,
            self.watch,
            self.started,
        )

    def judged(self, error: Exception) -> Exception:
        """The error to raise for a plan that failed."""
        queries = self.as_written()
        trial = None if queries is None else queries.run
        streams = [each.stream for each in self.circle.values()]
        strict = [each.name for each in streams if each.refresh_mode is RefreshMode.DIFFERENTIAL]
        return judged((strict or list(self.circle))[0], error, trial)

    def from_changes(
        self,
        backend: SparkBackend,
        changed: frozenset[TableName],
        *,
        only_gains: bool,
        careful: bool = False,
    ) -> Converged:
        return follow(
            backend,
            self.members,
            changed,
            only_gains=only_gains,
            give_up=None if self.strict else max(FEW, TOO_MANY * self.stored),
            bounds=self.bounds,
            watch=self.watch,
            careful=careful,
            started=self.started,
        )

    @property
    def stored(self) -> int:
        return sum(rows.version.rows for rows in self.rows.values())

    def fall_back(self, error: Exception) -> None:
        """Start from empty where the changes cannot be followed, unless a member must not be
        recomputed."""
        if blame(error) is Blame.WORLD and (self.strict or not isinstance(error, FileMissing)):
            raise error
        if self.strict:
            raise self.judged(error) from error
        reason = not_from_changes(error)
        # What is stored may be what is wrong: it is not looked at.
        self.plan = replace(
            self.plan,
            strategy=Strategy.EMPTY,
            action=Action.FULL,
            reason=reason,
            afresh=True,
            fallback=True,
        )

    def watch(self, found: Counts) -> None:
        self.rounds += 1
        rows = {str(name): count for name, count in found.items()}
        self.runtime.progress("round", {"round": self.rounds, "rows": rows})
        failpoints.hit(f"{failpoints.ROUND}{self.rounds}")

    def stage(self, settled: Converged, decision: Decision) -> None:
        afresh = self.plan.afresh
        for name, each in self.circle.items():
            told = summary(each.definition, self.sources, decision, self.stands_at)
            stage_rows(self.runtime, self.tx, name, self.rows[name], told, afresh=afresh)


@dataclass(frozen=True)
class Sides:
    before: Mapping[TableName, TableVersion]
    after: Mapping[TableName, TableVersion]
    whole: bool = False  # nothing that was stored was used


def outcome(
    tx: Transaction,
    state: CatalogState,
    member: CycleMember,
    sides: Sides,
    sources: Sources,
    frontier: Mapping[TableName, int | None],
    decision: Decision,
    settled: Converged | None,
) -> Outcome:
    name, definition = member.stream.name, member.definition
    before, after = sides.before[name], sides.after[name]
    inside = {each: sides.after[each] for each in definition.sources if each in sides.after}
    outer = {each: sources.versions[each] for each in definition.sources if each not in inside}
    read = replace(sources, versions={**outer, **inside})
    made = Outcome(
        table=name,
        decision=decision,
        fingerprint=definition.fingerprint,
        reads=tuple(sorted(definition.sources | definition.views)),
        inputs=inputs_of(tx, name, read, definition.views)
        if sides.whole
        else inputs_now(tx, name, definition, read),
        frontier=frontier,
        options=definition.options,
        lineage=definition.lineage,
        delta_rows=sources.delta_rows,
        source_rows=sources.rows,
        event=fallback_event(name, decision) or rebuilt(name, decision),
        fixpoint_iterations=None if settled is None else settled.rounds,
        rounds=None if settled is None else rounds_text(settled),
    )
    if after.snapshot_id == before.snapshot_id:
        # Only our rows move: they must not overtake somebody who moved the table.
        if name not in tx.stage.changes:
            tx.stage.expect(name, state.pointers.get(name))
        return made
    inserted, deleted = (all_rows if sides.whole else net_rows)(before, after)
    own = Input(after.location, after.snapshot_id)
    return replace(
        made,
        rows_inserted=inserted,
        rows_deleted=deleted,
        inputs={**made.inputs, name: own},
        changed=True,
    )


def rebuilt(name: TableName, decision: Decision) -> Event | None:
    if decision.action is not Action.REINITIALIZE:
        return None
    return Event(name, REINITIALIZED, f"built anew: {decision.reason}")
