"""π: columns that are computed row by row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from sqlglot import exp

from anabranch.plan.asked import Asked, if_true
from anabranch.plan.nodes.base import (
    Item,
    Names,
    Node,
    On,
    Origin,
    OverOne,
    Sql,
    check_known,
    check_unique,
    item_heads,
    kept_of,
    passed_on,
    used_by,
)
from anabranch.plan.nodes.conditions import in_words_of
from anabranch.plan.remembered import remembered


@remembered
@dataclass(frozen=True)
class Project(OverOne):
    """One row per row: the items."""

    items: tuple[Item, ...]

    linear: ClassVar[bool] = True
    monotone: ClassVar[bool] = True
    shareable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_unique(self.columns)
        for item in self.items:
            check_known(item.expr, self.input)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.items)

    def keep_only(self, needed: Names) -> Node:
        kept = kept_of(self.columns, needed)
        return Project(self.input, tuple(item for item in self.items if item.name in kept))

    def uses(self, needed: Names) -> tuple[Names, ...]:
        return (used_by(self.items),)

    def origins(self, name: str) -> tuple[Origin, ...]:
        below = passed_on(self.items).get(name)
        return () if below is None else (Origin(0, below),)

    def never_null(self, name: str) -> bool:
        return any(self.input.never_null(each.name) for each in self.origins(name))

    def asks_of(self, asked: Asked) -> Asked:
        shown = [item.expr.columns for item in self.items if item.name in asked.shown]
        found = Asked(shown=frozenset[str]().union(*shown))
        for item in self.items:
            found |= if_true(item.expr.tree) if item.name in asked.true else Asked()
        return found

    def routes(self, on: On) -> tuple[On, ...]:
        return (in_words_of(on, {item.name: item.expr for item in self.items}),)

    @property
    def head(self) -> str:
        return f"Project {item_heads(self.items)}"

    def body(self, sql: Sql) -> exp.Query:
        return sql.select(self.input, self.items)
