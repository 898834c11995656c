"""Units of refresh: consistency groups that are staged whole and published once, or not at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum

from anabranch.catalog import cuts, history, streams, tables
from anabranch.catalog.groups import Group
from anabranch.catalog.history import Refresh
from anabranch.catalog.leases import Lease
from anabranch.catalog.store import Connection
from anabranch.errors import InternalError, PublishConflict
from anabranch.graph.order import closure
from anabranch.model import Status
from anabranch.names import TableName
from anabranch.refresh import failures
from anabranch.refresh.apply import Outcome
from anabranch.refresh.failures import Failure
from anabranch.refresh.isolation import Isolated
from anabranch.refresh.lines import Occasion, write_lines
from anabranch.refresh.look import Look, look_now
from anabranch.refresh.members import Staging, with_name
from anabranch.runtime import ATTEMPTS, Runtime, Transaction
from anabranch.world import World


class Verdict(str, Enum):
    """What became of a unit."""

    PUBLISHED = "PUBLISHED"
    NO_DATA = "NO_DATA"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class Unit:
    """Groups that are published together, upstreams first: one group, unless a user asks for more.

    `trial`: a failure is not written down, because the groups are then tried one by one.
    """

    groups: tuple[Group, ...]
    trial: bool = False

    @property
    def members(self) -> tuple[TableName, ...]:
        return tuple(name for group in self.groups for name in group.members)


@dataclass(frozen=True)
class Result:
    unit: Unit
    verdict: Verdict
    reason: str | None = None
    cut_id: int | None = None
    lines: tuple[Refresh, ...] = ()
    failure: Failure | None = None
    duration_ms: int = 0


@dataclass
class Pass:
    """One pass over units: what it has seen, and what it has published itself since.

    `pinned`: no unit reads anything newer than the first look, but for what the pass published.
    `patient`: wait for whoever refreshes a unit, and compute anew after a lost race, as somebody does
    who asked for a result; a tick leaves both to the next tick.
    """

    runtime: Runtime
    occasion: Occasion
    pinned: bool
    patient: bool
    seen: Look
    executor: Executor | None = None
    abandoned: Callable[[], bool] = lambda: False
    most_errors: int | None = None  # failures in a row that suspend a table
    full: frozenset[TableName] = frozenset()  # their groups are recomputed, whatever is stored
    at: datetime = field(default_factory=tables.now)  # the current time of all queries
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self) -> Look:
        """What the next unit may read."""
        if not self.pinned:
            return look_now(self.runtime)
        with self._lock:
            return self.seen

    def look_again(self) -> None:
        with self._lock:
            self.seen, self.at = look_now(self.runtime), tables.now()

    def in_full(self, unit: Unit) -> frozenset[TableName]:
        """The members that somebody asked to recompute: groups are recomputed whole."""
        asked = [group for group in unit.groups if self.full.intersection(group.members)]
        return frozenset(name for group in asked for name in group.members)

    def published(self, tx: Transaction, done: Mapping[TableName, Outcome]) -> None:
        """Later units read what this one made."""
        with self._lock:
            self.seen = after(self.seen, tx, done)

    def idle(self, names: Sequence[TableName], *, say: bool = True) -> tuple[Refresh, ...]:
        """Nothing changed: a line of history each, if there is to `say`, in one statement."""
        lines = tuple(self.occasion.no_data(name) for name in names if say)
        if not names:
            return lines
        seen = self.look()
        moved = seen.moved_frontiers(names)
        with self.runtime.store.writing() as c:
            history.add(c, lines)
            streams.touch(c, names, tables.now())
            if moved:
                cuts.hold(c)  # nobody publishes between the question and the answer
                now = streams.frontiers(c)
                same = {each for each in moved if now.get(each) == seen.frontiers.get(each)}
                streams.set_frontiers(c, {name: moved[name] for name in same})
        with self._lock:
            self.seen = replace(self.seen, frontiers={**self.seen.frontiers, **moved})
        return lines

    # -- one unit ------------------------------------------------------------------------------

    def refresh(self, unit: Unit) -> Result:
        """Bring a unit up to date."""
        start = time.perf_counter()
        if not self.in_full(unit) and not self.look().stale(unit.members):
            lines = self.idle(unit.members)
            return Result(unit, Verdict.NO_DATA, "no change in the sources", lines=lines)
        for attempt in range(ATTEMPTS):
            try:
                found = self._leased(unit)
                return replace(found, duration_ms=round((time.perf_counter() - start) * 1000))
            except PublishConflict as conflict:
                # The delta was computed against a state that is gone: compute it anew, never move it.
                if not self.patient:
                    return Result(unit, Verdict.SKIPPED, conflict.message)
                if attempt == ATTEMPTS - 1:
                    return self.failed(unit, Failure(unit.members[-1], conflict, 0), self.look())
                self.look_again()
                # A view may have changed what is read, and so who belongs together.
                unit = replace(asked_for(self.seen, unit.members), trial=unit.trial)
            except Exception as error:  # of the publish: others must not suffer from it
                named = with_name(error, unit.members[-1])
                return self.failed(unit, Failure(unit.members[-1], named, 0), self.look())
        raise InternalError("unreachable")

    def _leased(self, unit: Unit) -> Result:
        seconds = self.runtime.settings.lease_time
        with self.runtime.leases.hold(unit.members, seconds, wait=self.patient) as lease:
            if isinstance(lease, Lease):
                if lease.waited:  # what there was to do may be done
                    self.look_again()
                return self._attempt(unit, lease)
            reason = f"{lease} is being refreshed by another process"
            return Result(unit, Verdict.SKIPPED, reason)

    def _attempt(self, unit: Unit, lease: Lease) -> Result:
        seen = self.look()
        tx = Transaction(replace(world_of(self.runtime, seen), at=self.at))
        try:
            isolated = Isolated(self.runtime, tx, seen.declared, unit.groups, self.pinned)
            full = self.in_full(unit)
            staging = Staging(self.runtime, tx, seen, isolated.reading(), full)
            stale = full.union(seen.stale(unit.members))
            staging.run([name for name in unit.members if name in stale], self.executor)
            if self.abandoned():
                tx.abandon()
                return Result(unit, Verdict.SKIPPED, "abandoned")
            if staging.failure is not None:
                tx.abandon()
                return self.failed(unit, staging.failure, seen)
            return self._publish(unit, lease, tx, staging.done)
        except BaseException:
            tx.abandon()
            raise

    def _publish(
        self, unit: Unit, lease: Lease, tx: Transaction, done: Mapping[TableName, Outcome]
    ) -> Result:
        lines: list[Refresh] = []
        others = [name for name in unit.members if name not in done]

        tx.used.hold(lease)
        tx.used.groups |= {group.members for group in unit.groups}
        for name in others:  # a group is published whole: those that stay must be where they were
            tx.stage.expect(name, tx.world.pointers.get(name))

        def rows(c: Connection, cut_id: int | None) -> None:
            outcomes = list(done.values())
            lines[:] = write_lines(c, cut_id, outcomes, self.occasion, unit.groups)
            idle = [self.occasion.no_data(name) for name in others]
            history.add(c, idle)
            streams.touch(c, others, tables.now())
            lines.extend(idle)

        tx.later(rows)
        cut_id = tx.publish("refresh")
        self.published(tx, done)
        self.runtime.progress("published", {"cut_id": cut_id})
        if cut_id is None:
            reason = "the changes leave the tables as they are"
            return Result(unit, Verdict.NO_DATA, reason, lines=tuple(lines))
        return Result(unit, Verdict.PUBLISHED, None, cut_id, tuple(lines))

    def failed(self, unit: Unit, failure: Failure, seen: Look) -> Result:
        """Nothing was published: the catalog only hears why."""
        if unit.trial:
            return Result(unit, Verdict.FAILED, failure.error.message, failure=failure)
        lines = tuple(self.occasion.failed(name, failure) for name in unit.members)
        with self.runtime.store.writing() as c:
            history.add(c, lines)
            failures.note(c, seen, failure, self.most_errors)
        return Result(unit, Verdict.FAILED, failure.error.message, None, lines, failure)


def asked_for(seen: Look, names: Iterable[TableName]) -> Unit:
    """The groups of the tables and of everything they read: no group is ever split."""
    groups = seen.groups
    home = {name: group for group in groups for name in group.members}
    wanted: set[Group] = set()
    waiting = [home[name] for name in names if name in home]
    while waiting:
        group = waiting.pop()
        if group not in wanted:
            wanted.add(group)
            above = closure(group.members, seen.reads)
            waiting += {home[name] for name in above if name in home}
    return Unit(tuple(group for group in groups if group in wanted))


def world_of(runtime: Runtime, seen: Look) -> World:
    return World(runtime.lake, runtime.spark, seen.pointers, seen.views, cut_id=seen.cut_id)


def after(seen: Look, tx: Transaction, done: Mapping[TableName, Outcome]) -> Look:
    """The look as it is once the transaction is published."""
    moved = {
        name: each.version.location
        for name, each in tx.stage.changes.items()
        if each.version is not None
    }
    known = {
        name: replace(
            seen.streams[name],
            populated=True,
            status=Status.ACTIVE,
            options=each.options,
            fingerprint=each.fingerprint,
            computed_from=each.computed_from,
        )
        for name, each in done.items()
    }
    return replace(
        seen,
        pointers={**seen.pointers, **moved},
        streams={**seen.streams, **known},
        reads={**seen.reads, **{name: each.reads for name, each in done.items()}},
        inputs={**seen.inputs, **{name: each.inputs for name, each in done.items()}},
        frontiers={**seen.frontiers, **{name: each.frontier for name, each in done.items()}},
    )
