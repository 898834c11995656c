"""The whole system under steps of users, programs and accidents, checked against the plain model.

Catalog, lake, publish, leases, groups, scheduler and deployments are real; rows are computed by the
stand-in of tests/standin.  A step is a list of plain values, so that a run can be kept as JSON:

    ["insert", "db.s.a1", [[1, 10]]]        ["tick"]        ["refresh", "db.h.t0"]
    ["crash", "in_transaction", 1, step]    the process dies when `step` comes there for the first time
    ["meanwhile", "staged", 1, step, other] another process does `other` while `step` is there
    ["asleep", "staged", 1, step, other]    the same, after so long a silence that leases have ended

After every step, and at every publish inside one, what can be seen must be what the model says.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from anabranch import failpoints
from anabranch.api import Anabranch
from anabranch.catalog import leases, tables
from anabranch.errors import AnabranchError, InternalError, PublishConflict, Unreachable
from anabranch.names import TableName
from tests.model import plain
from tests.model.checks import SOURCES, Wrong
from tests.model.plain import Sources
from tests.model.verbs import WRITES, Held, Verbs
from tests.standin.engine import installed, swap

Step = Sequence[Any]


class Killed(BaseException):
    """The process is gone: nobody may catch this and go on."""


class Waits(BaseException):
    """A process that would wait for another one, which cannot go on before it ends."""


@dataclass
class Publishing:
    """What happens when a step comes to a point of a publish for the n-th time."""

    point: str
    number: int
    act: Callable[[], None]


@dataclass
class Machine(Verbs):
    clock: datetime = datetime(2030, 1, 1, tzinfo=timezone.utc)
    sources: Sources = field(default_factory=lambda: {name: Counter() for name in SOURCES})
    orphans: list[Held] = field(default_factory=list)  # of processes that are gone
    fault: Publishing | None = None
    wrong: Wrong | None = None  # what was found at a publish inside a step
    nested: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ab = self.opened()
        self.other = self.opened()

    def close(self) -> None:
        for each in (*self.held, *self.orphans):
            with suppress(AnabranchError, Killed):
                each.stack.close()
        for ab in (self.ab, self.other, self.eye):
            ab._store.close()
        self.outside.close()
        self.session.stop()

    # -- time and faults -----------------------------------------------------------------------

    def now(self) -> datetime:
        self.clock += timedelta(microseconds=1)  # no two moments are one
        return self.clock

    def sleep(self, seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            REAL_SLEEP(seconds)
        elif self.nested:
            raise Waits
        else:
            self.pass_time(max(seconds, 0.1))

    def pass_time(self, seconds: float, awake: Sequence[Anabranch] = ()) -> None:
        """Time goes on, and processes that are awake say so meanwhile."""
        while seconds > 0:
            self.clock += timedelta(seconds=min(seconds, SILENCE))
            seconds -= SILENCE
            for ab in awake or (self.ab, self.other):
                if kept := list(ab._store.heartbeat._tasks.values()):
                    with ab._store.writing() as c:
                        for each in kept:
                            each.beat(c)

    def at_step(self, point: str) -> None:
        if point == failpoints.PUBLISHED:
            try:
                self.check()
            except Wrong as error:  # raised here, the engine would take it for a fault of its own
                self.wrong = self.wrong or error
        fault = self.fault
        if fault is not None and fault.point == point and not self.nested:
            fault.number -= 1
            if fault.number == 0:
                self.fault = None
                fault.act()

    def kill(self) -> None:
        """From here on the process does nothing any more, not even tidy up."""

        def gone(*_: object, **__: object) -> Any:
            if threading.current_thread() is threading.main_thread():
                raise Killed
            raise Unreachable("the process is gone")

        self.orphans += [each for each in self.held if each.by is self.ab]
        self.held = [each for each in self.held if each.by is not self.ab]

        store, warehouse = self.ab._store, self.ab._runtime.lake.warehouse
        for thing, names in ((store, ("reading", "writing")), (warehouse, ("delete",))):
            for name in names:
                object.__setattr__(thing, name, gone)
        raise Killed

    # -- steps ---------------------------------------------------------------------------------

    def run(self, step: Step) -> str:
        """One step and all checks; what came of it, in a word."""
        before = self.sources
        self.alone = step[0] not in ("crash", "meanwhile", "asleep")
        if step[0] == "crash":
            word, allowed = self.crash(step, before)
        elif step[0] in ("meanwhile", "asleep"):
            word, allowed = self.meanwhile(step, before)
        else:
            word = self.attempt(self.ab, step)
            allowed = [plain.after(step, before) if word == "done" else before]
        self.fault = None
        if self.wrong is not None:
            raise self.wrong
        self.settle(allowed, step)
        self.check()
        return word

    def attempt(self, ab: Anabranch, step: Step, *, alone: bool = True) -> str:
        """Do a step; refusing is an answer, and so is a lost race if somebody else is at work."""
        try:
            getattr(self, f"do_{step[0]}")(ab, *step[1:])
        except (InternalError, Wrong):
            raise
        except PublishConflict as error:
            if alone:
                raise Wrong(f"{step} lost a race against nobody: {error}") from error
            return "lost"
        except AnabranchError as error:
            if step[0] in WRITES and alone:
                raise Wrong(f"{step}: {error}") from error
            return type(error).__name__
        return "done"

    def crash(self, step: Step, before: Sources) -> tuple[str, list[Sources]]:
        _, point, number, inner = step
        self.fault = Publishing(point, number, self.kill)
        try:
            word = self.attempt(self.ab, inner)
        except Killed:
            self.ab = self.opened()
            return "killed", [before, plain.after(inner, before)]
        return word, [plain.after(inner, before) if word == "done" else before]

    def meanwhile(self, step: Step, before: Sources) -> tuple[str, list[Sources]]:
        kind, point, number, inner, other = step
        said: list[str] = []

        def act() -> None:
            self.nested = True
            try:
                if kind == "asleep":
                    self.fall_silent()
                self.check()  # what was published up to here has the definitions of this moment
                with self.leased():
                    said.append(self.attempt(self.other, other, alone=False))
            except Waits:
                said.append("waits")
            except Wrong as error:
                self.wrong = self.wrong or error
            finally:
                self.nested = False

        self.fault = Publishing(point, number, act)
        word = self.attempt(self.ab, inner, alone=False)
        mine = inner if word == "done" else ["nothing"]
        theirs = other if said == ["done"] else ["nothing"]
        orders = (mine, theirs), (theirs, mine)
        allowed = [plain.after(second, plain.after(first, before)) for first, second in orders]
        return f"{word}/{said[0] if said else 'alone'}", allowed

    def fall_silent(self) -> None:
        """The process at work does nothing for so long that others may take its work over."""
        self.orphans += [each for each in self.held if each.by is self.ab]
        self.held = [each for each in self.held if each.by is not self.ab]
        self.pass_time(LONG, (self.other,))

    @contextmanager
    def leased(self) -> Iterator[None]:
        """What somebody has a lease of, nobody else changes."""

        def state() -> dict[TableName, tuple[object, object]]:
            seen = self.look()
            return {n: (seen.pointers.get(n), each.token) for n, each in seen.streams.items()}

        before = state()
        with self.eye._store.reading() as c:
            taken = leases.held(c, before)
        yield
        after = state()
        if changed := [str(name) for name in sorted(taken) if before[name] != after.get(name)]:
            raise Wrong(f"changed though somebody else has the lease: {changed}")

    def settle(self, allowed: Sequence[Sources], step: Step) -> None:
        """The sources are what acknowledged writes made of them."""
        runtime = self.eye._runtime
        with runtime.store.reading() as c:
            pointers = runtime.lake.pointers(c)  # with commits of others that nobody has looked at
        found = {name: self.rows_in(name, pointers) for name in SOURCES}
        if found not in allowed:
            raise Wrong(f"sources after {step}: {found}, not {allowed}")
        self.sources = found


SILENCE = 5  # seconds between two signs of life
LONG = 90  # longer than leases last
REAL_SLEEP = time.sleep


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """A home of its own, with time and faults in the hands of the model."""
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Machine] = []
    start = datetime(2030, 1, 1, tzinfo=timezone.utc)
    now, real_now = (lambda *_: made[0].now() if made else start), tables.now
    with installed():
        undo = swap(real_now, now)
        failpoints.hook = lambda point: made[0].at_step(point) if made else None
        time.sleep = lambda seconds: made[0].sleep(seconds) if made else REAL_SLEEP(seconds)  # type: ignore[assignment]
        try:
            made.append(Machine(folder))
            yield made[0]
        finally:
            time.sleep = REAL_SLEEP
            failpoints.hook = None
            undo()
            if made:
                made[0].close()
