"""⋈: inner joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from sqlglot import exp

from anabranch.errors import InternalError
from anabranch.plan.demand import Demand, truth_demand
from anabranch.plan.exprs import Expr, conjunction, conjuncts
from anabranch.plan.hashing import cached_hash
from anabranch.plan.nodes.base import (
    Candidates,
    Clause,
    Names,
    Node,
    On,
    Origin,
    Sql,
    check_known,
    check_unique,
    columns_of,
    condition_head,
)
from anabranch.plan.nodes.candidates import computed, equated
from anabranch.plan.nodes.conditions import reads_only, through_equality


@cached_hash
@dataclass(frozen=True)
class Join(Clause):
    """Inner join of any number of inputs; no condition: all combinations.

    `broadcast`: the first input is small.
    """

    parts: tuple[Node, ...]
    condition: Expr | None = None
    broadcast: bool = False

    linear: ClassVar[bool] = True
    monotone: ClassVar[bool] = True
    work: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise InternalError("a join needs two inputs")
        check_unique(self.columns)
        if self.condition is not None:
            check_known(self.condition, *self.parts)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for child in self.parts for name in child.columns)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        return replace(self, parts=tuple(inputs))

    def uses(self, needed: Names) -> tuple[Names, ...]:
        return (needed | columns_of(self.condition),) * len(self.parts)

    def origins(self, name: str) -> tuple[Origin, ...]:
        owners = (position for position, child in enumerate(self.parts) if name in child.columns)
        return tuple(Origin(position, name) for position in owners)

    def demand_of(self, demand: Demand) -> Demand:
        return demand | (truth_demand(self.condition.tree) if self.condition else Demand())

    def routes(self, on: On) -> tuple[On, ...] | None:
        """(R ⋈ S) ⋉ K = (R ⋉ K) ⋈ (S ⋉ K) if R has the keys, and S columns equated with them"""
        owners = [reads_only(on, child.columns) for child in self.parts]
        if not any(owners):
            return None
        return tuple(
            on if owns else through_equality(self.condition, child, on)
            for child, owns in zip(self.parts, owners, strict=True)
        )

    @property
    def key_candidates(self) -> Candidates:
        return ((self, computed(equated(self.condition))),)

    @property
    def heavy(self) -> bool:
        return True

    @property
    def head(self) -> str:
        return f"Join{condition_head(self.condition)}" + (
            " [first input small]" if self.broadcast else ""
        )

    def join_into(self, sql: Sql, query: exp.Select) -> list[Expr]:
        """FROM a JOIN b ON …, each conjunct as soon as its columns are available; returns those over
        the first input alone."""
        pending = list(conjuncts(self.condition))
        available: set[str] = set()
        first: list[Expr] = []
        for position, child in enumerate(self.parts):
            source, alias = sql.source(child)
            available.update(child.columns)
            ready = [expr for expr in pending if expr.columns <= available]
            pending = [expr for expr in pending if expr not in ready]
            if position == 0:
                query.from_(source, copy=False)
                first = ready
                if self.broadcast:
                    sql.hint(query, alias)
            else:
                condition = conjunction(ready)
                on = sql.written(condition) if condition else None
                query.join(source, on=on, join_type="" if on else "cross", copy=False)
        return first
