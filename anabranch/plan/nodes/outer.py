"""⟕: left and full joins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from sqlglot import exp

from anabranch.plan.demand import Demand, Operator
from anabranch.plan.exprs import Expr
from anabranch.plan.hashing import cached_hash
from anabranch.plan.nodes.base import (
    Candidates,
    Clause,
    Names,
    Node,
    On,
    Origin,
    OverTwo,
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
class Outer(OverTwo, Clause):
    """The rows of a join, and every left row without a match, padded with NULLs.

    `full`: every right row without a match too.
    """

    condition: Expr | None = None
    full: bool = False

    combines: ClassVar[bool] = False
    shareable: ClassVar[bool] = True
    work: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_unique(self.columns)
        if self.condition is not None:
            check_known(self.condition, self.left, self.right)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return (*self.left.columns, *self.right.columns)

    def uses(self, needed: Names) -> tuple[Names, ...]:
        return (needed | columns_of(self.condition),) * 2

    def origins(self, name: str) -> tuple[Origin, ...]:
        """Padding adds NULLs, so that only columns of a side that is never padded have an origin."""
        return (Origin(0, name),) if not self.full and name in self.left.columns else ()

    def typed_like(self, name: str) -> tuple[Origin, ...]:
        return (Origin(0 if name in self.left.columns else 1, name),)

    def nonmonotone_inputs(self, demand: Demand) -> list[tuple[Operator, Node]]:
        return [(Operator.OUTER, child) for child in self.inputs[0 if self.full else 1 :]]

    def routes(self, on: On) -> tuple[On, ...] | None:
        """Only right rows with the keys of a left row can match it."""
        if self.full or not reads_only(on, self.left.columns):
            return None
        return (on, through_equality(self.condition, self.right, on))

    @property
    def key_candidates(self) -> Candidates:
        return ((self, computed(equated(self.condition))),)

    @property
    def heavy(self) -> bool:
        return True

    @property
    def head(self) -> str:
        return f"{'Full' if self.full else 'Left'} join{condition_head(self.condition)}"

    def join_into(self, sql: Sql, query: exp.Select) -> list[Expr]:
        join_pair(sql, query, self, self.condition, "full" if self.full else "left")
        return []


def join_pair(
    sql: Sql, query: exp.Select, node: OverTwo, condition: Expr | None, kind: str
) -> None:
    query.from_(sql.source(node.left)[0], copy=False)
    on = sql.written(condition) if condition else exp.true()
    query.join(sql.source(node.right)[0], on=on, join_type=kind, copy=False)
