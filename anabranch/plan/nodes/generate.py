"""Generators: explode and similar functions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from sqlglot import exp

from anabranch.plan.exprs import Expr, column
from anabranch.plan.hashing import cached_hash
from anabranch.plan.nodes.base import Candidates, Names, On, OverOne, Sql, check_known, check_unique
from anabranch.plan.nodes.conditions import reads_only


@cached_hash
@dataclass(frozen=True)
class Generate(OverOne):
    """Each row joined with the rows that its generator, such as explode(a), makes of it.

    `outer`: a row without any generated rows is kept, with NULLs.
    """

    generator: Expr
    names: tuple[str, ...]
    outer: bool = False

    linear: ClassVar[bool] = True
    monotone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_unique(self.columns)
        check_known(self.generator, self.input)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return (*self.input.columns, *self.names)

    def uses(self, needed: Names) -> tuple[Names, ...]:
        return (needed | self.generator.columns,)

    def routes(self, on: On) -> tuple[On, ...] | None:
        return (on,) if reads_only(on, self.input.columns) else None

    @property
    def key_candidates(self) -> Candidates:
        return ((self, tuple(map(column, self.names))),)

    @property
    def head(self) -> str:
        outer = "outer " if self.outer else ""
        return f"Generate {outer}{self.generator.readable} as {', '.join(self.names)}"

    def body(self, sql: Sql) -> exp.Query:
        query = exp.select(*map(sql.column, self.columns), copy=False)
        query = query.from_(sql.source(self.input)[0], copy=False)
        query.append("laterals", sql.lateral(self))
        return query
