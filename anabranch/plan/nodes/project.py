"""π: columns computed row by row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from sqlglot import exp

from anabranch.plan.demand import Demand, truth_demand
from anabranch.plan.hashing import cached_hash
from anabranch.plan.nodes.base import (
    Candidates,
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
    needed_or_first,
    passed_on,
    used_by,
)
from anabranch.plan.nodes.candidates import computed
from anabranch.plan.nodes.conditions import expressed_in


@cached_hash
@dataclass(frozen=True)
class Project(OverOne):
    """One output row per input row."""

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
        retained = needed_or_first(self.columns, needed)
        return Project(self.input, tuple(item for item in self.items if item.name in retained))

    def uses(self, needed: Names) -> tuple[Names, ...]:
        return (used_by(self.items),)

    def origins(self, name: str) -> tuple[Origin, ...]:
        input_column = passed_on(self.items).get(name)
        return () if input_column is None else (Origin(0, input_column),)

    def defined(self, name: str) -> Item | None:
        return next((item for item in self.items if item.name == name), None)

    def never_null(self, name: str) -> bool:
        return any(self.input.never_null(origin.name) for origin in self.origins(name))

    def demand_of(self, demand: Demand) -> Demand:
        used = [item.expr.columns for item in self.items if item.name in demand.values]
        below = Demand(values=frozenset[str]().union(*used))
        for item in self.items:
            below |= truth_demand(item.expr.tree) if item.name in demand.truth else Demand()
        return below

    def routes(self, on: On) -> tuple[On, ...]:
        return (expressed_in(on, {item.name: item.expr for item in self.items}),)

    @property
    def key_candidates(self) -> Candidates:
        return ((self.input, computed(item.expr for item in self.items)),)

    @property
    def head(self) -> str:
        return f"Project {item_heads(self.items)}"

    def body(self, sql: Sql) -> exp.Query:
        return sql.select(self.input, self.items)
