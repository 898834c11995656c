"""The least fixed point of a component, and how it follows a change.

from empty   X = ∅; every member adds what its query has more than it, until nothing is new
inserts      the same from the old fixed point: it lies below the new one
deletes      O: all rows with a derivation that uses a row that goes, and so on; X₀ − O lies below the
             new fixed point, for what is left does not lean on what went; then upwards, where the
             rows of O that are still derived come back

Each round looks only at the rows that the last one found.  Where plans are run is up to the backend, so
that the same rounds run on Spark and in tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from anabranch.delta.member import Member, without
from anabranch.delta.rule import Changed
from anabranch.model import FixpointBound, FixpointBounds
from anabranch.names import TableName
from anabranch.plan.nodes import Node, UnionAll

Counts = Mapping[TableName, int]


@dataclass(frozen=True)
class BatchRange:
    """What a plan sees of a member: batches up to `before` or `after`; those between are its DELTA."""

    before: int
    after: int


BatchRanges = Mapping[TableName, BatchRange]
REMOVED = "removed"  # the given relation of all rows that a member has lost


class Backend(Protocol):
    """Where the rows of the members are, and plans over them are run.

    `meter` tells how far a round may go: what is past that ends it with `Exploded`.
    """

    meter: Meter | None

    def add(self, member: Member, records: Node, ranges: BatchRanges) -> int:
        """Store the lines (of a set: those it has not) as the member's next batch; how many."""

    def take(self, member: Member, records: Node, ranges: BatchRanges, *, seeds: bool) -> int:
        """Note the lines that were not noted before as the next batch of lost rows; how many.

        The ranges count batches of lost rows, and every member is what it was before the change.
        `seeds`: lines that the member never had may be among them.
        """

    def remove(self) -> None:
        """From now on the members are without their lost rows."""

    def clear(self) -> None:
        """From now on the members are empty."""


class Strategy(Enum):
    EMPTY = "from empty"
    INSERTS = "semi-naively"
    DELETES = "delete and rederive"


class NoFixedPoint(Exception):
    """No fixed point within a bound; `growing` are the members that the last round still moved.

    `down`: it was met while rows were taken away.
    """

    def __init__(
        self,
        rounds: Sequence[Counts],
        bound: FixpointBound = FixpointBound.ROUNDS,
        *,
        down: bool = False,
    ) -> None:
        super().__init__(f"no fixed point after {len(rounds)} rounds")
        self.rounds = tuple(rounds)
        self.growing = dict(rounds[-1])
        self.bound = bound
        self.down = down


class Exploded(Exception):
    """A round that was stopped on its way, because it went past a bound."""

    def __init__(self, member: TableName, bound: FixpointBound) -> None:
        super().__init__(f"{member}: {bound.value}")
        self.member = member
        self.bound = bound


@dataclass
class Meter:
    """What the rounds of one refresh have used up of its bounds."""

    bounds: FixpointBounds
    started: float | None = None  # before its rounds, where several fixed points share the time
    clock: Callable[[], float] = time.monotonic
    rows: int = 0

    def __post_init__(self) -> None:
        if self.started is None:
            self.started = self.clock()

    @property
    def seconds(self) -> float:
        return self.clock() - (self.started or 0.0)

    @property
    def seconds_left(self) -> float | None:
        return self.bounds.seconds - self.seconds if self.bounds.seconds else None

    @property
    def rows_left(self) -> int | None:
        return max(0, self.bounds.rows - self.rows) if self.bounds.rows else None

    @property
    def is_past_rows(self) -> bool:
        return bool(self.bounds.rows) and self.rows > self.bounds.rows

    def met(self, rounds: int) -> FixpointBound | None:
        """The bound at which another round must not begin."""
        most = self.bounds
        if rounds >= most.rounds:
            return FixpointBound.ROUNDS
        if self.is_past_rows:
            return FixpointBound.ROWS
        if most.seconds and self.seconds > most.seconds:
            return FixpointBound.TIME
        return None


@dataclass(frozen=True)
class Converged:
    """What it took: rows per member that each round took away, then added."""

    strategy: Strategy
    over_deleted: tuple[Counts, ...] = ()
    derived: tuple[Counts, ...] = ()
    gave_up: bool = False  # so much was lost that it started from empty

    @property
    def rounds(self) -> int:
        return len(self.over_deleted) + len(self.derived)

    def lost(self) -> int:
        return sum(sum(each.values()) for each in self.over_deleted)

    def added(self) -> int:
        return sum(sum(each.values()) for each in self.derived)


def from_empty(
    backend: Backend,
    members: Sequence[Member],
    bounds: FixpointBounds,
    watch: Callable[[Counts], None],
    *,
    started: float | None = None,
) -> Converged:
    backend.clear()
    backend.meter = meter = Meter(bounds, started)
    return Converged(Strategy.EMPTY, (), iterate(Derive(backend, members, None), meter, watch))


def follow(
    backend: Backend,
    members: Sequence[Member],
    changed: Changed,
    *,
    only_gains: bool,
    give_up: float | None,
    bounds: FixpointBounds,
    watch: Callable[[Counts], None],
    careful: bool = False,
    started: float | None = None,
) -> Converged:
    """From the old fixed point to the new one, after a change of some sources.

    When more rows than `give_up` are lost, it starts from empty: most of them would have to come back.
    None: it never does.  `careful`: no row that went is ever put together with one that came, for a
    query may break on what never was; it costs as much as one round over everything.
    """
    down: tuple[Counts, ...] = ()
    backend.meter = meter = Meter(bounds, started)
    if not only_gains:
        over_deleted = OverDelete(backend, members, changed, give_up, careful)
        down = iterate(over_deleted, meter, watch, down=True)
        if over_deleted.too_many:
            backend.clear()
            meter.rows = (
                0  # what was lost is given up: the rows from empty have the bound to themselves
            )
            up = iterate(Derive(backend, members, None), meter, watch)
            return Converged(Strategy.EMPTY, down, up, gave_up=True)
        backend.remove()
    lost = frozenset(name for each in down for name in each)
    start = Start(changed, only_gains, lost, careful)
    up = iterate(Derive(backend, members, start), meter, watch)
    return Converged(Strategy.DELETES if start.removed else Strategy.INSERTS, down, up)


Count = Callable[[TableName, int], None]


class Rounds(Protocol):
    def round(self, count: Count) -> None:
        """One pass over all members; `count` is told at once by how many rows each of them moved."""


def iterate(
    rounds: Rounds, meter: Meter, watch: Callable[[Counts], None], *, down: bool = False
) -> tuple[Counts, ...]:
    """Rounds until one moves nothing.

    The rows of a round count member by member: what one of them moved is no longer left to the next.
    """
    counts: list[dict[TableName, int]] = []

    def count(name: TableName, rows: int) -> None:
        if rows:
            counts[-1][name] = counts[-1].get(name, 0) + rows
        meter.rows += rows
        if meter.is_past_rows:
            raise NoFixedPoint(counts, FixpointBound.ROWS, down=down)

    while not counts or counts[-1]:
        if counts and (bound := meter.met(len(counts))) is not None:
            raise NoFixedPoint(counts, bound, down=down)
        counts.append({})
        try:
            rounds.round(count)
        except Exploded as error:
            left = meter.rows_left if error.bound is FixpointBound.ROWS else None
            moved = counts[-1].get(error.member, 0)
            counts[-1][error.member] = moved + (left or 0) + 1  # at least, and nobody counted on
            raise NoFixedPoint(counts, error.bound, down=down) from error
        watch(counts[-1])
    return tuple(counts)


@dataclass
class Cursors:
    """How many batches of each member there are, and how many of them each reader has read."""

    batches: dict[TableName, int] = field(default_factory=dict)
    read: dict[tuple[TableName, TableName], int] = field(default_factory=dict)

    def advance(self, member: Member) -> BatchRanges:
        """Everything up to now; what came since the last call is the delta."""
        ranges = {}
        for up in {*member.upstreams, member.name}:
            now = self.batches.get(up, 0)
            ranges[up] = BatchRange(self.read.get((member.name, up), 0), now)
            self.read[member.name, up] = now
        return ranges

    def moved(self, member: Member, ranges: BatchRanges) -> frozenset[TableName]:
        ups = member.upstreams
        return frozenset(up for up in ups if ranges[up].after > ranges[up].before)

    def count(self, member: Member, rows: int) -> None:
        self.batches[member.name] = self.batches.get(member.name, 0) + bool(rows)


@dataclass(frozen=True)
class Start:
    """The first look at a change: what changed, and which members have lost rows."""

    changed: Changed
    only_gains: bool
    removed: frozenset[TableName]
    careful: bool = False


@dataclass
class Derive:
    """X ← X + (F(X) − X); `start` is None when the members are empty."""

    backend: Backend
    members: Sequence[Member]
    start: Start | None
    cursors: Cursors = field(default_factory=Cursors)
    first: bool = True

    def round(self, count: Count) -> None:
        for member in self.members:
            ranges = self.cursors.advance(member)
            records = self.records(member, self.cursors.moved(member, ranges))
            rows = 0 if records is None else self.backend.add(member, records, ranges)
            self.cursors.count(member, rows)
            count(member.name, rows)
        self.first = False

    def records(self, member: Member, moved: frozenset[TableName]) -> Node | None:
        if not self.first:
            return member.grown(moved, only_gains=True)
        if self.start is None:
            return member.whole()
        if self.start.careful:
            return member.more()
        changed = moved | (self.start.changed & member.sources)
        records = member.grown(changed, only_gains=self.start.only_gains)
        if member.name not in self.start.removed:
            return records
        removed = member.given(REMOVED)
        back = member.again(removed)
        return back if records is None else UnionAll((without(records, removed), back))


@dataclass
class OverDelete:
    """O ← O + the rows that a row of O was used for"""

    backend: Backend
    members: Sequence[Member]
    changed: Changed
    give_up: float | None
    careful: bool = False
    cursors: Cursors = field(default_factory=Cursors)
    first: bool = True
    total: int = 0

    @property
    def too_many(self) -> bool:
        return self.give_up is not None and self.total > self.give_up

    def round(self, count: Count) -> None:
        for member in [] if self.too_many else self.members:
            ranges = self.cursors.advance(member)
            moved = self.cursors.moved(member, ranges)
            changed = self.changed & member.sources if self.first else frozenset()
            for given, seeds in ((changed, True), (moved, False)):
                rows = self.taken(member, given, ranges, seeds=seeds)
                self.total += rows
                count(member.name, rows)
        self.first = False

    def taken(self, member: Member, changed: Changed, ranges: BatchRanges, *, seeds: bool) -> int:
        records = member.lost(changed, careful=self.careful) if changed else None
        rows = 0 if records is None else self.backend.take(member, records, ranges, seeds=seeds)
        self.cursors.count(member, rows)
        return rows
