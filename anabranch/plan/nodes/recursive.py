"""Recursion, and the difference of two of its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from sqlglot import exp

from anabranch.errors import InternalError
from anabranch.plan.exprs import binary, call, column, literal, weight
from anabranch.plan.hashing import cached_hash
from anabranch.plan.nodes.aggregate import Aggregate
from anabranch.plan.nodes.base import (
    WEIGHT,
    Call,
    Candidates,
    Clause,
    Item,
    Names,
    Node,
    Origin,
    OverTwo,
    Sql,
    items_of,
    same_columns,
)
from anabranch.plan.nodes.filter import Filter
from anabranch.plan.nodes.project import Project
from anabranch.plan.nodes.union_all import UnionAll


@cached_hash
@dataclass(frozen=True)
class RecursiveRef(Clause):
    """Inside the step of a recursion: the rows found by the previous iteration."""

    name: str
    names: tuple[str, ...]

    spelled: ClassVar[str] = "Again"
    linear: ClassVar[bool] = True
    monotone: ClassVar[bool] = True
    named: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    @property
    def key_candidates(self) -> Candidates:
        return ()

    @property
    def head(self) -> str:
        return f"RecursiveRef {self.name} ({', '.join(self.columns)})"

    def as_table(self, sql: Sql) -> exp.Table:
        return sql.recursive_ref(self)


@cached_hash
@dataclass(frozen=True)
class Recursive(Clause):
    """R = seed + step(R): rows of the seed, of the step over them, and so on.

    The step refers to the recursion by RecursiveRef, once in each of its branches; it is linear in it.

    `distinct`: R = seed ∪ step(R), the least such set; the step is monotone in it and may refer to it
    several times.  `loose`: rows that are equal may differ, such as 0.0 and -0.0, so that nobody may
    count one for the other.
    """

    name: str
    seed: Node
    step: Node
    distinct: bool = False
    loose: bool = False

    combines: ClassVar[bool] = False
    monotone: ClassVar[bool] = True
    named: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.seed.columns != self.step.columns:
            raise InternalError("the step of a recursion must have the columns of its seed")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.seed.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.seed, self.step)

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        return replace(self, seed=inputs[0], step=inputs[1])

    def uses(self, needed: Names) -> tuple[Names, ...]:
        return (frozenset(self.columns),) * 2

    def typed_like(self, name: str) -> tuple[Origin, ...]:
        return (Origin(0, name),)

    @property
    def key_candidates(self) -> Candidates:
        return ()

    @property
    def head(self) -> str:
        once = " [each row once]" if self.distinct else ""
        return f"Recursive {self.name}{once} ({', '.join(self.columns)})"

    def as_table(self, sql: Sql) -> exp.Table:
        return sql.recursion(self)


@cached_hash
@dataclass(frozen=True)
class Difference(OverTwo):
    """The change from a set (left) to its next state (right), with weights."""

    def __post_init__(self) -> None:
        if self.left.columns != self.right.columns:
            raise InternalError("a difference needs the same columns twice")

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.left.columns, WEIGHT)

    @property
    def head(self) -> str:
        return "Difference of before and after, by rounds"

    def body(self, sql: Sql) -> exp.Query:
        """The weights of rows on both sides sum to zero."""
        sides = tuple(
            Project(side, (*same_columns(side), Item(WEIGHT, weight(sign))))
            for side, sign in ((self.right, 1), (self.left, -1))
        )
        total = Call(WEIGHT, call("SUM", column(WEIGHT)))
        changed = binary(exp.NEQ, column(WEIGHT), literal(0))
        summed = Aggregate(UnionAll(sides), same_columns(self.left), (total,))
        return sql.body(Project(Filter(summed, changed), items_of(self.columns)))
