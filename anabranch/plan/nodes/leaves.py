"""The leaves of a plan: tables, relations bound when it runs, and a single row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from sqlglot import exp

from anabranch.model import ColumnRanges
from anabranch.names import TableName
from anabranch.plan.exprs import Expr, identifier
from anabranch.plan.hashing import cached_hash
from anabranch.plan.nodes.base import (
    WEIGHT,
    Candidates,
    Clause,
    Names,
    Node,
    Sql,
    Version,
    check_unique,
    needed_or_first,
)


@cached_hash
@dataclass(frozen=True)
class Scan(Clause):
    """The rows of a table at one version.

    `ranges`: only rows within one of these are needed; the scan may return others as well.
    """

    table: TableName
    names: tuple[str, ...]
    version: Version = Version.NOW
    ranges: tuple[ColumnRanges, ...] = ()

    linear: ClassVar[bool] = True
    monotone: ClassVar[bool] = True
    named: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_unique(self.columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return (*self.names, WEIGHT) if self.version is Version.DELTA else self.names

    def keep_only(self, needed: Names) -> Node:
        return replace(self, names=needed_or_first(self.names, needed))

    @property
    def key_candidates(self) -> Candidates:
        """A table can have none but types with a known equality."""
        return ()

    @property
    def head(self) -> str:
        version = "" if self.version is Version.NOW else f" [{self.version.value}]"
        condition = " or ".join(
            " and ".join(f"{name} in {ranges.head}" for name, ranges in conjunction)
            for conjunction in self.ranges
        )
        where = f" where {condition}" if condition else ""
        return f"Scan {self.table}{version} ({', '.join(self.columns)}){where}"

    def as_table(self, sql: Sql) -> exp.Table:
        return sql.stored(self)


@cached_hash
@dataclass(frozen=True)
class Parameter(Clause):
    """A relation that is bound when the plan runs, such as the keys of the touched groups."""

    name: str
    names: tuple[str, ...]

    combines: ClassVar[bool] = False
    monotone: ClassVar[bool] = True
    named: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_unique(self.names)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    @property
    def key_candidates(self) -> Candidates:
        return ()

    @property
    def head(self) -> str:
        return f"Parameter {self.name} ({', '.join(self.names)})"

    def as_table(self, sql: Sql) -> exp.Table:
        return sql.stored(self)


@cached_hash
@dataclass(frozen=True)
class OneRow(Node):
    """One row without columns: SELECT without FROM."""

    linear: ClassVar[bool] = True
    monotone: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[str, ...]:
        return ()

    @property
    def key_candidates(self) -> Candidates:
        return ()

    def body(self, sql: Sql) -> exp.Query:
        return exp.select(exp.alias_(exp.Literal.number(1), identifier("_ab_one")))

    def join_into(self, sql: Sql, query: exp.Select) -> list[Expr]:
        return []
