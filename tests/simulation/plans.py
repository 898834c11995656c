"""A plan says everything that happens in a run: who does what, and what befalls whom at which step.

A seed decides a plan.  Most plans are short: two or three processes with one or two operations each,
put aside for each other at a few steps only.  Few switches at random steps find more than many do.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

Op = tuple[Any, ...]
QUICK_RUN = 10_000  # seeds of `make test`


@dataclass(frozen=True)
class Event:
    """Before its so-manieth step something befalls a process."""

    process: int
    step: int
    kind: str
    value: Any = None

    def __str__(self) -> str:
        who = chr(ord("A") + self.process)
        return f"{who} at step {self.step}: {self.kind} {'' if self.value is None else self.value}"


@dataclass(frozen=True)
class Plan:
    seed: int
    family: str
    processes: tuple[tuple[Op, ...], ...]
    hosts: tuple[int, ...]
    events: tuple[Event, ...]

    def __str__(self) -> str:
        lines = [f"seed {self.seed}, family {self.family}"]
        for at, ops in enumerate(self.processes):
            said = "; ".join(" ".join(str(part) for part in op) for op in ops)
            lines.append(f"  {chr(ord('A') + at)} on host {self.hosts[at]}: {said}")
        return "\n".join([*lines, *(f"  {event}" for event in self.events)])

    @property
    def size(self) -> tuple[int, int]:
        return sum(map(len, self.processes)), len(self.events)

    def smaller(self) -> list[Plan]:
        """Plans with one operation or event less."""
        found = []
        for at, ops in enumerate(self.processes):
            for place in range(len(ops)):
                less = ops[:place] + ops[place + 1 :]
                processes = (*self.processes[:at], less, *self.processes[at + 1 :])
                found.append(replace(self, processes=processes))
        for at in range(len(self.events)):
            found.append(replace(self, events=self.events[:at] + self.events[at + 1 :]))
        return found


STREAMS = {
    "diamond": ("s.l", "s.r", "s.d"),
    "chain": ("s.x", "s.y", "s.t"),
    "boundary": ("s.h", "s.g"),
    "unfilled": ("s.e",),
    "staged": ("d.m.b", "d.m.c", "s.o"),
    "promoted": ("d.m.b", "d.m.c", "s.o"),
    "attached": ("s.f",),
}
DIAMONDS = ("s.d", "s.o")  # what reads both of two tables that must be of one moment
DEPLOYED, STAGED = 1, 3  # versions of the project: see `projects`
FAMILIES = {"diamond": 4, "chain": 3, "boundary": 2, "unfilled": 2}
UNFILLED = ("s.e",)
QUERIES = {
    "s.l": "scale 1 s.a",
    "s.r": "scale 2 s.a",
    "s.d": "join s.l s.r",
    "s.x": "sum s.a",
    "s.y": "sum s.b",
    "s.t": "plus s.x s.y",
    "s.h": "scale 1 s.a",
    "s.g": "join s.h s.b",
    "s.e": "scale 1 s.a",
    "d.m.b": "scale 1 s.a",
    "d.m.c": "scale 2 d.m.b",
    "s.o": "join d.m.b d.m.c",
    "s.f": "join prod.n.p prod.n.q",
}
THEIRS = ("prod.n.p", "prod.n.q")  # tables of an attached catalog
DEPLOYMENTS_TOO = {"staged": 1, "promoted": 1}
BY_HAND = ("s.h",)
# About how many steps each operation takes: events are spread over as many.
STEPS = {
    "insert": 12,
    "delete": 13,
    "transfer": 18,
    "move": 20,
    "claim": 16,
    "refresh": 32,
    "full": 30,
    "tick": 32,
    "alter": 36,
    "drop": 11,
    "create": 20,
    "hold": 20,
    "maintain": 20,
    "backup": 60,
    "churn": 32,
    "foreign": 7,
    "copy": 12,
    "name": 9,
    "suspend": 4,
    "stage": 44,
    "promote": 98,
    "rollback": 96,
    "abort": 11,
    "theirs": 1,
    "rot": 1,
    "lose": 1,
    "repair": 60,
    "adopt": 50,
    "restore": 150,
}
FEWER = {"refresh": 17, "full": 17, "tick": 16, "alter": 9}  # with a single table, not yet filled
# Themes: which operations meet, and how often each.
THEMES: dict[str, dict[str, int]] = {
    "writers": {"insert": 4, "delete": 2, "transfer": 3, "move": 2, "foreign": 2},
    "refreshes": {"refresh": 4, "tick": 4, "insert": 3, "transfer": 2, "full": 1, "foreign": 1},
    "definitions": {"alter": 4, "refresh": 3, "tick": 2, "drop": 1, "create": 1, "insert": 1},
    "upkeep": {
        "maintain": 3,
        "churn": 4,
        "hold": 4,
        "insert": 2,
        "transfer": 1,
        "refresh": 3,
        "backup": 2,
        "foreign": 2,
    },
    "copies": {"copy": 4, "insert": 3, "maintain": 1, "refresh": 1},
    "names": {"name": 1},
    "all": {
        "insert": 3,
        "delete": 1,
        "transfer": 2,
        "refresh": 3,
        "tick": 3,
        "alter": 2,
        "hold": 2,
        "maintain": 3,
        "backup": 1,
        "foreign": 2,
        "drop": 1,
        "suspend": 1,
    },
}
BESIDE_DEPLOYMENTS = {
    "refresh": 4,
    "tick": 3,
    "insert": 3,
    "alter": 2,
    "foreign": 1,
    "hold": 2,
    "churn": 2,
    "maintain": 1,
    "backup": 1,
    "drop": 1,
    "suspend": 1,
    "full": 1,
    "stage": 2,
    "promote": 2,
    "rollback": 2,
    "abort": 1,
}
DEPLOYMENTS = {
    "staged": {"promote": 5, "abort": 2, "stage": 1},
    "promoted": {"rollback": 4, "stage": 2},
}
WEIGHTS = {
    "writers": 8,
    "refreshes": 5,
    "definitions": 4,
    "upkeep": 5,
    "copies": 2,
    "names": 2,
    "all": 3,
}
ABOUT_STREAMS = {"refreshes": 1, "definitions": 3}
# Ways in which things meet: see `events`.
PATTERNS = {"between": 8, "silence": 4, "crash": 3, "power": 3, "lost": 2, "jump": 2, "mixed": 4}
EVENTS = {"crash": 4, "lost": 3, "jump": 3, "pause": 4, "power": 3, "mute": 1}


def directed(seed: int, chance: random.Random) -> Plan | None:
    """Three seeds in ten set a scene that chance alone would set too rarely; the rest is chance."""
    row, table = 100, chance.choice(("s.a", "s.b"))
    churn: Op = ("churn", table, 110)
    scene = seed % 50
    if scene == 36:
        return deployments(seed, chance)
    if scene == 42:  # what a refresh reads grows old
        first, other, kind = ("refresh", ""), churn, "switch"
    elif scene == 45:  # another program writes files while somebody tidies up
        first, other, kind = ("foreign", table, row), ("maintain", 0.0), "switch"
    elif scene == 47:  # files grow old while they are copied
        first, other, kind = ("backup",), churn, "switch"
    elif seed % 100 == 34:  # a reader sleeps until its cut is given up
        first, other, kind = ("hold",), churn, "pause"
    elif scene == 48:  # a writer on another host is given up for dead
        elsewhere = "s.b" if table == "s.a" else "s.a"
        first, other, kind = ("insert", elsewhere, row), churn, "pause"
    elif scene == 37:  # each reads what the other one writes
        claims: list[Op] = [("claim", name, row) for name in ("s.a", "s.b")]
        switches = [Event(0, 1 + chance.randrange(STEPS["claim"]), "switch", 1)]
        if chance.random() < 0.5:
            switches.append(Event(1, 1 + chance.randrange(STEPS["claim"]), "switch", 0))
        processes = tuple((claim,) for claim in claims)
        return Plan(seed, "diamond", processes, (0, chance.choice((0, 1))), tuple(switches))
    elif seed % 100 == 38:  # somebody alters by hand what a deployment is about to replace
        family = chance.choice(("staged", "promoted", "promoted"))
        replaced: Op = ("promote",) if family == "staged" else ("rollback",)
        by_hand = operation(chance, "alter", family, 10)
        middle = Event(0, 1 + chance.randrange(STEPS["alter"]), "switch", 1)
        return Plan(seed, family, ((replaced,), (by_hand,)), (0, 0), (middle,))
    elif seed % 100 == 39:  # two end the same deployment
        family = chance.choice(("staged", "promoted"))
        one: Op = ("promote",) if family == "staged" else ("rollback",)
        two: Op = (chance.choice(("promote", "abort")),) if family == "staged" else one
        middle = Event(0, 1 + chance.randrange(STEPS[one[0]]), "switch", 1)
        return Plan(seed, family, ((one,), (two,)), (0, chance.choice((0, 1))), (middle,))
    elif seed % 100 in (33, 83):  # a backup is restored, perhaps after some of it has rotted
        return restored(seed, chance)
    elif seed % 100 == 85:  # files of stream tables are lost, and found to be
        return lossy(seed, chance)
    elif seed % 100 == 89:  # a copy of the catalog takes the warehouse over
        return adopted(seed, chance)
    elif seed % 100 in (35, 88):  # others commit to a catalog while it is observed
        return attached(seed, chance)
    elif scene in (41, 43):  # two backups into one folder, one of which dies
        return two_backups(seed, chance)
    elif scene in (
        40,
        44,
    ):  # something goes wrong, or a clock is set, before one says that it lives
        first = ("stage", STAGED + 1) if chance.random() < 0.3 else ("refresh", "")
        family = "promoted" if first[0] == "stage" else "diamond"
        step = 1 + chance.randrange(STEPS[first[0]])
        before = Event(0, 1, "mute") if scene == 40 else Event(0, 1, "jump", -3600)
        spoiled = (before, Event(0, step, "switch", 1))
        return Plan(seed, family, ((first,), (churn,)), (1, 0), spoiled)
    elif scene == 49:  # tables that are read together are due at different times
        ops: tuple[Op, ...] = (
            ("refresh", chance.choice(("s.x", "s.y"))),
            ("transfer", row),
            ("tick", 0.0),
        )
        other = operation(chance, pick(chance, THEMES["writers"]), "chain", 10)
        lengths = [sum(STEPS[op[0]] for op in ops), STEPS[other[0]]]
        return Plan(seed, "chain", (ops, (other,)), (0, 0), events(chance, lengths))
    else:
        return None
    step = 1 + chance.randrange(STEPS[first[0]])
    event = Event(0, step, kind, 1 if kind == "switch" else 4000)
    family = chance.choice(("diamond", "chain", "boundary"))
    return Plan(seed, family, ((first,), (other,)), (1, 0), (event,))


def attached(seed: int, chance: random.Random) -> Plan:
    """Another program commits to two tables at once, or to one of them, again and again, while one or
    two look where they are."""
    reading = {"refresh": 3, "tick": 2, "hold": 3, "transfer": 1}
    commits: tuple[Op, ...] = tuple(
        ("theirs", chance.choice(("", "", *THEIRS)), 100 + at) for at in range(4)
    )
    readers = [
        (operation(chance, pick(chance, reading), "attached", 10 * at),)
        for at in range(1, chance.choice((2, 3)))
    ]
    last = len(readers)
    found = [Event(0, 2, "switch", 1), Event(1, 1 + chance.randrange(14), "switch", 0)]
    found.append(Event(0, 3, "switch", chance.randint(1, last)))
    if last > 1:
        found.append(Event(2, 1 + chance.randrange(24), "switch", chance.choice((0, 1))))
    if chance.random() < 0.5:
        found.append(Event(1, 1 + chance.randrange(14), "switch", chance.randint(0, last)))
    if chance.random() < 0.1:
        at, kind = chance.randint(1, last), pick(chance, {"crash": 1, "lost": 1})
        found.append(Event(at, 1 + chance.randrange(30), kind, value(chance, kind)))
    processes = (commits, *readers)
    found.sort(key=lambda each: (each.process, each.step, each.kind))
    hosts = tuple(chance.choice((0, 1)) for _ in processes)
    return Plan(seed, "attached", processes, hosts, tuple(found))


def lossy(seed: int, chance: random.Random) -> Plan:
    """A disk loses files of stream tables; somebody checks them while others go on."""
    family = pick(chance, FAMILIES)
    others = {"refresh": 4, "insert": 3, "transfer": 2, "tick": 2, "full": 1, "alter": 1}
    way = chance.choice(("gone", "torn"))
    first: list[Op] = [("lose", way), ("repair",)]
    if chance.random() < 0.5:  # what is not up to date is written again anyway
        first.insert(0, ("refresh", ""))
    if chance.random() < 0.3:
        first.insert(1, ("lose", chance.choice(("gone", "torn"))))
    verbs = [pick(chance, others) for _ in range(chance.choice((1, 2)))]
    other = tuple(operation(chance, verb, family, 10 + at) for at, verb in enumerate(verbs))
    lengths = [sum(STEPS[op[0]] for op in ops) for ops in (first, other)]
    found = events(chance, lengths)
    return Plan(seed, family, (tuple(first), other), (0, chance.choice((0, 1))), found)


def adopted(seed: int, chance: random.Random) -> Plan:
    """What the catalog does after it was copied, before and after the copy becomes the owner."""
    family = pick(chance, FAMILIES)
    others = {"churn": 4, "insert": 2, "transfer": 2, "refresh": 2, "maintain": 2, "alter": 1}
    verbs = [pick(chance, others) for _ in range(chance.choice((1, 2, 2)))]
    other = tuple(operation(chance, verb, family, 10 + at) for at, verb in enumerate(verbs))
    length = sum(STEPS[op[0]] for op in other)
    found = [Event(0, 1 + chance.randrange(4 if chance.random() < 0.5 else 40), "switch", 1)]
    if chance.random() < 0.7:
        found.append(Event(1, 1 + chance.randrange(length), "switch", 0))
    if chance.random() < 0.5:
        found.append(Event(0, 1 + chance.randrange(40), "switch", 1))
    if chance.random() < 0.2:
        at, kind = chance.choice((0, 1)), pick(chance, {"crash": 2, "lost": 1, "power": 1})
        found.append(Event(at, 1 + chance.randrange(40), kind, value(chance, kind)))
    found.sort(key=lambda each: (each.process, each.step, each.kind))
    hosts = (chance.choice((0, 1)), 0)
    return Plan(seed, family, ((("adopt",),), other), hosts, tuple(found))


def restored(seed: int, chance: random.Random) -> Plan:
    """A backup is made while others write and tidy up, and restored in another place."""
    family = pick(chance, FAMILIES | DEPLOYMENTS_TOO)
    back = chance.choice((0, 0, 1, 2))
    rot: list[Op] = [("rot",)] if chance.random() < 0.5 else []
    first: tuple[Op, ...] = (("backup",), *rot, ("restore", back))
    others = {"churn": 3, "transfer": 2, "refresh": 3, "maintain": 1, "foreign": 1, "backup": 1}
    verbs = [pick(chance, others) for _ in range(chance.choice((1, 2)))]
    other = tuple(operation(chance, verb, family, 10 + at) for at, verb in enumerate(verbs))
    lengths = [60, sum(STEPS[op[0]] for op in other)]
    found = events(chance, lengths)
    if chance.random() < 0.2:
        late = Event(
            0, 60 + chance.randrange(200), chance.choice(("crash", "power", "switch")), None
        )
        found = (*found, replace(late, value=1) if late.kind == "switch" else late)
    return Plan(seed, family, (first, other), (0, chance.choice((0, 1))), found)


def two_backups(seed: int, chance: random.Random) -> Plan:
    """The second begins to copy, the first is done, the second dies over a file that both need."""
    end = chance.choice(("crash", "crash", "power"))
    found = (
        Event(0, 10 + chance.randrange(50), "switch", 1),
        Event(1, 4 + chance.randrange(8), "switch", 0),
        Event(1, 10 + chance.randrange(30), end),
    )
    return Plan(seed, "diamond", ((("backup",),), (("backup",),)), (1, 0), found)


def deployments(seed: int, chance: random.Random) -> Plan:
    """A version of the project is put in place, taken back or removed while others do other things."""
    family = chance.choice(list(DEPLOYMENTS))
    processes: list[tuple[Op, ...]] = []
    for at in range(pick(chance, {2: 6, 3: 1})):
        first = pick(chance, DEPLOYMENTS[family] if at == 0 else BESIDE_DEPLOYMENTS)
        more = [pick(chance, BESIDE_DEPLOYMENTS)] if chance.random() < 0.25 else []
        ops = [
            operation(chance, verb, family, 10 * at + n) for n, verb in enumerate([first, *more])
        ]
        processes.append(tuple(ops))
    hosts = tuple(chance.choice((0, 0, 1)) for _ in processes)
    lengths = [sum(STEPS[op[0]] for op in ops) for ops in processes]
    return Plan(seed, family, tuple(processes), hosts, events(chance, lengths))


def plan_of(seed: int) -> Plan:
    if (found := directed(seed, random.Random(seed))) is not None:
        return found
    chance = random.Random(seed)
    family = pick(chance, FAMILIES)
    theme = pick(chance, ABOUT_STREAMS if family == "unfilled" else WEIGHTS)
    count = pick(chance, {2: 10, 3: 2, 4: 1})
    processes = []
    for at in range(count):
        most = pick(chance, {1: 5, 2: 2}) if count < 4 else 1
        ops = [
            operation(chance, pick(chance, THEMES[theme]), family, 10 * at + place)
            for place in range(most)
        ]
        processes.append(tuple(ops))
    hosts = tuple(chance.choice((0, 0, 1)) for _ in range(count))
    steps = STEPS | FEWER if family == "unfilled" else STEPS
    lengths = [sum(steps[op[0]] for op in ops) for ops in processes]
    return Plan(seed, family, tuple(processes), hosts, events(chance, lengths))


def events(chance: random.Random, lengths: list[int]) -> tuple[Event, ...]:
    """One process is put aside in the middle of its work, and another one comes between; or it falls
    silent for so long that it is given up, dies, loses its connection, the power or the time."""
    first = chance.randrange(len(lengths))
    other = chance.choice([each for each in range(len(lengths)) if each != first])

    def step(process: int) -> int:
        return 1 + chance.randrange(lengths[process])

    pattern = pick(chance, PATTERNS)
    found = [Event(first, step(first), "switch", other)]
    if pattern == "silence":
        found = [Event(first, step(first), "pause", chance.choice((40, 100, 4000, 90_000)))]
    elif pattern == "mixed":
        for _ in range(chance.randint(0, 2)):
            kind = pick(chance, EVENTS)
            found.append(Event(other, step(other), kind, value(chance, kind)))
    elif pattern != "between":
        at = chance.choice((first, other))
        found.append(Event(at, step(at), pattern, value(chance, pattern)))
    if chance.random() < 0.6:
        found.append(Event(other, step(other), "switch", first))
    if chance.random() < 0.3:
        found.append(Event(first, step(first), "switch", other))
    if len(lengths) > 2:
        third = chance.choice([each for each in range(len(lengths)) if each != first])
        found.append(Event(first, step(first), "switch", third))
    return tuple(sorted(found, key=lambda each: (each.process, each.step, each.kind)))


def value(chance: random.Random, kind: str) -> Any:
    if kind == "lost":
        return chance.choice(("before", "after", "after"))
    if kind == "jump":
        return chance.choice((-8 * 86400, -3600, -20, 20, 3600, 8 * 86400))
    if kind == "pause":
        return chance.choice((1, 50, 4000, 90_000))
    return None


def operation(chance: random.Random, verb: str, family: str, key: int) -> Op:
    streams, row = STREAMS[family], 100 + key
    if verb in ("insert", "foreign", "churn"):
        return verb, chance.choice(("s.a", "s.b")), row
    if verb == "delete":
        return verb, chance.choice(("s.a", "s.b")), chance.choice((1, 2))
    if verb in ("transfer", "move"):
        return verb, row
    if verb == "refresh":
        return verb, chance.choice((*streams, "", ""))
    if verb in ("full", "suspend"):
        return verb, chance.choice(streams)
    if verb == "tick":
        return verb, chance.choice((0.0, 0.6, 2.0, 2.0))
    if verb == "alter":
        scaled = [name for name in streams if QUERIES[name].startswith("scale")]
        name = chance.choice(scaled or list(streams))
        factor = 3 + key % 7
        return verb, name, f"scale {factor} s.a" if scaled else f"sum s.{chance.choice('ab')}"
    if verb in ("drop", "create"):
        return verb, streams[-1]
    if verb == "stage":
        return verb, STAGED + 1 + key % 2
    if verb == "maintain":
        return verb, chance.choice((0.0, 0.0, 5.0))
    if verb == "name":
        return verb, chance.choice(("table", "view")), chance.choice(("s.new", "s.New"))
    return (verb,)


def pick(chance: random.Random, weights: dict[Any, int]) -> Any:
    """One of the keys, by weight."""
    return chance.choices(list(weights), list(weights.values()))[0]
