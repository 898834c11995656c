"""All runs of some actors that can differ: dynamic partial-order reduction with sleep sets.

Two events commute unless one changes what the other reads or changes.  Runs that differ only in the
order of events that commute are one *trace*, and end alike.  After a run, every event that could have
come before an earlier one that it does not commute with is a reason to try that order (source sets:
Abdulla, Aronis, Jonsson and Sagonas, POPL 2014); sleep sets leave out what an earlier run has shown.
Without a bound, a search goes through every trace, once.

With a bound, it goes through every trace that some schedule with at most so many preemptions has; a
switch is a preemption if the actor could have gone on.  There the places where the actor got its turn
are tried as well, since to begin there costs nothing (Coons, Musuvathi and McKinley, OOPSLA 2013), and
nothing sleeps.  `test_search` compares both with brute force.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.explore.accesses import Event

Clocks = Sequence[tuple[int, ...]]
Trace = frozenset[tuple[int, tuple[int, ...]]]


@dataclass
class Node:
    """A state, and whom we let go from it."""

    ready: Sequence[int]
    last: int | None
    preemptions: int
    sleep: dict[int, Event]
    chosen: int = -1
    tried: dict[int, Event] = field(default_factory=dict)
    wanted: set[int] = field(default_factory=set)

    def costs(self, actor: int) -> int:
        """Preemptions up to here, if that actor goes on."""
        taken = self.last is not None and actor != self.last and self.last in self.ready
        return self.preemptions + taken


@dataclass
class Search:
    """`path` leads to the place of the next choice; a run repeats it and goes on by itself."""

    bound: int | None = None
    path: list[Node] = field(default_factory=list)
    traces: set[Trace] = field(default_factory=set)
    runs: int = 0
    cut_short: int = 0
    at: int = 0

    def __str__(self) -> str:
        what = "all orders" if self.bound is None else f"up to {self.bound} preemptions"
        return f"{what}: {len(self.traces)} traces in {self.runs} runs"

    @property
    def over(self) -> bool:
        """Whether there is nothing left to try."""
        return self.runs > 0 and not self.path

    def choose(self, ready: Sequence[int]) -> int | None:
        """Who goes next in the run under way; None when all that follows is known."""
        if self.at == len(self.path):
            node = self._next(ready)
            able = [actor for actor in ready if actor not in node.sleep]
            if not able:
                return None
            node.chosen = node.last if node.last in able else able[0]
            node.wanted.add(node.chosen)
            self.path.append(node)
        node = self.path[self.at]
        assert list(ready) == list(node.ready), "a run was not repeated as it was"
        self.at += 1
        return node.chosen

    def note(self, event: Event) -> None:
        """The event that the last choice led to; the same one, if it was tried before."""
        tried = self.path[self.at - 1].tried
        known = tried.setdefault(event.actor, event)
        assert not known.unlike(event), f"an event was not repeated: {known.unlike(event)}"
        tried[event.actor] = event

    def _next(self, ready: Sequence[int]) -> Node:
        if not self.path:
            return Node(ready, None, 0, {})
        above = self.path[-1]
        done = above.tried[above.chosen]
        asleep = {**above.sleep, **above.tried} if self.bound is None else {}
        sleep = {a: e for a, e in asleep.items() if a != done.actor and not e.depends(done)}
        return Node(ready, above.chosen, above.costs(above.chosen), sleep)

    def end(self, events: Sequence[Event], whole: bool) -> bool:
        """After a run: learn from it; whether its trace is whole and a new one."""
        self.runs += 1
        self.cut_short += not whole
        clocks = happened(events)
        for at, event in enumerate(events):
            assert self.path[at].tried[event.actor] is event
            for earlier in races(events, clocks, at):
                if self.bound is None:
                    self._reverse(events, clocks, earlier, at)
                else:
                    self._let_in(event.actor, earlier)
                    self._let_in(event.actor, block_start(events, earlier))
        trace = frozenset((e.actor, clock) for e, clock in zip(events, clocks, strict=True))
        new = whole and trace not in self.traces
        if new:
            self.traces.add(trace)
        return new

    def _reverse(self, events: Sequence[Event], clocks: Clocks, earlier: int, at: int) -> None:
        """Before the earlier event, somebody goes first with whom the later one can come before it."""
        node = self.path[earlier]
        between = (k for k in range(earlier + 1, at) if not before(events, clocks, earlier, k))
        order, first = [], set()
        for k in (*between, at):
            if not any(before(events, clocks, known, k) for known in order):
                first.add(events[k].actor)
            order.append(k)
        able = first.intersection(node.ready)
        if able and not able & node.wanted:
            node.wanted.add(events[at].actor if events[at].actor in able else min(able))

    def _let_in(self, actor: int, earlier: int) -> None:
        node = self.path[earlier]
        node.wanted.update({actor} if actor in node.ready else node.ready)

    def advance(self) -> bool:
        """To the next choice that is open; False when there is none."""
        while self.path:
            node = self.path[-1]
            for actor in sorted(node.wanted - node.tried.keys() - node.sleep.keys()):
                if self.bound is None or node.costs(actor) <= self.bound:
                    node.chosen = actor
                    self.at = 0
                    return True
            self.path.pop()
        return False


def happened(events: Sequence[Event]) -> list[tuple[int, ...]]:
    """A vector clock for each event: how many events of each actor had to come before."""
    width = 1 + max((event.actor for event in events), default=0)
    clocks: list[tuple[int, ...]] = []
    count = [0] * width
    for at, event in enumerate(events):
        clock = [0] * width
        for known in range(at):
            if clocks[known][events[known].actor] > clock[events[known].actor] and event.depends(
                events[known]
            ):
                clock = [max(pair) for pair in zip(clock, clocks[known], strict=True)]
        count[event.actor] += 1
        clock[event.actor] = count[event.actor]
        clocks.append(tuple(clock))
    return clocks


def before(events: Sequence[Event], clocks: Clocks, one: int, other: int) -> bool:
    """Whether one event had to come before the other."""
    actor = events[one].actor
    return clocks[one][actor] <= clocks[other][actor]


def races(events: Sequence[Event], clocks: Clocks, at: int) -> Iterator[int]:
    """Events of others that this one does not commute with, and had no other reason to come after."""
    later: list[int] = []
    for k in range(at - 1, -1, -1):
        if not before(events, clocks, k, at):
            continue
        direct = not any(before(events, clocks, k, other) for other in later)
        later.append(k)
        if direct and events[k].actor != events[at].actor:
            yield k


def block_start(events: Sequence[Event], at: int) -> int:
    while at and events[at - 1].actor == events[at].actor:
        at -= 1
    return at
