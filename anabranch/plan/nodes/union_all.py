"""+: bag union."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar

from sqlglot import exp

from anabranch.errors import InternalError
from anabranch.plan.demand import Demand
from anabranch.plan.hashing import cached_hash
from anabranch.plan.nodes.base import Candidates, Names, Node, On, Origin, Sql, needed_or_first


@cached_hash
@dataclass(frozen=True)
class UnionAll(Node):
    """All rows of all inputs, which have the same columns."""

    parts: tuple[Node, ...]

    linear: ClassVar[bool] = True
    monotone: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    shareable: ClassVar[bool] = True
    work: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.parts or len({child.columns for child in self.parts}) != 1:
            raise InternalError("the inputs of UNION ALL must have the same columns")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.parts[0].columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        return replace(self, parts=tuple(inputs))

    def uses(self, needed: Names) -> tuple[Names, ...]:
        return (frozenset(needed_or_first(self.columns, needed)),) * len(self.parts)

    def origins(self, name: str) -> tuple[Origin, ...]:
        return tuple(Origin(position, name) for position in range(len(self.parts)))

    def never_null(self, name: str) -> bool:
        return all(child.never_null(name) for child in self.parts)

    def demand_of(self, demand: Demand) -> Demand:
        return demand

    def routes(self, on: On) -> tuple[On, ...]:
        return (on,) * len(self.parts)

    @property
    def key_candidates(self) -> Candidates:
        return ()

    def body(self, sql: Sql) -> exp.Query:
        queries = [sql.relation(child) for child in self.parts]
        return reduce(lambda a, b: exp.union(a, b, distinct=False, copy=False), queries)
