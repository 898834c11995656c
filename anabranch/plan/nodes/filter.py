"""σ: the rows for which a condition is true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp

from anabranch.plan.demand import Demand, truth_demand
from anabranch.plan.exprs import Expr, binary, column, conjuncts, is_not_null
from anabranch.plan.hashing import cached_hash
from anabranch.plan.nodes.base import Candidates, Clause, Names, On, OverOne, Sql, check_known
from anabranch.plan.nodes.candidates import computed, equated


@cached_hash
@dataclass(frozen=True)
class Filter(OverOne, Clause):
    """The rows for which the condition is true."""

    condition: Expr

    linear: ClassVar[bool] = True
    monotone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_known(self.condition, self.input)

    def uses(self, needed: Names) -> tuple[Names, ...]:
        return (needed | self.condition.columns,)

    def never_null(self, name: str) -> bool:
        implying = {is_not_null(column(name)), binary(exp.EQ, column(name), column(name))}
        return bool(implying & {*conjuncts(self.condition)}) or self.input.never_null(name)

    @property
    def key_candidates(self) -> Candidates:
        return ((self.input, computed(equated(self.condition))),)

    def demand_of(self, demand: Demand) -> Demand:
        return demand | truth_demand(self.condition.tree)

    def routes(self, on: On) -> tuple[On, ...]:
        return (on,)

    @property
    def head(self) -> str:
        return f"Filter {self.condition.readable}"

    def join_into(self, sql: Sql, query: exp.Select) -> list[Expr]:
        return [*sql.join_into(query, self.input), *conjuncts(self.condition)]
