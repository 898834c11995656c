"""⋉, ▷ and marks: left rows, each once, judged by whether the condition is true for some right row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from sqlglot import exp

from anabranch.errors import InternalError
from anabranch.plan.asked import Asked, Operator
from anabranch.plan.equalities import Equality, equalities
from anabranch.plan.exprs import (
    Expr,
    Tree,
    binary,
    column,
    conjunction,
    conjuncts,
    identifier,
    is_not_null,
)
from anabranch.plan.nodes.aggregate import Aggregate
from anabranch.plan.nodes.base import (
    Clause,
    Item,
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
    same_columns,
)
from anabranch.plan.nodes.conditions import reads_only, through_equality
from anabranch.plan.nodes.filter import Filter
from anabranch.plan.nodes.outer import Outer, join_pair
from anabranch.plan.nodes.project import Project
from anabranch.plan.nodes.union_all import UnionAll
from anabranch.plan.remembered import remembered


@dataclass(frozen=True)
class ExistenceJoin(OverTwo):
    """Left rows, each once, judged by whether the condition is true for some right row."""

    condition: Expr | None

    spelled: ClassVar[str] = "Match"
    judgement: ClassVar[str]  # in fingerprints
    shareable: ClassVar[bool] = True
    work: ClassVar[bool] = True

    @property
    def facts(self) -> Mapping[str, object]:
        return {"partner": self.judgement}

    def __post_init__(self) -> None:
        check_unique((*self.columns, *self.right.columns))
        if self.condition is not None:
            check_known(self.condition, self.left, self.right)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.left.columns

    def uses(self, needed: Names) -> tuple[Names, ...]:
        mine = columns_of(self.condition)
        return (needed | mine, mine)

    def origins(self, name: str) -> tuple[Origin, ...]:
        return (Origin(0, name),) if name in self.left.columns else ()

    def asks_of(self, asked: Asked) -> Asked:
        return asked | Asked(shown=columns_of(self.condition))

    @property
    def repeats(self) -> tuple[Node, ...]:
        return (self.left,)

    def routes(self, on: On) -> tuple[On, ...] | None:
        """A right row matters only to left rows that it equals."""
        if not reads_only(on, self.left.columns):
            return None
        return (on, through_equality(self.condition, self.right, on))

    @property
    def heavy(self) -> bool:
        return True


@remembered
@dataclass(frozen=True)
class SemiJoin(ExistenceJoin, Clause):
    """The left rows with a partner."""

    judgement: ClassVar[str] = "wanted"
    monotone: ClassVar[bool] = True

    @property
    def head(self) -> str:
        return f"Semi join{condition_head(self.condition)}"

    def join_into(self, sql: Sql, query: exp.Select) -> list[Expr]:
        join_pair(sql, query, self, self.condition, "left semi")
        return []


@remembered
@dataclass(frozen=True)
class AntiJoin(ExistenceJoin, Clause):
    """The left rows without a partner."""

    judgement: ClassVar[str] = "unwanted"

    @property
    def head(self) -> str:
        return f"Anti join{condition_head(self.condition)}"

    def loses_by(self, asked: Asked) -> list[tuple[Operator, Node]]:
        return [(Operator.ABSENT, self.right)]

    def join_into(self, sql: Sql, query: exp.Select) -> list[Expr]:
        join_pair(sql, query, self, self.condition, "left anti")
        return []


@remembered
@dataclass(frozen=True)
class MarkJoin(ExistenceJoin):
    """Every left row, and a column that says whether it has a partner.

    `one_to_one`: no two values of the right side equal the same one of the left.
    """

    mark: str
    one_to_one: bool = False

    judgement: ClassVar[str] = "marked"

    def __post_init__(self) -> None:
        if not self.mark:
            raise InternalError("a mark join needs a column for its mark")
        super().__post_init__()

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return (*self.left.columns, self.mark)

    def loses_by(self, asked: Asked) -> list[tuple[Operator, Node]]:
        return [(Operator.VALUE, self.right)] if self.mark in asked.shown else []

    @property
    def head(self) -> str:
        return f"Mark {self.mark}{condition_head(self.condition)}"

    def body(self, sql: Sql) -> exp.Query:
        """Never a correlated EXISTS: with UNION above it and a filter above that, Spark's optimizer
        looks for columns of the inner query in the outer one, and fails with "key not found"."""
        compared = conjuncts(self.condition)
        pairs = equalities(self.condition, self.left.columns, self.right.columns)
        mine = [each for each in compared if each.columns and each.columns <= {*self.left.columns}]
        theirs = [each for each in compared if each.columns <= {*self.right.columns}]
        right = Filter(self.right, both) if (both := conjunction(theirs)) else self.right
        by_key = len(pairs) + len(mine) + len(theirs) == len(compared)
        if not by_key or (pairs and not self.one_to_one):
            return sql.body(self._judged_twice())
        if pairs:
            return self._found_by_key(sql, right, pairs, mine)
        inner = exp.select(exp.Literal.number(1), copy=False)
        some: Tree = exp.Exists(this=inner.from_(sql.source(right)[0], copy=False))
        if (own := conjunction(mine)) is not None:
            known = exp.Coalesce(this=sql.written(own), expressions=[exp.false()])
            some = exp.and_(known, some, copy=False)
        mark = exp.alias_(some, identifier(self.mark), copy=False)
        query = exp.select(*map(sql.column, self.left.columns), mark, copy=False)
        return query.from_(sql.source(self.left)[0], copy=False)

    def _judged_twice(self) -> Node:
        """The left rows with a partner, and those without."""
        sides = (
            Project(
                kind(self.left, self.right, self.condition),
                (*same_columns(self.left), Item(self.mark, Expr(value))),
            )
            for kind, value in ((SemiJoin, "TRUE"), (AntiJoin, "FALSE"))
        )
        return UnionAll(tuple(sides))

    def _found_by_key(
        self, sql: Sql, right: Node, pairs: tuple[Equality, ...], mine: list[Expr]
    ) -> exp.Select:
        """L LEFT JOIN the keys of R, each once: the mark is whether one was found."""
        keys = Aggregate(
            right, tuple(Item(f"_ab_met{i}", pair.right) for i, pair in enumerate(pairs))
        )
        found = Project(keys, (*same_columns(keys), Item("_ab_met", Expr("TRUE"))))
        equal = [
            binary(exp.NullSafeEQ if pair.null_safe else exp.EQ, pair.left, column(key.name))
            for pair, key in zip(pairs, keys.keys, strict=True)
        ]
        outer = Outer(self.left, found, conjunction([*mine, *equal]))
        mark = Item(self.mark, is_not_null(column("_ab_met")))
        return sql.select(outer, (*same_columns(self.left), mark))
