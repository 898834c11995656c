"""A deterministic scheduler of actors over one catalog: it switches where a transaction begins.

Transactions are atomic, so what processes can do to each other depends only on the order of their
transactions, and of what they do with files that somebody deletes.  Actors run in threads of which at
most one is not asleep; `Conductor.run` wakes one at a time, for one event: a transaction with all that
follows until the next one begins.  Listing and deleting files are events of their own, and so is
reading files after a transaction.  An actor that waits for a lease sleeps until somebody has changed
what it asked for.  The same choices always give the same run.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from sqlalchemy import Engine, event

from anabranch.catalog import cuts
from anabranch.catalog.store import Store
from anabranch.errors import AnabranchError
from anabranch.lake.places import Warehouse
from anabranch.model import Reading
from tests.explore.accesses import Event, Recorder, is_unseen, unseen
from tests.standin import files

PATIENCE = 50  # times in a row that an actor may ask for a lease while nobody else can run
Choose = Callable[[Sequence[int]], "int | None"]


class Stuck(Exception):
    """An actor waits for something that nobody is going to do."""


class Abandoned(BaseException):
    """The rest of this run is known."""


@dataclass
class Actor:
    name: str
    act: Callable[[], object]
    polls: int = 0
    done: bool = False
    waits_for: Event | None = None  # the last question for a lease
    error: BaseException | None = None
    depth: int = 0  # transactions that are open
    kind: str = ""  # of the event under way
    events: int = 0
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))


class Conductor:
    """Runs actors one event at a time; `choose` says which of those that can goes next."""

    def __init__(
        self,
        actors: Sequence[Actor],
        recorder: Recorder,
        choose: Choose,
        note: Callable[[Event], None] = lambda event: None,
    ) -> None:
        self.actors = list(actors)
        self.recorder = recorder
        self.choose, self.note = choose, note
        self.events: list[Event] = []
        self._mine = threading.local()
        self._back = threading.Semaphore(0)
        self._abandoned = False

    def run(self) -> bool:
        """Whether all came to their ends; if not, nobody wanted to know the rest."""
        threads = [threading.Thread(target=self._live, args=(a,), daemon=True) for a in self.actors]
        for thread, actor in zip(threads, self.actors, strict=True):
            thread.start()
            self._wake(actor)  # to where its first transaction begins
        self.recorder.end(-1)
        try:
            while not all(actor.done for actor in self.actors):
                chosen = self.choose(self._ready())
                if chosen is None:
                    return False
                self._one_event(chosen)
        finally:
            self._abandoned = True
            for thread, actor in zip(threads, self.actors, strict=True):
                while not actor.done:
                    self._wake(actor)
                thread.join()
        return True

    def _one_event(self, chosen: int) -> None:
        actor = self.actors[chosen]
        actor.waits_for = None
        actor.events += 1
        self._wake(actor)
        ended = self.recorder.end(chosen)
        self.events.append(ended)
        self.note(ended)
        if actor.waits_for is not None:
            actor.waits_for = ended
        for other in self.actors:
            if other is not actor and other.waits_for is not None and other.waits_for.sees(ended):
                other.waits_for = None
                other.polls = 0

    def _ready(self) -> list[int]:
        there = [at for at, actor in enumerate(self.actors) if not actor.done]
        ready = [at for at in there if self.actors[at].waits_for is None]
        if ready:
            return ready
        for at in there:  # nobody changes anything: only time can help
            self.actors[at].polls += 1
            if self.actors[at].polls > PATIENCE:
                raise Stuck(f"{self.actors[at].name} waits for a lease that nobody gives back")
        return there

    def _wake(self, actor: Actor) -> None:
        actor.turn.release()
        self._back.acquire()

    def _live(self, actor: Actor) -> None:
        self._mine.actor = actor
        actor.turn.acquire()
        try:
            actor.act()
        except Abandoned:
            pass
        except BaseException as error:
            actor.error = error
        actor.done = True
        self._back.release()

    # -- called by actors ------------------------------------------------------------------------

    def mine(self) -> Actor | None:
        """The actor whose thread this is, unless it is not to be seen."""
        return None if is_unseen() else getattr(self._mine, "actor", None)

    def step(self, kind: str) -> None:
        """Before an event: others may go first."""
        actor = self.mine()
        if actor is not None and not actor.depth:
            actor.kind = kind
            self._sleep(actor)

    def step_unless(self, kind: str) -> None:
        """Files that are read or deleted in a row are one event."""
        actor = self.mine()
        if actor is not None and actor.kind != kind:
            self.step(kind)

    def wait(self, _: float = 0) -> None:
        """An actor waits for a lease, before it asks again."""
        if (actor := self.mine()) is not None:
            actor.waits_for = Event()

    def _sleep(self, actor: Actor) -> None:
        if not self._abandoned:
            self._back.release()
            actor.turn.acquire()
        if self._abandoned:
            raise Abandoned


@contextmanager
def switching(patch: pytest.MonkeyPatch, conductor: Conductor) -> Iterator[None]:
    """Inside, what actors do is recorded, and every event is a place to switch."""
    listeners = {
        "begin": lambda c: _begin(conductor),
        "commit": lambda c: _end(conductor),
        "rollback": lambda c: _end(conductor),
        "after_cursor_execute": lambda c, cursor, text, given, context, many: _said(
            conductor, text, given, many
        ),
    }
    with patch.context() as inside:
        inside.setattr("anabranch.leases.time", _Clock(conductor.wait))
        inside.setattr("anabranch.retry.time", _Clock(lambda seconds: None))
        for each in (
            "anabranch.lake.attached",
            "anabranch.lake.fence",
            "anabranch.catalog.heartbeat",
        ):
            inside.setattr(f"{each}.time", _Clock(lambda seconds: None))
        inside.setattr(Store, "_prepare", _unseen(Store._prepare))
        inside.setattr(cuts, "hold", _unseen(cuts.hold))
        inside.setattr(uuid, "uuid4", _named(uuid.uuid4, conductor))
        _watch_files(inside, conductor)
        for name, listener in listeners.items():
            event.listen(Engine, name, listener)
        try:
            yield
        finally:
            for name, listener in listeners.items():
                event.remove(Engine, name, listener)


def _begin(conductor: Conductor) -> None:
    conductor.step("transaction")
    if (actor := conductor.mine()) is not None:
        actor.depth += 1


def _end(conductor: Conductor) -> None:
    if (actor := conductor.mine()) is not None:
        actor.depth -= 1


def _said(conductor: Conductor, text: str, given: Any, many: bool) -> None:
    if conductor.mine() is not None and text not in ("SELECT 1 FROM ab_meta", "BEGIN"):
        conductor.recorder.statement(text, given, many)


def _watch_files(patch: pytest.MonkeyPatch, conductor: Conductor) -> None:
    def before(owner: Any, name: str, note: Callable[[Any], None]) -> None:
        real = getattr(owner, name)

        def watched(*given: Any, **named: Any) -> Any:
            if conductor.mine() is not None:
                note(given[-1])
            return real(*given, **named)

        patch.setattr(owner, name, watched)

    def read(reading: Reading) -> None:
        conductor.step_unless("read")
        for path in (*reading.files, *reading.skip, *reading.only):
            conductor.recorder.read_file(path)

    def delete(path: str) -> None:
        conductor.step_unless("delete")
        conductor.recorder.change_file(path)

    def listing(path: str) -> None:
        conductor.step_unless("list")
        conductor.recorder.list_files(path)

    before(files, "check_tails", read)  # what the stand-in does before it reads files
    before(PyArrowFileIO, "new_input", conductor.recorder.read_file)
    before(PyArrowFileIO, "new_output", conductor.recorder.change_file)
    before(Warehouse, "delete", delete)
    before(Warehouse, "listing", listing)


def _named(real: Callable[[], uuid.UUID], conductor: Conductor) -> Callable[[], uuid.UUID]:
    def uuid4() -> uuid.UUID:
        name = real()
        if (actor := conductor.mine()) is not None:
            conductor.recorder.made(name, conductor.actors.index(actor), actor.events)
        return name

    return uuid4


def _unseen(real: Callable[..., Any]) -> Callable[..., Any]:
    def quiet(*given: Any, **named: Any) -> Any:
        with unseen():
            return real(*given, **named)

    return quiet


@dataclass(frozen=True)
class _Clock:
    """Time stands still: what is asked again after some seconds would be an event by chance."""

    sleep: Callable[[float], None]

    def monotonic(self) -> float:
        return 1e9


def expected(error: BaseException | None, kinds: tuple[type[AnabranchError], ...]) -> bool:
    return error is None or isinstance(error, kinds)
