"""The generator's heart: constructs are small functions, registered by family and name.

`@construct("join", "left join")` adds one way of making a join; `Builder.make("join", …)` draws one
of the family by the weights of `weights.py` and notes its name.  A construct that holds a query of
its own is `nested`, and is drawn only while the query has room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from tests.oracle.tables import LITERALS, Col, Cols

T = TypeVar("T")
Make = Callable[..., Any]


@dataclass(frozen=True)
class Construct:
    family: str
    name: str
    make: Make
    nested: bool


CONSTRUCTS: dict[str, list[Construct]] = {}


def construct(family: str, name: str, *, nested: bool = False) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        CONSTRUCTS.setdefault(family, []).append(Construct(family, name, make, nested))
        return make

    return register


@dataclass(frozen=True)
class Query:
    """The text of a query and its columns, named c0, c1, …"""

    text: str
    cols: Cols


@dataclass(frozen=True)
class Source:
    """A FROM clause, and the columns that can be named over it."""

    text: str
    cols: Cols


@dataclass
class Builder:
    """Draws one query."""

    random: Random
    weights: Mapping[str, int]
    room: int = 2  # for nested queries
    aliases: int = 0
    ctes: dict[str, Cols] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    tables: set[str] = field(default_factory=set)

    def make(self, family: str, *args: Any) -> Any:
        found = [
            each
            for each in CONSTRUCTS[family]
            if self.weights[each.name] and (self.room > 0 or not each.nested)
        ]
        (chosen,) = self.random.choices(found, [self.weights[each.name] for each in found])
        self.used.add(chosen.name)
        self.room -= chosen.nested
        return chosen.make(self, *args)

    def pick(self, *choices: T) -> T:
        return self.random.choice(choices)

    def chance(self, percent: int) -> bool:
        return self.random.random() * 100 < percent

    def maybe(self, name: str, percent: int) -> bool:
        """A construct that is there or not."""
        there = bool(self.weights[name]) and self.chance(percent)
        if there:
            self.used.add(name)
        return there

    def alias(self) -> str:
        self.aliases += 1
        return f"r{self.aliases}"

    def some(self, choices: Sequence[T], least: int, most: int) -> list[T]:
        """That many different ones, or as many as there are."""
        count = self.random.randint(least, most)
        return self.random.sample(list(choices), min(count, len(choices)))

    def column(self, cols: Cols, kind: str) -> str:
        """A column of that kind, or a literal if there is none."""
        fitting = [col.text for col in cols if col.kind == kind]
        return self.random.choice(fitting or LITERALS[kind])

    def shape(self, cols: Cols, shape: Sequence[str] | None) -> Sequence[str]:
        """The kinds of the columns that a SELECT shall have."""
        if shape is not None:
            return shape
        return [self.pick(*cols).kind for _ in range(self.pick(1, 2, 2, 3))]


def listed(items: Sequence[Col]) -> str:
    return ", ".join(f"{item.text} AS c{i}" for i, item in enumerate(items))


def outputs(items: Sequence[Col]) -> Cols:
    return tuple(Col(f"c{i}", item.kind) for i, item in enumerate(items))
