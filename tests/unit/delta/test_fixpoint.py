"""The rounds of a fixed point, over a bench that only counts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from anabranch.delta.fixpoint import (
    BatchRanges,
    Converged,
    Exploded,
    Meter,
    NoFixedPoint,
    Strategy,
    follow,
    from_empty,
)
from anabranch.delta.member import Member
from anabranch.model import Column, FixpointBound, FixpointBounds
from anabranch.names import TableName
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import Node, Scan, Version
from anabranch.plan.walk import walk
from anabranch.sql.lower.query import lower

E, A, B = (TableName.of(name) for name in ("e", "a", "b"))
COLUMNS = (Column("src", "int"), Column("dst", "int"))
QUERIES = {
    A: "SELECT src, dst FROM e UNION SELECT b.src, e.dst FROM b JOIN e ON e.src = b.dst",
    B: "SELECT src, dst FROM a",
}


def types(node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
    return ["int" for _ in exprs]


def members() -> list[Member]:
    found = []
    for name, query in QUERIES.items():
        plan = lower(query, dict.fromkeys((E, A, B), COLUMNS), {}, types).plan
        assert plan is not None
        found.append(Member(name, plan, frozenset(QUERIES)))
    return found


@dataclass
class Counting:
    """Answers `add` and `take` with given counts, and remembers what it was asked."""

    adds: list[int] = field(default_factory=list)
    takes: list[int] = field(default_factory=list)
    asked: list[tuple[str, str, Node, BatchRanges]] = field(default_factory=list)
    meter: Meter | None = None

    def add(self, member: Member, records: Node, ranges: BatchRanges) -> int:
        self.asked.append(("add", member.name.name, records, ranges))
        return self.adds.pop(0) if self.adds else 0

    def take(self, member: Member, records: Node, ranges: BatchRanges, *, seeds: bool) -> int:
        self.asked.append(("seed" if seeds else "take", member.name.name, records, ranges))
        return self.takes.pop(0) if self.takes else 0

    def remove(self) -> None:
        self.asked.append(("remove", "", members()[0].plan, {}))

    def clear(self) -> None:
        self.asked.append(("clear", "", members()[0].plan, {}))

    @property
    def verbs(self) -> list[tuple[str, str]]:
        return [(verb, name) for verb, name, _, _ in self.asked]


def deltas(node: Node) -> set[TableName]:
    return {
        part.table
        for part in walk(node)
        if isinstance(part, Scan) and part.version is Version.DELTA
    }


def test_a_round_looks_only_at_what_is_new() -> None:
    backend = Counting(adds=[3, 3, 2, 2])
    done = from_empty(backend, members(), FixpointBounds(10), lambda _: None)
    assert done.strategy is Strategy.EMPTY and done.rounds == 3
    assert done.derived == ({A: 3, B: 3}, {A: 2, B: 2}, {})
    assert backend.verbs == [
        ("clear", ""),
        *[("add", name) for _ in range(2) for name in ("a", "b")],
        ("add", "a"),
    ]  # in the last round nothing came for b
    first, second = backend.asked[1], backend.asked[3]
    assert not deltas(first[2]) and deltas(second[2]) == {B}
    batch_range = second[3][B]
    assert (batch_range.before, batch_range.after) == (0, 1)


def test_plans_do_not_grow_with_the_rounds() -> None:
    backend = Counting(adds=[1] * 40)
    from_empty(backend, members(), FixpointBounds(100), lambda _: None)
    later = {records for _, name, records, _ in backend.asked[3:] if name == "a"}
    assert len(later) == 1


def test_the_limit_ends_what_does_not_end() -> None:
    watched: list[int] = []
    with pytest.raises(NoFixedPoint) as caught:
        from_empty(
            Counting(adds=[1] * 100),
            members(),
            FixpointBounds(4),
            lambda each: watched.append(len(each)),
        )
    assert len(caught.value.rounds) == 4 == len(watched)
    assert caught.value.growing == {A: 1, B: 1}


def followed(
    backend: Counting,
    *,
    only_gains: bool = False,
    give_up: float | None = None,
    bounds: FixpointBounds | None = None,
) -> Converged:
    return follow(
        backend,
        members(),
        frozenset({E}),
        only_gains=only_gains,
        give_up=give_up,
        bounds=bounds or FixpointBounds(9),
        watch=lambda _: None,
    )


def test_inserts_take_nothing_away() -> None:
    backend = Counting(adds=[1, 1])
    done = followed(backend, only_gains=True, give_up=5)
    assert done.strategy is Strategy.INSERTS
    assert {verb for verb, _ in backend.verbs} == {"add"}
    assert deltas(backend.asked[0][2]) == {E}
    assert deltas(backend.asked[1][2]) == {A}


def test_deletes_go_down_to_the_end_and_come_up_again() -> None:
    backend = Counting(takes=[2, 1], adds=[1])
    done = followed(backend, only_gains=False, give_up=50)
    assert done.strategy is Strategy.DELETES
    assert done.over_deleted == ({A: 2, B: 1}, {})
    assert done.lost() == 3 and done.added() == 1
    assert backend.verbs[:4] == [("seed", "a"), ("take", "b"), ("take", "a"), ("remove", "")]


def test_losing_most_rows_starts_from_empty() -> None:
    backend = Counting(takes=[2, 9, 9, 9], adds=[1])
    done = followed(backend, only_gains=False, give_up=5)
    assert done.strategy is Strategy.EMPTY and done.gave_up
    assert [verb for verb, _ in backend.verbs].count("clear") == 1
    assert not deltas(backend.asked[-2][2]) or backend.verbs[-1] == ("add", "a")


def test_nothing_lost_is_no_deletion() -> None:
    backend = Counting(adds=[1])
    done = followed(backend, only_gains=False, give_up=5)
    assert done.strategy is Strategy.INSERTS


def test_whoever_must_not_start_from_empty_does_not_however_much_is_lost() -> None:
    backend = Counting(takes=[9, 9, 9, 9], adds=[1])
    done = followed(backend, give_up=None)
    assert done.strategy is Strategy.DELETES and not done.gave_up
    assert "clear" not in [verb for verb, _ in backend.verbs]


@pytest.mark.parametrize("down", [True, False])
def test_rounds_are_bounded_in_both_directions(down: bool) -> None:
    endless = Counting(takes=[1] * 100) if down else Counting(takes=[1], adds=[1] * 100)
    with pytest.raises(NoFixedPoint) as caught:
        followed(endless, bounds=FixpointBounds(4))
    assert len(caught.value.rounds) == 4
    assert (caught.value.bound, caught.value.down) == (FixpointBound.ROUNDS, down)


@pytest.mark.parametrize("down", [True, False])
def test_rows_are_bounded_over_both_directions(down: bool) -> None:
    many = Counting(takes=[30, 30] * 9) if down else Counting(takes=[30, 30], adds=[30, 30] * 9)
    with pytest.raises(NoFixedPoint) as caught:
        followed(many, bounds=FixpointBounds(50, rows=100))
    assert (caught.value.bound, caught.value.down) == (FixpointBound.ROWS, down)
    assert len(caught.value.rounds) == (2 if down else 1)


def test_time_is_bounded_and_no_bound_is_none() -> None:
    now = [100.0]
    meter = Meter(FixpointBounds(9, seconds=5), clock=lambda: now[0])
    now[0] = 105.0
    assert meter.met(1) is None
    now[0] = 105.1
    assert meter.met(1) is FixpointBound.TIME
    free = Meter(FixpointBounds(9), clock=lambda: now[0])
    now[0], free.rows = 1e9, 10**12
    assert free.met(8) is None and free.met(9) is FixpointBound.ROUNDS


def test_rows_that_were_given_up_do_not_count_against_the_way_up() -> None:
    bounds = FixpointBounds(9, rows=10)
    done = followed(Counting(takes=[8, 0], adds=[3, 3, 1]), give_up=5, bounds=bounds)
    assert done.gave_up and done.lost() == 8 and done.added() == 7
    with pytest.raises(NoFixedPoint):
        followed(Counting(takes=[8, 0], adds=[6, 6, 1]), give_up=5, bounds=bounds)


def test_what_is_tried_one_after_the_other_shares_the_time() -> None:
    """A fixed point that starts late has no more time left than the refresh has."""
    long_ago = time.monotonic() - 100
    for backend in (Counting(adds=[1] * 9), Counting(adds=[1] * 9)):
        with pytest.raises(NoFixedPoint) as caught:
            from_empty(
                backend,
                members(),
                FixpointBounds(9, seconds=50),
                lambda _: None,
                started=long_ago,
            )
        assert len(caught.value.rounds) == 1


@pytest.mark.parametrize("bound", [FixpointBound.ROWS, FixpointBound.TIME])
def test_a_round_that_explodes_is_told_as_one_that_went_past_its_bound(
    bound: FixpointBound,
) -> None:
    class Exploding(Counting):
        def add(self, member: Member, records: Node, ranges: BatchRanges) -> int:
            if not self.adds:  # all members have been asked once
                raise Exploded(member.name, bound)
            return super().add(member, records, ranges)

    backend = Exploding(adds=[3, 4])
    bounds = FixpointBounds(9, rows=10, seconds=1_000)
    with pytest.raises(NoFixedPoint) as caught:
        from_empty(backend, members(), bounds, lambda _: None)
    assert caught.value.bound is bound and len(caught.value.rounds) == 2
    assert caught.value.rounds[0] == {A: 3, B: 4} and list(caught.value.growing) == [A]
    left = backend.meter
    assert left is not None and left.rows_left == 3 and (left.seconds_left or 0) <= 1_000


def test_the_rows_of_a_round_are_bounded_over_all_members() -> None:
    """What the first member moved is not left to the second, and no member is asked in vain."""

    class Watching(Counting):
        left: list[int | None]

        def add(self, member: Member, records: Node, ranges: BatchRanges) -> int:
            assert self.meter is not None
            self.left = [*getattr(self, "left", []), self.meter.rows_left]
            return super().add(member, records, ranges)

    backend = Watching(adds=[6, 3, 1, 0, 0])
    from_empty(backend, members(), FixpointBounds(9, rows=10), lambda _: None)
    assert backend.left[:4] == [10, 4, 1, 0]
    for adds, last in (([6, 6], {A: 6, B: 6}), ([11, 1], {A: 11})):
        backend = Watching(adds=adds)
        with pytest.raises(NoFixedPoint) as caught:
            from_empty(backend, members(), FixpointBounds(9, rows=10), lambda _: None)
        assert caught.value.bound is FixpointBound.ROWS
        assert list(caught.value.rounds) == [last] and len(backend.left) == len(last)
