"""Units of refresh: consistency groups that are staged whole and published once, or not at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum

from anabranch.catalog import history, streams, tables
from anabranch.catalog.groups import Group
from anabranch.catalog.history import Refresh
from anabranch.catalog.indexes import all_indexes
from anabranch.catalog.leases import Lease
from anabranch.catalog.store import Connection
from anabranch.cut_view import CutView
from anabranch.errors import InternalError, NewerEdition, PublishConflict
from anabranch.lake.stage import or_conflict
from anabranch.model import Status, WaitCode
from anabranch.names import TableName
from anabranch.refresh import failures
from anabranch.refresh.component import Outcome
from anabranch.refresh.cost_history import last_runs
from anabranch.refresh.failures import Failure
from anabranch.refresh.isolation import Isolated
from anabranch.refresh.observe import CatalogState, observe_now
from anabranch.refresh.record import Trigger, note_cuts, record_outcomes
from anabranch.refresh.staging import Staging, with_name
from anabranch.refresh.waiting import Wait, Waiting
from anabranch.retry import attempts
from anabranch.runtime import Leased, Runtime, Transaction


class Verdict(str, Enum):
    """What became of a publish set."""

    PUBLISHED = "PUBLISHED"
    NO_DATA = "NO_DATA"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class PublishSet:
    """Groups that are published together, upstreams first: one group, unless a user asks for more.

    `trial`: a failure is not written down, because the groups are then tried one by one.
    `pulled`: nobody is due; a table that reads them wants them at its cut.
    """

    groups: tuple[Group, ...]
    trial: bool = False
    pulled: bool = False

    @property
    def members(self) -> tuple[TableName, ...]:
        return tuple(name for group in self.groups for name in group.members)

    def without(self, left_out: Collection[Group]) -> PublishSet:
        return replace(self, groups=tuple(each for each in self.groups if each not in left_out))


@dataclass(frozen=True)
class Result:
    publish_set: PublishSet
    verdict: Verdict
    reason: str | None = None
    cut_id: int | None = None
    records: tuple[Refresh, ...] = ()
    failure: Failure | None = None
    duration_ms: int = 0
    waits_for: TableName | None = None  # a table outside the set
    code: WaitCode | None = None  # why it was skipped

    def __post_init__(self) -> None:
        if (self.verdict is Verdict.SKIPPED) is not (self.code is not None):
            raise InternalError(f"{self.verdict.value} with the code {self.code}")

    @classmethod
    def skipped(
        cls,
        publish_set: PublishSet,
        code: WaitCode,
        reason: str,
        waits_for: TableName | None = None,
        failure: Failure | None = None,
    ) -> Result:
        return cls(
            publish_set,
            Verdict.SKIPPED,
            reason,
            failure=failure,
            waits_for=waits_for,
            code=code,
        )


@dataclass(frozen=True)
class Begun:
    """One attempt: the state before and after the tables without changes noted the cut."""

    found: CatalogState
    noted: CatalogState
    tx: Transaction


@dataclass
class RefreshRun:
    """One run over publish sets: what it has seen, and what it has published itself since.

    No set reads anything newer than the state, but for what the run published; so all that it
    publishes stands at the cut of the state.  A set that reads a table which does not stand there
    waits: this is where the law is kept that a stream table stands at one cut.
    `patient`: wait for whoever refreshes a set, and compute again after a lost race, as somebody does
    who asked for a result; a tick leaves both to the next tick.
    """

    runtime: Runtime
    trigger: Trigger
    patient: bool
    state: CatalogState
    executor: Executor | None = None
    abandoned: Callable[[], bool] = lambda: False
    most_errors: int | None = None  # failures in a row that suspend a table
    full: frozenset[TableName] = frozenset()  # their groups are recomputed, whatever is stored
    at: datetime = field(default_factory=tables.now)  # the current time of all queries
    ahead: frozenset[TableName] = (
        frozenset()
    )  # published here, by reading past the state on purpose
    stuck: dict[TableName, str] = field(default_factory=dict)  # why a table did not get to the cut
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self) -> CatalogState:
        """What the next set may read."""
        with self._lock:
            return self.state

    def look_again(self) -> None:
        with self._lock:
            self.state, self.at = observe_now(self.runtime), tables.now()
            self.ahead = frozenset()

    def in_full(self, publish_set: PublishSet) -> frozenset[TableName]:
        """The members that somebody asked to recompute: groups are recomputed whole."""
        asked = [group for group in publish_set.groups if self.full.intersection(group.members)]
        return frozenset(name for group in asked for name in group.members)

    def published(
        self,
        tx: Transaction,
        states: tuple[CatalogState, CatalogState],
        done: Mapping[TableName, Outcome],
        late: Collection[TableName] = (),
    ) -> None:
        """Later sets read what this one made, but for what is past the state against its will: `late`
        are members of groups whose time was over."""
        found, noted = states
        past = {name for name, each in done.items() if each.cuts != (noted.cut_id,)}
        why = f"its refresh group took too long, and it was refreshed past cut {noted.cut_id}"
        with self._lock:
            self.state = after(_with_cuts(self.state, found, noted), tx, done)
            self.ahead |= past.difference(late)
            self.stuck |= dict.fromkeys(past.intersection(late), why)

    def idle(
        self, names: Sequence[TableName], *, say: bool = True, due: bool = True
    ) -> tuple[Refresh, ...]:
        """Nothing changed: a line of history each, if there is to `say`, in one statement.

        Tables that are not `due` only note the cut at which they stand; some may be dropped by now.
        """
        state = self.look()
        names = [name for name in names if name in state.streams]
        if not names:
            return ()
        noted = state.noting(names)
        records = tuple(self.trigger.no_data(name, noted) for name in names if say and due)
        if not due and noted is state:
            return records
        with self.runtime.store.writing() as c:
            note_cuts(c, state, noted)
            history.add(c, records)
            if due:
                streams.touch(c, names, tables.now(c))
        with self._lock:
            self.state = _with_cuts(self.state, state, noted)
        return records

    # -- one set -------------------------------------------------------------------------------

    def refresh(self, publish_set: PublishSet) -> Result:
        """Bring a set up to date."""
        found = self._refresh(publish_set)
        if found.verdict in (Verdict.SKIPPED, Verdict.FAILED):
            with self._lock:
                self.stuck |= dict.fromkeys(publish_set.members, found.reason or "")
        return found

    def _refresh(self, publish_set: PublishSet) -> Result:
        start = time.perf_counter()
        for attempt in attempts():
            try:
                with or_conflict(self.runtime.lake, self.look().cut_id):
                    found = self._at_cut(publish_set)
                return replace(found, duration_ms=round((time.perf_counter() - start) * 1000))
            except PublishConflict as conflict:
                # The delta was computed against a state that is gone: compute it anew, never move it.
                if not self.patient:
                    return Result.skipped(publish_set, WaitCode.LOST_RACE, conflict.message)
                if attempt.last:
                    return self.failed(
                        publish_set, Failure(publish_set.members[-1], conflict, 0), self.look()
                    )
                attempt.pause()
                self.look_again()
                publish_set = self._asked_again(publish_set)
            except Exception as error:  # of the publish: others must not suffer from it
                named = with_name(error, publish_set.members[-1])
                return self.failed(
                    publish_set, Failure(publish_set.members[-1], named, 0), self.look()
                )
        raise InternalError("unreachable")

    def _asked_again(self, publish_set: PublishSet) -> PublishSet:
        """A view may have changed what is read, and so who belongs together."""
        asked = replace(asked_for(self.state, publish_set.members), trial=publish_set.trial)
        known = set(publish_set.members)
        added = [group for group in asked.groups if known.isdisjoint(group.members)]
        return asked.without(Waiting(self.state).all_held_up(added))

    def _at_cut(self, publish_set: PublishSet) -> Result:
        """Nothing to do, or somebody to wait for, or work."""
        state = self.look()
        if waits := self._waits(state, publish_set):
            return waits
        if self.in_full(publish_set) or state.stale(publish_set.members):
            return self._leased(publish_set)
        records = self.idle(publish_set.members, due=not publish_set.pulled)
        return Result(publish_set, Verdict.NO_DATA, "no change in the sources", records=records)

    def _waits(self, state: CatalogState, publish_set: PublishSet) -> Result | None:
        members = [name for name in publish_set.members if name in state.streams]
        if unfit := state.unfit_above(members, members):
            reason = f"waits for {unfit[0]}: {unfit[1]}"
            return Result.skipped(publish_set, WaitCode.BEHIND, reason, unfit[0])
        if stopped := self._suspended(state, publish_set):
            return Result.skipped(publish_set, stopped.code, stopped.reason, stopped.by)
        late = state.behind(members, self.ahead)
        if not late:
            return None
        why = self.stuck.get(late[0]) or f"it does not stand at cut {state.cut_id}"
        reason = f"waits for {late[0]}: {why}"
        return Result.skipped(publish_set, WaitCode.BEHIND, reason, late[0])

    def _suspended(self, state: CatalogState, publish_set: PublishSet) -> Wait | None:
        """Somebody suspended a member meanwhile."""
        waiting = Waiting(state, recomputed=self.in_full(publish_set))
        for name in publish_set.members:
            if name in state.streams and (found := waiting.hindrance(name)):
                return Wait(*found, name).passed_on()
        return None

    def _leased(self, publish_set: PublishSet) -> Result:
        seconds = self.runtime.settings.lease_time
        plan, begun = self._noted(publish_set), list[Begun]()
        if isinstance(plan, Result):
            return plan
        found, state = plan  # known before the transaction, in which nobody may wait for a look

        def begin(c: Connection) -> None:
            begun.append(self._begin(c, publish_set, found, state))

        self.runtime.lake.fence.claim()
        try:
            with self.runtime.leases.hold(
                publish_set.members, seconds, wait=self.patient, begin=begin
            ) as lease:
                if not isinstance(lease, Lease):
                    return Result.skipped(publish_set, *failures.busy(lease))
                if lease.waited:  # what there was to do may be done
                    self.look_again()
                    plan = self._noted(publish_set)
                    if isinstance(plan, Result):
                        return plan
                    found, state = plan
                if not begun:
                    with self.runtime.store.writing(durable=False) as c:
                        begin(c)
                return self._attempt(publish_set, lease, begun[0])
        except BaseException:
            for each in begun:
                each.tx.abandon()
            raise

    def _noted(self, publish_set: PublishSet) -> tuple[CatalogState, CatalogState] | Result:
        """What to work on, before and after the tables without changes noted the cut; or whom to
        wait for."""
        found = self.look()
        if waits := self._waits(found, publish_set):  # it may be another look than the first
            return waits
        return found, found.noting([name for name in publish_set.members if name in found.streams])

    def _begin(
        self, c: Connection, publish_set: PublishSet, found: CatalogState, state: CatalogState
    ) -> Begun:
        """In one transaction: the stage, and what nobody changes while we have the lease."""
        tx = self.runtime.begin(replace(world_of(self.runtime, state), at=self.at), c)
        members = [state.streams[name] for name in publish_set.members if name in state.streams]
        filled = [each.name for each in members if each.populated]
        tx.leased = Leased(all_indexes(c), last_runs(c, filled))
        return Begun(found, state, tx)

    def _attempt(self, publish_set: PublishSet, lease: Lease, begun: Begun) -> Result:
        found, state, tx = begun.found, begun.noted, begun.tx
        members = [name for name in publish_set.members if name in state.streams]
        try:
            isolated = Isolated(self.runtime, tx, state, publish_set.groups)
            full = self.in_full(publish_set)
            staging = Staging(self.runtime, tx, state, isolated.reading(), full)
            stale = full.union(state.stale(members))
            staging.run([name for name in members if name in stale], self.executor)
            if self.abandoned():
                tx.abandon()
                return Result.skipped(publish_set, WaitCode.STOPPED, "abandoned")
            if staging.failure is not None:
                tx.abandon()
                return self.failed(publish_set, staging.failure, state)
            return self._publish(
                publish_set, lease, tx, (found, state), staging.done, isolated.late
            )
        except BaseException:
            tx.abandon()
            raise

    def _publish(
        self,
        publish_set: PublishSet,
        lease: Lease,
        tx: Transaction,
        states: tuple[CatalogState, CatalogState],
        done: Mapping[TableName, Outcome],
        late: Collection[TableName],
    ) -> Result:
        """`states`: before and after the tables without changes noted the cut."""
        found, noted = states
        records: list[Refresh] = []
        others = [name for name in publish_set.members if name not in done]

        tx.used.hold(lease, last=True)
        tx.used.groups |= {group.members for group in publish_set.groups}
        for name in others:  # a group is published whole: those that stay must be where they were
            tx.stage.expect(name, tx.world.pointers.get(name))

        def rows(c: Connection, cut_id: int | None) -> None:
            outcomes = list(done.values())
            idle = []
            if not publish_set.pulled:
                known = [name for name in others if name in noted.streams]
                idle = [self.trigger.no_data(name, noted) for name in known]
            records[:] = record_outcomes(
                c,
                cut_id,
                outcomes,
                self.trigger,
                publish_set.groups,
                noted,
                tx.found,
                idle,
                tx.kept.values(),
            )
            note_cuts(c, found, noted, tx.found, done)
            if not publish_set.pulled:
                streams.touch(c, others, tables.now(c))

        tx.later(rows)
        cut_id = tx.publish("refresh")
        self.runtime.leases.ended(lease)
        self.published(tx, states, done, late)
        self.runtime.progress("published", {"cut_id": cut_id})
        if cut_id is None:
            reason = "the changes leave the tables unchanged"
            return Result(publish_set, Verdict.NO_DATA, reason, records=tuple(records))
        return Result(publish_set, Verdict.PUBLISHED, None, cut_id, tuple(records))

    def failed(self, publish_set: PublishSet, failure: Failure, state: CatalogState) -> Result:
        """Nothing was published: the catalog only hears why.

        What a newer edition has to do is no failure of the table.
        """
        if isinstance(failure.error, NewerEdition) and not publish_set.trial:
            told = failure if self.patient else None
            said = failure.error.message
            return Result.skipped(publish_set, WaitCode.NEWER_EDITION, said, failure=told)
        if publish_set.trial:
            return Result(publish_set, Verdict.FAILED, failure.error.message, failure=failure)
        records = tuple(self.trigger.failed(name, failure) for name in publish_set.members)
        with self.runtime.store.writing() as c:
            history.add(c, records)
            failures.note(c, state, failure, self.most_errors)
        return Result(publish_set, Verdict.FAILED, failure.error.message, None, records, failure)


def asked_for(
    state: CatalogState, names: Iterable[TableName], until: Collection[TableName] = ()
) -> PublishSet:
    """The groups of the tables and of everything they read, but for tables in `until` and what those
    read; no group is ever split."""
    groups = state.groups
    home = {name: group for group in groups for name in group.members}
    wanted: set[Group] = set()
    waiting = [home[name] for name in names if name in home]
    while waiting:
        group = waiting.pop()
        if group not in wanted:
            wanted.add(group)
            above = {up for name in group.members for up in state.reads.get(name, ())}
            waiting += {home[name] for name in above if name in home and name not in until}
    return PublishSet(tuple(group for group in groups if group in wanted))


def world_of(runtime: Runtime, state: CatalogState) -> CutView:
    return CutView(
        runtime.lake,
        runtime.spark,
        state.pointers,
        state.views,
        cut_id=state.cut_id,
        system=runtime.system,
    )


def _with_cuts(state: CatalogState, found: CatalogState, noted: CatalogState) -> CatalogState:
    """The look with what was `noted` of tables, unless they moved on since they were `found`."""
    moved = [
        name
        for name, each in noted.streams.items()
        if each is not found.streams.get(name)
        and found.streams.get(name) is state.streams.get(name)
    ]
    if not moved or noted.cut_id != state.cut_id:
        return state
    return replace(
        state,
        streams={**state.streams, **{name: noted.streams[name] for name in moved}},
        frontiers={**state.frontiers, **{name: noted.frontiers[name] for name in moved}},
    )


def after(state: CatalogState, tx: Transaction, done: Mapping[TableName, Outcome]) -> CatalogState:
    """The look as it is once the transaction is published."""
    moved = {
        name: each.version.location
        for name, each in tx.stage.changes.items()
        if each.version is not None
    }
    known = {
        name: replace(
            state.streams[name],
            populated=True,
            status=Status.ACTIVE,
            options=each.options,
            fingerprint=each.fingerprint,
            computed_from=each.computed_from,
            cut_id=each.stands_at,
        )
        for name, each in done.items()
    }
    return replace(
        state,
        pointers={**state.pointers, **moved},
        streams={**state.streams, **known},
        reads={**state.reads, **{name: each.reads for name, each in done.items()}},
        inputs={**state.inputs, **{name: each.inputs for name, each in done.items()}},
        frontiers={**state.frontiers, **{name: each.frontier for name, each in done.items()}},
        refreshed=state.refreshed.union(done),
    )
