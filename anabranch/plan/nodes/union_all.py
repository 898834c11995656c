"""+: all rows of several inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar

from sqlglot import exp

from anabranch.errors import InternalError
from anabranch.plan.asked import Asked
from anabranch.plan.nodes.base import Names, Node, On, Origin, Sql, kept_of
from anabranch.plan.remembered import remembered


@remembered
@dataclass(frozen=True)
class UnionAll(Node):
    """All rows of all inputs; the inputs name their columns alike."""

    parts: tuple[Node, ...]

    linear: ClassVar[bool] = True
    monotone: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    shareable: ClassVar[bool] = True
    work: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.parts or len({part.columns for part in self.parts}) != 1:
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
        return (frozenset(kept_of(self.columns, needed)),) * len(self.parts)

    def origins(self, name: str) -> tuple[Origin, ...]:
        return tuple(Origin(at, name) for at in range(len(self.parts)))

    def never_null(self, name: str) -> bool:
        return all(part.never_null(name) for part in self.parts)

    def asks_of(self, asked: Asked) -> Asked:
        return asked

    def routes(self, on: On) -> tuple[On, ...]:
        return (on,) * len(self.parts)

    def body(self, sql: Sql) -> exp.Query:
        parts = [sql.relation(part) for part in self.parts]
        return reduce(lambda a, b: exp.union(a, b, distinct=False, copy=False), parts)
