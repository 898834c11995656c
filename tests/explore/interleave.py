"""A deterministic scheduler of actors over one catalog: it switches where a transaction begins.

Transactions are atomic, so what two processes can do to each other depends only on the order of their
transactions.  Actors run in threads of which exactly one has the baton; it may be handed over before
each transaction, and is whenever an actor waits for a lease.  A schedule says after how many of its
transactions the running actor is preempted; the same schedule always gives the same run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from anabranch.catalog.store import Store
from anabranch.errors import AnabranchError

PATIENCE = 50  # times in a row that an actor may ask for a lease while nobody else can run
Preemptions = tuple[int, ...]


class Stuck(Exception):
    """An actor waits for something that nobody is going to do."""


@dataclass
class Actor:
    name: str
    act: Callable[[], object]
    steps: int = 0
    polls: int = 0
    done: bool = False
    error: BaseException | None = None
    thread: threading.Thread = field(default_factory=threading.Thread)


class Baton:
    """Runs actors one at a time; `preempt` counts the steps after which the baton goes on."""

    def __init__(self, actors: Sequence[Actor], first: int, preempt: Preemptions) -> None:
        self.actors = list(actors)
        self.running = first
        self.left = list(preempt)
        self._turn = threading.Condition()
        self._since = 0

    def run(self) -> None:
        for at, actor in enumerate(self.actors):
            actor.thread = threading.Thread(target=self._live, args=(at,), daemon=True)
            actor.thread.start()
        for actor in self.actors:
            actor.thread.join(120)
            if actor.thread.is_alive():
                raise Stuck(f"{actor.name} does not end")

    def mine(self) -> int | None:
        me = threading.current_thread()
        return next((at for at, each in enumerate(self.actors) if each.thread is me), None)

    def step(self) -> None:
        """Before a transaction: perhaps somebody else goes first."""
        me = self.mine()
        if me is None:
            return
        self.actors[me].steps += 1
        self.actors[me].polls = 0
        if self.left and self._since >= self.left[0]:
            self.left.pop(0)
            self._hand_over(me)
        self._since += 1

    def wait(self, _: float = 0) -> None:
        """While an actor waits for a lease, others run."""
        me = self.mine()
        if me is None:
            return
        actor = self.actors[me]
        actor.polls += 1
        if actor.polls > PATIENCE:
            raise Stuck(f"{actor.name} waits for a lease that nobody gives back")
        self._hand_over(me)

    def _live(self, at: int) -> None:
        actor = self.actors[at]
        with self._turn:
            self._turn.wait_for(lambda: self.running == at)
        try:
            actor.act()
        except BaseException as error:
            actor.error = error
        actor.done = True
        self._hand_over(at)

    def _hand_over(self, me: int) -> None:
        with self._turn:
            others = [at for at, each in enumerate(self.actors) if at != me and not each.done]
            if not others:
                return
            later = [at for at in others if at > me]
            self.running = (later or others)[0]
            self._since = 0
            self._turn.notify_all()
            if not self.actors[me].done:
                self._turn.wait_for(lambda: self.running == me)


@contextmanager
def switching(patch: pytest.MonkeyPatch, baton: Baton) -> Iterator[None]:
    """Inside, every transaction of an actor is a place to switch, and so is every wait."""
    with patch.context() as inside:
        for verb in ("reading", "writing"):
            inside.setattr(Store, verb, _stepping(getattr(Store, verb), baton))
        for module in ("leases", "runtime"):
            inside.setattr(f"anabranch.{module}.time", _Clock(baton.wait))
        yield


def _stepping(
    real: Callable[..., AbstractContextManager[Any]], baton: Baton
) -> Callable[..., AbstractContextManager[Any]]:
    @contextmanager
    def transaction(store: Store, **options: bool) -> Iterator[Any]:
        baton.step()
        with real(store, **options) as connection:
            yield connection

    return transaction


@dataclass(frozen=True)
class _Clock:
    sleep: Callable[[float], None]


@dataclass(frozen=True)
class Schedule:
    first: int
    preempt: Preemptions

    def __str__(self) -> str:
        return f"actor {self.first} first, preempted after {self.preempt} transactions"


def schedules(steps: Sequence[int], bound: int) -> Iterator[Schedule]:
    """All schedules of two actors with up to so many preemptions.

    `steps` is how many transactions each needs when it runs alone; one that is disturbed may need
    more, and those are gone through without another switch.
    """
    for first in range(len(steps)):
        yield Schedule(first, ())
        own = range(1, steps[first])
        yield from (Schedule(first, (at,)) for at in own)
        if bound > 1:
            other = range(1, steps[1 - first])
            yield from (Schedule(first, (at, then)) for at in own for then in other)


def expected(error: BaseException | None, kinds: tuple[type[AnabranchError], ...]) -> bool:
    return error is None or isinstance(error, kinds)
