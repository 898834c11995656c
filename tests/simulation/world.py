"""One world: hosts with clocks, processes that are switched at every step, a disk, a database.

At most one process runs at a time; the others wait for their turn.  A step is the beginning of a
transaction, or something that is done with files.  Before a step a process may be put aside for
another one, die, fall asleep, lose its connection or the power of its machine, as the plan says; so
the same plan always gives the same run.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

from anabranch.lake.lake import Lake
from anabranch.runtime import Runtime, Workers
from anabranch.settings import Settings
from tests.simulation import light
from tests.simulation.database import Database, SimulatedStore
from tests.simulation.disk import Disk
from tests.simulation.plans import Event, Op, Plan

EPOCH = datetime(2030, 1, 1, tzinfo=timezone.utc)
WAREHOUSE = "file:///simulated/warehouse"
STEPS = 20_000  # more of them in one run: it does not end
HANGS = 300.0  # seconds of real time without an end
RETENTION = 60.0
LATER = 1000.0  # seconds after the template was made
LEASE = 30.0
APART = 5.0  # clocks of hosts that share a file, when they start: less than a lease has to spare
MOMENTS = 10  # in which processes say that they live, however long the time that goes by


class Wrong(AssertionError):
    """Something that must hold does not."""


class Killed(BaseException):
    """The process is gone: nobody may catch this and go on."""


class Hung(BaseException):
    """A bug of the simulation: nobody can go on."""


class Stuck(Wrong):
    """A run that does not end."""


@dataclass
class Process:
    number: int
    host: int
    ops: tuple[Op, ...]
    pid: int
    steps: int = 0
    depth: int = 0
    dead: bool = False
    done: bool = False
    asleep: bool = False  # as a machine that is suspended: it says nothing
    wake_at: float = 0.0
    lose: str | None = None  # how the answer to the next commit is lost
    op: Op | None = None
    runtime: Runtime = None  # type: ignore[assignment]
    tokens: set[str] = field(default_factory=set)  # of leases that it took
    said: list[tuple[Op, str]] = field(default_factory=list)
    turn: Any = None  # a lock that is free when it may go on


@dataclass
class Template:
    """A world before anything happens."""

    database: Database
    files: dict[str, Any]
    catalog_uuid: str


class Hands(threading.Thread):
    """A thread that does one task after the other, each when it is its turn."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.turn = threading.Lock()
        self.turn.acquire()
        self.task: Callable[[], None] = lambda: None
        self.start()

    def run(self) -> None:
        while True:
            self.turn.acquire()
            task, self.task = self.task, lambda: None
            task()


_THREADS: list[Hands] = []


def threads(count: int) -> list[Hands]:
    """The same ones for every seed."""
    while len(_THREADS) < count:
        _THREADS.append(Hands())
    return _THREADS[:count]


class World:
    """Runs a plan.  `check` is asked after every commit, and `verbs` say what operations do."""

    def __init__(
        self,
        plan: Plan,
        template: Template,
        second: Database,
        settings: Settings,
        trace: list[str] | None = None,
    ) -> None:
        self.plan, self.settings, self.trace = plan, settings, trace
        self.chance = random.Random(f"{plan.seed} luck")
        self.names = random.Random(f"{plan.seed} names")
        self.second = second  # for a copy of the catalog
        self.time, self.total = 0.0, 0
        self.offsets = [0.0, 0.0, 0.0, 0.0]
        self.boots = [0, 0, 0, 0]  # how often each host was started
        self.booted = [0.0, 0.0, 0.0, 0.0]  # and when
        self.disk = Disk(self.step, self.now)
        self.powerless = any(event.kind == "power" for event in plan.events)
        self.database = template.database
        for each in (self.database, second):
            each.connection.clock = self.clock
        self.database.begin_run(powerless=self.powerless)
        self.disk.files = {path: light_copy(file) for path, file in template.files.items()}
        self.catalog_uuid = template.catalog_uuid
        light.number.begin(1000)
        self.time = LATER
        self.events: dict[tuple[int, int], list[Event]] = {}
        for event in plan.events:
            self.events.setdefault((event.process, event.step), []).append(event)
        self.pids = 100
        self.living: dict[tuple[str, int], str] = {}  # by host and process number
        self.processes = [
            Process(at, plan.hosts[at], ops, 0) for at, ops in enumerate(plan.processes)
        ]
        self.outsider = Process(-1, 0, (), 0)  # who looks on, or makes the template
        self.current: Process = self.outsider
        self.wrong: BaseException | None = None
        self.ended = threading.Lock()
        self.ended.acquire()
        self.on_commit: Callable[[Database], None] = lambda database: None
        self.on_beat: Callable[[Process, list[str]], None] = lambda process, tokens: None
        self.on_take: Callable[[Any, Any], None] = lambda names, waiting: None
        self.perform: Callable[[Process, Op], str] = lambda process, op: "done"

    def start(self) -> None:
        """Somebody looks on.  Hosts were started with the template, one of them perhaps again since
        then, with a clock on the wall that is a little wrong."""
        luck = random.Random(f"{self.plan.seed} clocks")
        if self.plan.seed < 0:
            for host in range(1, len(self.boots)):
                self.outsider.host = host
                self.begin(self.outsider)
            self.outsider.host = 0
        elif 1 in self.plan.hosts and luck.random() < 0.25:
            self.boots[1] = 1
            self.offsets[1] = float(luck.choice((-APART, APART)))
        self.begin(self.outsider)

    # -- time and identity -----------------------------------------------------------------------

    def now(self) -> datetime:
        """The clock of the host that asks; no two moments are one."""
        self.time += 1e-6
        return EPOCH + timedelta(seconds=self.time + self.offsets[self.current.host])

    def boot(self) -> str:
        return f"boot {self.boots[self.current.host]} of {self.host()}"

    def since_boot(self) -> timedelta:
        """No two moments are one here either."""
        self.time += 1e-6
        return timedelta(seconds=self.time - self.booted[self.current.host])

    def clock(self) -> Any:
        """The catalog's, as the process that asks has it open; none while it opens it."""
        runtime = self.current.runtime
        return runtime.store.clock if runtime is not None else None

    def ahead(self) -> float:
        """By how much the catalog's clock is ahead on the host that asks."""
        clock = self.clock()
        now = clock.now() if clock is not None else self.now()
        return float((now - EPOCH).total_seconds()) - self.time

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self.names.getrandbits(128))

    def host(self) -> str:
        return f"host{self.current.host}"

    def process_start(self, pid: int) -> str | None:
        return self.living.get((self.host(), pid))

    def getpid(self) -> int:
        return self.current.pid

    def begin(self, process: Process, database: Database | None = None) -> None:
        """A process starts, or starts again after it died."""
        self.pids += 1
        process.pid, process.dead, process.depth, process.lose = self.pids, False, 0, None
        self.living[f"host{process.host}", process.pid] = f"start {process.pid}"
        before, self.current = self.current, process
        process.runtime = self.opened(database or self.database)
        self.current = before

    def opened(self, database: Database) -> Runtime:
        store = SimulatedStore(
            self, database, self.catalog_uuid, "catalog" if database is self.database else "copy"
        )
        lake = Lake(store, WAREHOUSE)  # `install` puts the warehouse on the simulated disk
        runtime = Runtime(self.settings, store, lake, light.Spark())  # type: ignore[arg-type]
        runtime._workers = Workers(1)
        return runtime

    # -- running ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Until all processes have done what the plan says."""
        for process, thread in zip(self.processes, threads(len(self.processes)), strict=True):
            self.begin(process)
            process.turn, thread.task = thread.turn, partial(self._live, process)
        self.current = self.processes[0]
        self.processes[0].turn.release()
        if not self.ended.acquire(timeout=HANGS):
            _THREADS.clear()  # they wait for ever
            raise Hung(f"a process waits for a lock of another one: {self.plan}")
        self.current = self.outsider
        if self.wrong is not None:
            raise self.wrong

    def _live(self, process: Process) -> None:
        try:
            for op in process.ops:
                if self.wrong is not None:
                    break
                process.op = op
                self.note(process, "begins " + shown(op))
                try:
                    said = self.perform(process, op)
                except Killed:
                    said = "killed"
                    process.tokens.clear()
                    if self.wrong is None:
                        self.begin(process)
                self.note(process, f"ends {shown(op)}: {said}")
                process.said.append((op, said))
        except BaseException as error:
            self.wrong = self.wrong or error
        process.done, process.op = True, None
        following = self._next(process)
        if following is None:
            self.ended.release()
        else:
            self.current = following
            following.turn.release()

    def _next(self, process: Process) -> Process | None:
        """Who goes on when a process has to wait; time goes by if all of them wait."""
        left = [each for each in self.processes if not each.done]
        if not left:
            return None
        if self.wrong is not None:
            return left[0]
        around = sorted(left, key=lambda each: (each.number <= process.number, each.number))
        for each in around:
            if not each.asleep and each.wake_at <= self.time:
                return each
        waiting = [each for each in around if not each.asleep]
        if waiting:
            first = min(waiting, key=lambda each: each.wake_at)
            self.pass_time(first.wake_at - self.time)
            return first
        around[0].asleep = False
        return around[0]

    def hand_over(self, process: Process, other: Process) -> None:
        if other is not process:
            self.current = other
            other.turn.release()
            process.turn.acquire()
            self.current = process
        process.asleep = False
        if process.dead or self.wrong is not None:
            raise Killed

    def note(self, process: Process, text: str) -> None:
        if self.trace is not None:
            who = chr(ord("A") + process.number)
            self.trace.append(f"{self.time:11.3f}  {who}{process.steps:<4} {text}")

    # -- what a process meets ----------------------------------------------------------------------

    def step(self, kind: str, about: str) -> None:
        """Before a step of the process that runs: what the plan says happens there."""
        process = self.current
        if process.number < 0:
            return
        if process.dead or self.wrong is not None:
            raise Killed
        if process.depth:
            return
        process.steps += 1
        self.time += 0.001
        self.total += 1
        if self.total > STEPS:
            raise Stuck(f"more than {STEPS} steps")
        if self.trace is not None:
            self.note(process, f"  {kind} {about.removeprefix(WAREHOUSE + '/')}")
        for event in self.events.get((process.number, process.steps), ()):
            self.note(process, f"  * {event.kind} {event.value or ''}")
            getattr(self, f"on_{event.kind}")(process, event.value)

    def sleep(self, seconds: float) -> None:
        """The process waits, and others go on."""
        process = self.current
        if process.number < 0:
            self.pass_time(max(seconds, 0.01))
            return
        if process.dead or self.wrong is not None:
            raise Killed
        self.total += 1
        if self.total > STEPS:
            raise Stuck(f"more than {STEPS} steps")
        process.wake_at = self.time + max(seconds, 0.001)
        following = self._next(process)
        assert following is not None
        self.hand_over(process, following)

    def pass_time(self, seconds: float) -> None:
        """Time goes by, and processes that are awake say that they live."""
        left = max(seconds, 0.0)
        for _ in range(MOMENTS):
            passed = min(left, LEASE / 3)
            self.time += passed
            left -= passed
            self._say_that_they_live()
            if not left:
                return
        self.time += left
        self._say_that_they_live()

    def _say_that_they_live(self) -> None:
        before = self.current
        for each in self.processes:
            if each.done or each.dead or each.asleep or each.depth:
                continue
            heartbeat: Any = each.runtime.store.heartbeat
            if not heartbeat.leases():
                continue
            self.current = each
            each.depth += 1  # no step of its own
            lose, each.lose = each.lose, None
            heartbeat.go_on()
            each.depth -= 1
            each.lose = lose
            self.on_beat(each, heartbeat.leases())
        self.current = before

    def on_switch(self, process: Process, other: Any) -> None:
        target = self.processes[int(other) % len(self.processes)]
        if not target.done and target is not process:
            target.asleep = False
            self.hand_over(process, target)

    def on_crash(self, process: Process, _: Any) -> None:
        self._die(process)
        raise Killed

    def on_lost(self, process: Process, how: Any) -> None:
        process.lose = str(how)

    def on_jump(self, process: Process, seconds: Any) -> None:
        """The clock of a host is set."""
        self.offsets[process.host] += float(seconds)

    def on_mute(self, process: Process, _: Any) -> None:
        """The next time that the process says that it lives something goes wrong."""
        heartbeat: Any = process.runtime.store.heartbeat
        heartbeat.mute = True

    def on_pause(self, process: Process, seconds: Any) -> None:
        """The process does nothing for so long that others may give it up for dead."""
        process.asleep = True
        self.pass_time(float(seconds))
        others = [each for each in self.processes if not each.done and each is not process]
        ready = [each for each in others if not each.asleep and each.wake_at <= self.time]
        if ready:
            self.hand_over(process, ready[0])
        process.asleep = False

    def _die(self, process: Process) -> None:
        process.dead = True
        self.living.pop((f"host{process.host}", process.pid), None)

    def on_power(self, process: Process, _: Any) -> None:
        """All machines lose power: what was not synced is lost."""
        for each in self.processes:
            if not each.done:
                self._die(each)
        self.boots = [each + 1 for each in self.boots]
        self.offsets = [min(max(each, -APART), APART) for each in self.offsets]
        self.booted = [self.time for _ in self.booted]
        self.disk.lose_power(self.chance)
        self.database.lose_power()
        raise Killed

    def committed(self, database: Database, *, durable: bool) -> None:
        if self.powerless and durable and database is self.database:
            database.keep()
        if database is self.database and self.wrong is None:
            try:
                self.on_commit(database)
            except Wrong as error:  # raised here, the product would take it for a fault of its own
                self.wrong = self.wrong or error


def light_copy(file: Any) -> Any:
    return type(file)(file.content, file.mtime, file.synced)


def shown(op: Op) -> str:
    return " ".join(str(part) for part in op)


@dataclass(frozen=True)
class Clock:
    """What modules of the product know as `time`."""

    world: Callable[[], World]

    def sleep(self, seconds: float) -> None:
        self.world().sleep(seconds)

    def monotonic(self) -> float:
        return self.world().time

    time = perf_counter = monotonic
