"""Random programs for the machine, running them, and making one that fails small."""

from __future__ import annotations

import json
import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.lake.steps import METADATA_WRITTEN, PUBLISHED, STAGED, STEPS
from tests.model.machine import BY_HAND, PROJECT, SOURCES, VIEWS, Step, machine
from tests.model.plain import KINDS, WIDTH

Program = Sequence[Step]
SCHEDULES = ("1s", "5s", "calculated", "calculated", None)
MODES = ("AUTO", "AUTO", "FULL", "DIFFERENTIAL")
BETWEEN = (STAGED, METADATA_WRITTEN, PUBLISHED)  # elsewhere the catalog is locked

# What happens, and how often.
WEIGHTS = {
    "insert": 8,
    "update": 4,
    "delete": 3,
    "transfer": 8,
    "foreign_append": 3,
    "foreign_overwrite": 1,
    "poison": 1,
    "create": 8,
    "view": 3,
    "alter_query": 6,
    "alter": 4,
    "drop": 2,
    "suspend": 2,
    "resume": 3,
    "refresh": 6,
    "refresh_all": 3,
    "full": 2,
    "tick": 14,
    "clock": 2,
    "verify": 2,
    "group": 2,
    "drop_group": 1,
    "edit": 4,
    "deploy": 3,
    "stage": 2,
    "promote": 2,
    "rollback": 2,
    "abort": 1,
    "maintain": 2,
    "hold": 1,
    "read_held": 2,
    "release": 1,
    "crash": 8,
    "meanwhile": 14,
}

PUBLISHING = (
    *("insert", "transfer", "create", "alter_query", "drop", "refresh", "full", "tick"),
    *("deploy", "stage", "promote", "rollback", "abort", "maintain"),
)
NEVER_INSIDE = ("crash", "meanwhile", "clock", "edit")


class Chance:
    """Steps by chance; the same seed makes the same program.

    Every program leaves out some kinds of steps and prefers others: what needs many steps of a few
    kinds is then found sooner.
    """

    def __init__(self, seed: int, focus: Sequence[str] = ()) -> None:
        self.random = random.Random(seed)
        self.weights = {
            kind: weight * self.random.choice((0, 1, 1, 1, 4)) for kind, weight in WEIGHTS.items()
        }
        self.weights["tick"] = self.weights["tick"] or WEIGHTS["tick"]
        if focus:  # little else
            self.weights = {kind: 20 if kind in focus else 1 for kind in WEIGHTS}
        self.there: set[str] = set()  # stream tables that most likely exist
        self.views: set[str] = set()

    def program(self, length: int) -> list[Step]:
        start: list[Step] = [["insert", name, self.rows()] for name in SOURCES]
        if self.random.random() < 0.5:
            start += [self.edit() for _ in range(4)] + [["deploy"]]
        start += [self.create() for _ in range(4)]
        return start + [self.step() for _ in range(length)]

    def step(self, among: Sequence[str] | None = None) -> Step:
        kinds = [each for each in among or self.weights if self.weights[each]] or ["tick"]
        kind = self.random.choices(kinds, [self.weights[each] for each in kinds])[0]
        made: Step = getattr(self, kind, lambda: [kind])()
        return made

    def publishing(self) -> Step:
        """A step that has something to publish, as a rule."""
        return self.step(PUBLISHING)

    def other(self) -> Step:
        return self.step([each for each in self.weights if each not in NEVER_INSIDE])

    def rows(self) -> list[list[Any]]:
        count = self.random.randint(1, 3)
        return [[self.random.randint(1, 4), self.value()] for _ in range(count)]

    def value(self) -> int | None:
        return None if self.random.random() < 0.1 else self.random.randint(-9, 9)

    def source(self) -> str:
        return self.random.choice(SOURCES)

    def stream(self) -> str:
        return self.random.choice(sorted(self.there) or BY_HAND)

    def spec(self, name: str) -> list[str]:
        """A query over sources and tables before this one, so that none reads itself."""
        order = (*PROJECT, *BY_HAND)
        before = [each for each in order[: order.index(name)] if each in self.there]
        kind = self.random.choice([*KINDS, *(each for each in KINDS if WIDTH[each] > 1)])
        likely = [*SOURCES, *sorted(self.views), *before, *before]
        first = self.random.choice(likely)
        others = [each for each in likely if each != first]
        return [kind, first, *([self.random.choice(others)] if WIDTH[kind] > 1 else [])]

    def insert(self) -> Step:
        return ["insert", self.source(), self.rows()]

    def poison(self) -> Step:
        return ["insert", self.source(), [[self.random.randint(1, 4), 1000]]]

    def update(self) -> Step:
        return ["update", self.source(), self.random.randint(1, 4), self.random.randint(-5, 5)]

    def delete(self) -> Step:
        return ["delete", self.source(), self.random.randint(1, 4)]

    def transfer(self) -> Step:
        one, other = self.random.sample(SOURCES, 2)
        return ["transfer", one, other, self.random.randint(1, 4), self.random.randint(1, 9)]

    def foreign_append(self) -> Step:
        return ["foreign_append", self.source(), self.rows()]

    def foreign_overwrite(self) -> Step:
        return ["foreign_overwrite", self.source(), self.rows()]

    def create(self) -> Step:
        new = [each for each in BY_HAND if each not in self.there]
        name = self.random.choice(new or BY_HAND)
        self.there.add(name)
        options: dict[str, Any] = {"schedule": self.random.choice(SCHEDULES)}
        if self.random.random() < 0.3:
            options["refresh_mode"] = self.random.choice(MODES)
        if self.random.random() < 0.3:
            options["initialize"] = False
        if not new:
            options["or_replace"] = True
        return ["create", name, self.spec(name), options]

    def view(self) -> Step:
        name = self.random.choice(VIEWS)
        self.views.add(name)
        kind = self.random.choice([each for each in KINDS if WIDTH[each] == 1])
        return ["view", name, [kind, self.source()]]

    def alter_query(self) -> Step:
        name = self.stream()
        return ["alter_query", name, self.spec(name)]

    def alter(self) -> Step:
        option, values = self.random.choice(
            [
                ("schedule", SCHEDULES),
                ("refresh_mode", MODES),
                ("diamond_consistency", ("atomic", "none")),
                ("diamond_schedule_policy", ("fastest", "slowest")),
            ]
        )
        return ["alter", self.stream(), {option: self.random.choice(values)}]

    def drop(self) -> Step:
        name = self.random.choice(BY_HAND)
        self.there.discard(name)
        return ["drop", name, True]

    def suspend(self) -> Step:
        return ["suspend", self.stream()]

    def resume(self) -> Step:
        return ["resume", self.stream()]

    def refresh(self) -> Step:
        return ["refresh", self.stream()]

    def full(self) -> Step:
        return ["full", self.stream()]

    def refresh_all(self) -> Step:
        return ["refresh"]

    def tick(self) -> Step:
        return ["tick", self.random.choice((0, 1, 2, 6, 6))]

    def clock(self) -> Step:
        return ["clock", self.random.choice((1, 2, 6, 30, 120))]

    def group(self) -> Step:
        known = sorted(self.there)
        members = sorted(self.random.sample(known, min(len(known), self.random.randint(2, 3))))
        isolation = self.random.choice(("repeatable_read", "repeatable_read", "read_committed"))
        return ["group", self.random.choice(("g0", "g1")), members, isolation]

    def drop_group(self) -> Step:
        return ["drop_group", self.random.choice(("g0", "g1"))]

    def edit(self) -> Step:
        name = self.random.choice(PROJECT)
        self.there.add(name)
        return ["edit", name, self.spec(name)]

    def crash(self) -> Step:
        number = self.random.choice((1, 1, 1, 2, 3))
        return ["crash", self.random.choice(STEPS), number, self.publishing()]

    def meanwhile(self) -> Step:
        number = self.random.choice((1, 1, 1, 2))
        point = self.random.choice(BETWEEN)
        if self.random.random() < 0.5:
            return ["meanwhile", point, number, self.publishing(), self.other()]
        name = self.stream()  # two who want the same
        return ["meanwhile", point, 1, self.upon(name, 2), self.upon(name)]

    def upon(self, name: str, refreshes: int = 1) -> Step:
        """A step that is about a certain table, or likely to reach it."""
        makers: list[Callable[[], Step]] = [
            *[lambda: ["refresh", name]] * refreshes,
            *[lambda: ["full", name], lambda: ["tick", 6]] * refreshes,
            lambda: ["alter_query", name, self.spec(name)],
            lambda: ["alter_query", name, self.spec(name)],
            lambda: ["alter", name, {"refresh_mode": self.random.choice(MODES)}],
            lambda: ["drop", name, True],
            lambda: ["deploy"],
            lambda: ["rollback"],
        ]
        made = self.random.choice(makers)()
        if made[0] == "drop":
            self.there.discard(name)
        return made


@dataclass(frozen=True)
class Failure:
    """The first step of a program after which something was wrong."""

    program: Program
    error: BaseException

    @property
    def kind(self) -> str:
        """What went wrong, without names and numbers: a smaller program must go wrong alike."""
        said = re.sub(r"\[.*|\(.*|\{.*", "", str(self.error))
        return type(self.error).__name__ + ": " + re.sub(r"\S*[\d.:`]\S*", "_", said)[:60]


def run(program: Program, told: Counter[str] | None = None) -> Failure | None:
    """Run a program in a home of its own."""
    folder = Path(tempfile.mkdtemp(prefix="anabranch-model-"))
    done: list[Step] = []
    try:
        with machine(folder) as system:
            for step in program:
                done.append(step)
                word = system.run(step)
                if told is not None:
                    told[f"{step[0]} {word}"] += 1
    except Exception as error:
        return Failure(done, error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def smallest(failure: Failure, most: int = 400) -> Failure:
    """Fewer and simpler steps that go wrong in the same way."""
    left = most
    best = failure
    while left > 0:
        for program in smaller(best.program):
            left -= 1
            found = run(program)
            if found is not None and found.kind == best.kind:
                best = found
                break
            if left <= 0:
                return best
        else:
            return best
    return best


def smaller(program: Program) -> Iterator[Program]:
    size = len(program) // 2
    while size:
        for start in range(0, len(program), size):
            yield [*program[:start], *program[start + size :]]
        size //= 2
    for at, step in enumerate(program):
        for other in simpler(step):
            yield [*program[:at], other, *program[at + 1 :]]


def simpler(step: Step) -> Iterator[Step]:
    kind = step[0]
    if kind == "crash":
        yield step[3]
        yield from (["crash", *step[1:3], other] for other in simpler(step[3]))
    if kind == "meanwhile":
        yield step[3]
        yield step[4]
        yield from (["meanwhile", *step[1:3], other, step[4]] for other in simpler(step[3]))
        yield from (["meanwhile", *step[1:4], other] for other in simpler(step[4]))
    if kind in ("insert", "foreign_append", "foreign_overwrite") and len(step[2]) > 1:
        yield [*step[:2], step[2][:1]]
    if kind == "create" and len(step) > 3:
        for option in step[3]:
            yield [*step[:3], {k: v for k, v in step[3].items() if k != option}]
    if (
        kind in ("create", "alter_query", "view", "edit")
        and step[2]
        and step[2][0] not in ("copy", "both")
    ):
        easy = "copy" if len(step[2]) == 2 else "both"
        yield [*step[:2], [easy, *step[2][1:]], *step[3:]]


def shown(program: Program) -> str:
    """As a fixture has it: a step a line."""
    return "[\n" + ",\n".join(f"  {json.dumps(step)}" for step in program) + "\n]\n"
