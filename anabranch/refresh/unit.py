"""Units of refresh: consistency groups that are staged whole and published once, or not at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum

from anabranch.catalog import events, history, leases, streams, tables
from anabranch.catalog.groups import Group
from anabranch.catalog.history import Refresh
from anabranch.catalog.leases import Lease
from anabranch.catalog.store import Connection
from anabranch.errors import InternalError, PublishConflict
from anabranch.graph.order import closure
from anabranch.graph.policies import Isolation, group_isolation
from anabranch.model import Status
from anabranch.names import TableName
from anabranch.refresh import failures
from anabranch.refresh.apply import Outcome
from anabranch.refresh.failures import Failure
from anabranch.refresh.lines import Occasion, write_lines
from anabranch.refresh.look import Look, look
from anabranch.refresh.members import Reading, Staging, with_name
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
    """Groups that are published together, upstreams first: one group, unless a user asks for more."""

    groups: tuple[Group, ...]

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

    def published(self, tx: Transaction, done: Mapping[TableName, Outcome]) -> None:
        """Later units read what this one made."""
        with self._lock:
            self.seen = after(self.seen, tx, done)

    def idle(self, names: Sequence[TableName], *, say: bool = True) -> tuple[Refresh, ...]:
        """Nothing changed: a line of history each, if there is to `say`, in one statement."""
        lines = tuple(self.occasion.no_data(name) for name in names if say)
        if not names:
            return lines
        moved = self.look().moved_frontiers(names)
        with self.runtime.store.writing() as c:
            history.add(c, lines)
            streams.touch(c, names, tables.now())
            streams.set_frontiers(c, moved)
        with self._lock:
            self.seen = replace(self.seen, frontiers={**self.seen.frontiers, **moved})
        return lines

    # -- one unit ------------------------------------------------------------------------------

    def refresh(self, unit: Unit) -> Result:
        """Bring a unit up to date."""
        start = time.perf_counter()
        if not self.look().stale(unit.members):
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
                unit = asked_for(self.seen, unit.members)  # a view may have changed what is read
            except Exception as error:  # of the publish: others must not suffer from it
                named = with_name(error, unit.members[-1])
                return self.failed(unit, Failure(unit.members[-1], named, 0), self.look())
        raise InternalError("unreachable")

    def _leased(self, unit: Unit) -> Result:
        seconds = self.runtime.settings.lease_time
        with self.runtime.leases.hold(unit.members, seconds, wait=self.patient) as lease:
            if isinstance(lease, Lease):
                return self._attempt(unit, lease)
            reason = f"{lease} is being refreshed by another process"
            return Result(unit, Verdict.SKIPPED, reason)

    def _attempt(self, unit: Unit, lease: Lease) -> Result:
        seen = self.look()
        tx = Transaction(replace(world_of(self.runtime, seen), at=self.at))
        try:
            staging = Staging(self.runtime, tx, seen, self._reading(unit, tx))
            stale = seen.stale([name for name in unit.members if name in seen.streams])
            staging.run(stale, self.executor)
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

        def rows(c: Connection, cut_id: int | None) -> None:
            leases.check(c, lease)
            outcomes = list(done.values())
            lines[:] = write_lines(c, cut_id, tx, outcomes, self.occasion, unit.groups)
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
        lines = tuple(self.occasion.failed(name, failure) for name in unit.members)
        with self.runtime.store.writing() as c:
            history.add(c, lines)
            failures.note(c, seen, failure, self.most_errors)
        return Result(unit, Verdict.FAILED, failure.error.message, None, lines, failure)

    # -- what members read ---------------------------------------------------------------------

    def _reading(self, unit: Unit, tx: Transaction) -> Reading | None:
        """All members read one cut, unless their refresh group lets each pin its own.

        A diamond always reads one cut: its members would otherwise meet a source in two versions.
        """
        declared = self.seen.declared
        named = [each for group in unit.groups for each in group.declared]
        if not named:
            return None
        one = self.pinned or any(group.convergence_points for group in unit.groups)
        own = self._own_cut(tx) if not one else lambda _: tx
        isolation = {name: Isolation(each.isolation) for name, each in declared.items()}
        pins = [group_isolation(group, isolation) for group in unit.groups]
        if Isolation.REPEATABLE_READ not in pins:
            return own
        limits = [declared[name].snapshot_timeout_ms for name in named]
        limit = min((each for each in limits if each), default=0)
        return self._until(tx, limit, named, own) if limit else None

    def _own_cut(self, tx: Transaction) -> Reading:
        def reading(_: TableName) -> Transaction:
            now = look_now(self.runtime)
            sources = {name: at for name, at in now.pointers.items() if name not in now.streams}
            return tx.reading(sources)

        return reading

    def _until(self, tx: Transaction, limit_ms: int, named: Sequence[str], own: Reading) -> Reading:
        """The common cut while it is young enough, then each member's own."""
        start = time.monotonic()
        warned = threading.Event()

        def reading(name: TableName) -> Transaction:
            if (time.monotonic() - start) * 1000 <= limit_ms:
                return tx
            if not warned.is_set():
                warned.set()
                self._warn_timeout(limit_ms, named)
            return own(name)

        return reading

    def _warn_timeout(self, limit_ms: int, named: Sequence[str]) -> None:
        shown = ", ".join(named)
        message = (
            f"refresh group {shown} held its cut for more than {limit_ms} ms: "
            "its other members read the newest one, as in read_committed"
        )
        with self.runtime.store.writing() as c:
            events.record(c, None, events.SNAPSHOT_TIMEOUT, message)


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


def look_now(runtime: Runtime) -> Look:
    with runtime.store.reading() as c:
        return look(c, runtime.lake)


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
            seen.streams[name], populated=True, status=Status.ACTIVE, options=each.options
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
