"""The search against brute force: programs so short that all their orders can be listed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from anabranch.catalog.store import Store
from tests.explore.accesses import Changed, Event, Read, Recorder, _shape
from tests.explore.explorer import Order, order_of
from tests.explore.search import Search, Trace, happened

LOCK = "lock"
Step = tuple[str, str]  # what, and on which row: read, write, take, give


def event(actor: int, step: Step) -> Event:
    what, row = step
    made = Event(actor)
    if what != "write":
        made.reads.add(Read("t", "row", frozenset({row})))
    if what != "read":
        made.writes["t"] = Changed(frozenset({row}), ({"row": row},))
    return made


@dataclass
class World:
    """Actors that are lists of steps; who asks for a lock that another one has asks again when the lock
    has changed."""

    programs: Sequence[Sequence[Step]]
    at: list[int] = field(default_factory=list)
    owners: dict[str, int] = field(default_factory=dict)
    waiting: dict[int, Event] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.at = [0] * len(self.programs)

    def ready(self) -> list[int]:
        there = [a for a, steps in enumerate(self.programs) if self.at[a] < len(steps)]
        return [actor for actor in there if actor not in self.waiting]

    def go(self, actor: int) -> Event:
        what, row = self.programs[actor][self.at[actor]]
        if what == "take" and row in self.owners:
            self.waiting[actor] = event(actor, ("read", row))
            return self.waiting[actor]
        self.at[actor] += 1
        if what == "take":
            self.owners[row] = actor
        if what == "give":
            del self.owners[row]
        done = event(actor, (what, row))
        self.waiting = {a: asked for a, asked in self.waiting.items() if not asked.sees(done)}
        return done


def searched(programs: Sequence[Sequence[Step]], bound: int | None) -> Search:
    search = Search(bound)
    while True:
        world, events, whole = World(programs), [], True
        while ready := world.ready():
            chosen = search.choose(ready)
            if chosen is None:
                whole = False
                break
            events.append(world.go(chosen))
            search.note(events[-1])
        search.end(events, whole)
        if not search.advance():
            return search


def listed(programs: Sequence[Sequence[Step]], bound: int | None) -> Iterator[Trace]:
    """The traces of all orders, one after another."""
    open_orders: list[tuple[list[int], int]] = [([], 0)]
    while open_orders:
        order, preemptions = open_orders.pop()
        world = World(programs)
        events = [world.go(actor) for actor in order]
        ready = world.ready()
        if not ready:
            clocks = happened(events)
            yield frozenset((e.actor, clock) for e, clock in zip(events, clocks, strict=True))
        for actor in ready:
            taken = preemptions + (bool(order) and actor != order[-1] and order[-1] in ready)
            if bound is None or taken <= bound:
                open_orders.append(([*order, actor], taken))


def program(dice: random.Random, length: int) -> list[Step]:
    steps = [(dice.choice(("read", "write")), dice.choice("xyz")) for _ in range(length)]
    if dice.random() < 0.5:
        first, last = sorted(dice.sample(range(length + 1), 2))
        steps[first:last] = [("take", LOCK), *steps[first:last], ("give", LOCK)]
    return steps


def seeds(few: int, many: int) -> list[Any]:
    return [*range(few), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(few, many))]


@pytest.mark.parametrize("seed", seeds(6, 200))
def test_every_trace_once(seed: int) -> None:
    dice = random.Random(seed)
    lengths = (3, 4) if seed % 2 else (2, 2, 2)
    programs = [program(dice, length) for length in lengths]
    search = searched(programs, None)
    assert search.traces == {*listed(programs, None)}, programs
    assert len(search.traces) == search.runs - search.cut_short, "a trace was run twice"


@pytest.mark.parametrize("bound", [0, 1, 2])
@pytest.mark.parametrize("seed", seeds(3, 80))
def test_every_trace_of_few_preemptions(seed: int, bound: int) -> None:
    dice = random.Random(seed)
    lengths = (4, 4) if seed % 2 else (2, 3, 2)
    programs = [program(dice, length) for length in lengths]
    assert searched(programs, bound).traces == {*listed(programs, bound)}, programs


def test_what_commutes_is_run_once() -> None:
    apart = [[("write", name)] * 5 for name in "xyz"]
    assert searched(apart, None).runs == 1
    assert searched([[("read", "x")] * 5] * 3, None).runs == 1


def test_orders_have_texts() -> None:
    order = Order("b2 a b")
    events = [Event(order.choose([0, 1])) for _ in range(3)] + [Event(order.choose([1]))]
    assert order_of(events) == "b2 a1 b1"


@pytest.mark.parametrize(
    ("statement", "column", "places"),
    [
        ("SELECT a FROM ab_leases WHERE ab_leases.token = ?", "token", (0,)),
        ("SELECT a FROM ab_leases WHERE table_name IN (?, ?) AND token = ?", "table_name", (0, 1)),
        ("UPDATE ab_leases SET host=?, pid=? WHERE ab_leases.token = ?", "token", (2,)),
        ("DELETE FROM ab_leases WHERE expires_at < ? AND token = ?", "token", (1,)),
        ("DELETE FROM ab_leases WHERE pid = ? OR token = ?", None, ()),
        ("DELETE FROM ab_leases WHERE NOT (pid = ? AND token = ? AND host = ?)", None, ()),
        ("SELECT a FROM ab_leases", None, ()),
        ("SELECT a FROM ab_leases, ab_meta WHERE ab_leases.token = ?", None, ()),
    ],
)
def test_conditions_narrow_reads(
    statement: str, column: str | None, places: tuple[int, ...]
) -> None:
    shape = _shape(statement)
    assert (shape.column, shape.places) == (column, places)
    assert "ab_leases" in shape.read


def test_all_tables_are_known(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "catalog.db")) as store, store.reading() as c:
        made = {*c.exec_driver_sql("SELECT name FROM sqlite_master WHERE type='table'").scalars()}
        recorder = Recorder(tmp_path / "catalog.db")
        assert {*recorder._image} == {name for name in made if not name.startswith("sqlite_")}
        recorder.close()
