"""Programs by chance: a state machine of hypothesis draws the steps and makes those that fail small.

The steps are then printed as a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from anabranch.failpoints import METADATA_WRITTEN, PUBLISHED, ROUND, STAGED, STEPS
from tests.model.checks import SOURCES
from tests.model.machine import Step
from tests.model.plain import CIRCULAR, KINDS, WIDTH
from tests.model.programs import home, shown
from tests.model.verbs import BY_HAND, PROJECT, PROJECTS, VIEWS

SCHEDULES = ("1s", "5s", "calculated", "calculated", None)
MODES = ("AUTO", "FULL", "DIFFERENTIAL")
GROUPS = ("g0", "g1")
BETWEEN = (STAGED, METADATA_WRITTEN, PUBLISHED)  # elsewhere the catalog is locked

# What happens, and how often.
WEIGHTS = {
    "tick": 12,
    "insert": 6,
    "update": 3,
    "delete": 3,
    "merge": 2,
    "transfer": 6,
    "foreign_append": 3,
    "foreign_overwrite": 1,
    "poison": 1,
    "add_column": 1,
    "widen": 1,
    "create": 6,
    "circle": 3,
    "view": 3,
    "alter_query": 6,
    "alter": 4,
    "drop": 2,
    "suspend": 2,
    "resume": 3,
    "refresh": 6,
    "refresh_all": 3,
    "full": 2,
    "clock": 2,
    "verify": 2,
    "group": 3,
    "alter_group": 3,
    "drop_group": 1,
    "index": 2,
    "drop_index": 1,
    "look_up": 2,
    "edit": 4,
    "deploy": 4,
    "stage": 2,
    "promote": 2,
    "rollback": 3,
    "abort": 1,
    "maintain": 4,
    "read_cuts": 1,
    "hold": 3,
    "read_held": 2,
    "release": 1,
    "crash": 8,
    "meanwhile": 14,
    "asleep": 4,
}

PUBLISHING = (
    *("insert", "transfer", "merge", "create", "circle", "alter_query", "drop", "refresh", "full"),
    *("tick", "index", "add_column", "deploy", "stage", "promote", "rollback", "abort", "maintain"),
)
NEVER_INSIDE = ("crash", "meanwhile", "asleep", "clock", "edit")
OTHERS = tuple(kind for kind in WEIGHTS if kind not in NEVER_INSIDE)


class Chance:
    """Steps by chance, likely to be about tables that are there."""

    def __init__(
        self,
        draw: Callable[[st.SearchStrategy[Any]], Any],
        there: set[str],
        weights: Mapping[str, int] = WEIGHTS,
    ) -> None:
        self.draw, self.there, self.weights = draw, there, weights

    def step(self, kind: str) -> Step:
        made: Step = getattr(self, kind, lambda: [kind])()
        return made

    def among(self, kinds: Sequence[str]) -> Step:
        often = [kind for kind in kinds for _ in range(self.weights[kind])] or ["tick"]
        return self.step(self.one(often))

    def one(self, values: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(values))

    def seldom(self) -> bool:
        return bool(self.one((False, False, False, True)))

    def rows(self) -> list[list[Any]]:
        row = st.tuples(st.integers(1, 4), st.one_of(*[VALUES] * 4, st.none()))
        return [list(each) for each in self.draw(st.lists(row, min_size=1, max_size=3))]

    def source(self) -> str:
        return str(self.one(SOURCES))

    def stream(self) -> str:
        known = [each for each in (*BY_HAND, *PROJECT) if each in self.there]
        return str(self.one(known or BY_HAND))

    def spec(self, name: str) -> list[str]:
        """A query over sources and tables before this one, so that none reads itself."""
        order = (*PROJECT, *BY_HAND)
        before = [each for each in order[: order.index(name)] if each in self.there]
        views = [each for each in VIEWS if each in self.there]
        kind = self.one([*KINDS, *(each for each in KINDS if WIDTH[each] > 1)])
        likely = [*SOURCES, *views, *before, *before]
        first = self.one(likely)
        others = [each for each in likely if each != first]
        return [kind, first, *([self.one(others)] if WIDTH[kind] > 1 else [])]

    # -- writes

    def insert(self) -> Step:
        return ["insert", self.source(), self.rows()]

    def poison(self) -> Step:
        return ["insert", self.source(), [[1, 1000]]]

    def update(self) -> Step:
        return ["update", self.source(), self.draw(KEYS), self.draw(VALUES)]

    def delete(self) -> Step:
        return ["delete", self.source(), self.draw(KEYS)]

    def two_sources(self) -> list[str]:
        one = self.source()
        return [one, self.one([each for each in SOURCES if each != one])]

    def merge(self) -> Step:
        return ["merge", *self.two_sources()]

    def transfer(self) -> Step:
        return ["transfer", *self.two_sources(), self.draw(KEYS), self.draw(st.integers(1, 9))]

    def foreign_append(self) -> Step:
        return ["foreign_append", self.source(), self.rows()]

    def foreign_overwrite(self) -> Step:
        return ["foreign_overwrite", self.source(), self.rows()]

    def add_column(self) -> Step:
        return ["add_column", self.source()]

    def widen(self) -> Step:
        return ["widen", self.source()]

    # -- stream tables and views

    def options(self) -> dict[str, Any]:
        found: dict[str, Any] = {"schedule": self.one(SCHEDULES)}
        if self.seldom():
            found["refresh_mode"] = self.one(MODES)
        if self.seldom():
            found["initialize"] = False
        return found

    def create(self) -> Step:
        new = [each for each in BY_HAND if each not in self.there]
        name = self.one(new or BY_HAND)
        more = {} if new else {"or_replace": True}
        made = ["create", name, self.spec(name), {**self.options(), **more}]
        self.there.add(name)
        return made

    def circle(self) -> Step:
        new = [each for each in BY_HAND if each not in self.there]
        one, other = (new + list(BY_HAND))[:2] if len(new) != 1 else (new[0], BY_HAND[0])
        if one == other:
            other = BY_HAND[1]
        specs = {
            one: [self.one(CIRCULAR), self.source(), other],
            other: [self.one(CIRCULAR), self.source(), one],
        }
        self.there |= {one, other}
        return ["circle", specs, self.options()]

    def view(self) -> Step:
        kind = self.one([each for each in KINDS if WIDTH[each] == 1])
        name = self.one(VIEWS)
        self.there.add(name)
        return ["view", name, [kind, self.source()]]

    def alter_query(self) -> Step:
        name = self.stream()
        return ["alter_query", name, self.spec(name)]

    def alter(self) -> Step:
        values: Mapping[str, Sequence[Any]] = {
            "schedule": SCHEDULES,
            "refresh_mode": MODES,
            "diamond_consistency": ("atomic", "none"),
            "diamond_schedule_policy": ("fastest", "slowest"),
        }
        option = self.one(list(values))
        return ["alter", self.stream(), {option: self.one(values[option])}]

    def drop(self) -> Step:
        name = self.stream()
        return ["drop", name if name in BY_HAND else self.one(BY_HAND), True]

    def suspend(self) -> Step:
        return ["suspend", self.stream()]

    def resume(self) -> Step:
        return ["resume", self.stream()]

    def refresh(self) -> Step:
        return ["refresh", self.stream()]

    def refresh_all(self) -> Step:
        return ["refresh"]

    def full(self) -> Step:
        return ["full", self.stream()]

    def tick(self) -> Step:
        return ["tick", self.one((6, 0, 1, 2))]

    def maintain(self) -> Step:
        return ["maintain", self.one((0, 120))]

    def clock(self) -> Step:
        return ["clock", self.one((1, 2, 6, 30, 120))]

    # -- groups and indexes

    def group(self) -> Step:
        isolation = self.one(("repeatable_read", "repeatable_read", "read_committed"))
        return ["group", self.one(GROUPS), self.members(2), isolation]

    def members(self, least: int) -> list[str]:
        known = [each for each in (*BY_HAND, *PROJECT) if each in self.there] or list(BY_HAND)
        least = min(least, len(known))
        found = st.lists(st.sampled_from(known), min_size=least, max_size=3, unique=True)
        return sorted(self.draw(found))

    def alter_group(self) -> Step:
        changes: Mapping[str, Callable[[], Any]] = {
            "add": lambda: self.members(1),
            "drop": lambda: self.members(1),
            "isolation": lambda: self.one(("repeatable_read", "read_committed")),
            "snapshot_timeout_ms": lambda: self.one((0, 500)),
        }
        chosen = self.draw(st.lists(st.sampled_from(list(changes)), min_size=1, unique=True))
        return ["alter_group", self.known_group(), {each: changes[each]() for each in chosen}]

    def drop_group(self) -> Step:
        return ["drop_group", self.known_group()]

    def known_group(self) -> str:
        return str(self.one([each for each in GROUPS if each in self.there] or GROUPS))

    def indexed(self) -> str:
        return str(self.one((*SOURCES, self.stream())))

    def index(self) -> Step:
        return ["index", self.indexed()]

    def drop_index(self) -> Step:
        return ["drop_index", self.indexed()]

    def look_up(self) -> Step:
        return ["look_up", self.indexed(), self.draw(KEYS)]

    # -- deployments

    def edit(self) -> Step:
        name = self.one(PROJECT)
        made = ["edit", name, None if self.seldom() and self.seldom() else self.spec(name)]
        self.there.add(name)
        return made

    def project(self) -> str:
        return str(self.one(("shop", *PROJECTS)))

    def deploy(self) -> Step:
        return ["deploy", self.project()]

    def stage(self) -> Step:
        return ["stage", self.project()]

    def promote(self) -> Step:
        return ["promote", self.project()]

    def rollback(self) -> Step:
        return ["rollback", self.project()]

    def abort(self) -> Step:
        return ["abort", self.project()]

    # -- accidents and other processes

    def crash(self) -> Step:
        point = self.one((*STEPS, f"{ROUND}1"))
        return ["crash", point, self.one((1, 1, 2, 3)), self.among(PUBLISHING)]

    def meanwhile(self) -> Step:
        return ["meanwhile", *self.at_once()]

    def asleep(self) -> Step:
        return ["asleep", *self.at_once()]

    def at_once(self) -> list[Any]:
        """A point of a publish, who comes there, and what somebody else does then."""
        point = self.one(BETWEEN)
        whom = self.one(("stream", "stream", "source", "any"))
        if whom == "stream":  # two who want the same
            name = self.stream()
            return [point, 1, self.upon(name), self.about(name)]
        if whom == "source":
            name = self.source()
            return [point, 1, self.write_to(name), self.write_to(name)]
        return [point, self.one((1, 1, 2)), self.among(PUBLISHING), self.among(OTHERS)]

    def write_to(self, name: str) -> Step:
        return self.one(
            [
                ["insert", name, self.rows()],
                ["delete", name, self.draw(KEYS)],
                ["update", name, self.draw(KEYS), self.draw(VALUES)],
                ["foreign_append", name, self.rows()],
                ["add_column", name],
            ]
        )  # type: ignore[no-any-return]

    def upon(self, name: str) -> Step:
        """A step that is likely to publish a certain table."""
        return self.one(
            [
                *(["refresh", name], ["full", name], ["tick", 6]),
                ["alter_query", name, self.spec(name)],
                self.deploy(),
                self.rollback(),
            ]
        )  # type: ignore[no-any-return]

    def about(self, name: str) -> Step:
        """A step that matters to whoever publishes a certain table."""
        makers: list[Callable[[], Step]] = [
            lambda: self.upon(name),
            lambda: ["alter_query", name, self.spec(name)],
            lambda: ["alter", name, {"refresh_mode": self.one(MODES)}],
            lambda: ["drop", name, True],
            self.view,
            self.alter_query,
            self.insert,
            self.transfer,
        ]
        return self.one(makers)()  # type: ignore[no-any-return]

    # -- the beginning

    def beginning(self) -> list[Step]:
        """Something in the sources, and some tables; all of it may be missing."""
        found: list[Step] = [["insert", name, self.rows()] for name in SOURCES]
        scenes = (self.by_hand, self.apart, self.deployed, self.over_a_view)
        return found + self.one(scenes)()

    def by_hand(self) -> list[Step]:
        return [self.create() for _ in range(self.one((0, 4, 3, 2)))]

    def deployed(self) -> list[Step]:
        """A project, and tables that read it."""
        made = [self.edit() for _ in range(self.one((0, 2, 3, 4)))]
        return [*made, ["deploy", "shop"], *self.by_hand()]

    def over_a_view(self) -> list[Step]:
        name, view = BY_HAND[0], self.view()
        self.there.add(name)
        kind = self.one([each for each in KINDS if WIDTH[each] == 1])
        return [view, ["create", name, [kind, view[1]], self.options()], *self.by_hand()]

    def apart(self) -> list[Step]:
        """A table over two that share no source, so that nothing but the law of one cut holds them
        together."""
        one, other, both = BY_HAND[:3]
        self.there |= {one, other, both}
        first, second = self.two_sources()
        return [
            ["create", one, ["total", first], {"schedule": self.one(("5s", "1s", None))}],
            ["create", other, ["total", second], {"schedule": self.one(("5s", "1s"))}],
            ["create", both, ["worth", one, other], {"schedule": self.one(("5s", "1s"))}],
        ]


KEYS = st.integers(1, 4)
VALUES = st.integers(-9, 9)


@st.composite
def steps(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Step:
    """A step for what the machine that runs holds now."""
    programs = draw(st.runner())
    return Chance(draw, programs.there(), programs.weights).among(list(WEIGHTS))


@st.composite
def beginnings(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Step]:
    return Chance(draw, set()).beginning()


@st.composite
def preferences(draw: Callable[[st.SearchStrategy[Any]], Any]) -> dict[str, int]:
    """Every program leaves out some kinds of steps and prefers others: what needs many steps of a few
    kinds is then found sooner."""
    factors = st.lists(
        st.sampled_from((1, 1, 1, 0, 4)), min_size=len(WEIGHTS), max_size=len(WEIGHTS)
    )
    chosen = zip(WEIGHTS.items(), draw(factors), strict=True)
    return {kind: weight * factor for (kind, weight), factor in chosen}


class Programs(RuleBasedStateMachine):
    """The machine of the model in the hands of hypothesis."""

    failed: str | None = None  # the last program that did

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.system = self.stack.enter_context(home())
        self.done: list[Step] = []
        self.weights: Mapping[str, int] = WEIGHTS

    def there(self) -> set[str]:
        """Stream tables, views and groups that are there, or wait in a project to be deployed."""
        seen = self.system.look()
        written = {step[1] for step in self.done if step[0] == "edit" and step[2]}
        return {str(name) for name in (*seen.streams, *seen.views, *seen.declared)} | written

    @initialize(weights=preferences(), steps=beginnings())
    def begin(self, weights: dict[str, int], steps: list[Step]) -> None:
        self.weights = weights
        for each in steps:
            self.run(each)

    @rule(step=steps())
    def step(self, step: Step) -> None:
        self.run(step)

    def run(self, step: Step) -> None:
        self.done.append(step)
        try:
            self.system.run(step)
        except Exception:
            Programs.failed = shown(self.done)
            note(f"a program that fails:\n{Programs.failed}")
            raise

    def teardown(self) -> None:
        self.stack.close()
