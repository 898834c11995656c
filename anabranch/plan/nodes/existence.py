"""⋉, ▷ and mark joins: left rows, each once, by whether the condition holds for some right row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from sqlglot import exp

from anabranch.errors import InternalError
from anabranch.plan.demand import Demand, Operator
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
from anabranch.plan.hashing import cached_hash
from anabranch.plan.nodes.aggregate import Aggregate
from anabranch.plan.nodes.base import (
    Candidates,
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
from anabranch.plan.nodes.candidates import computed, equated
from anabranch.plan.nodes.conditions import reads_only, through_equality
from anabranch.plan.nodes.filter import Filter
from anabranch.plan.nodes.join import Join
from anabranch.plan.nodes.outer import Outer, join_pair
from anabranch.plan.nodes.project import Project
from anabranch.plan.nodes.union_all import UnionAll


@dataclass(frozen=True)
class ExistenceJoin(OverTwo):
    """Left rows, each once, by whether the condition holds for some right row."""

    condition: Expr | None

    spelled: ClassVar[str] = "Match"
    judgement: ClassVar[str]  # in fingerprints
    combines: ClassVar[bool] = False
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
        used = columns_of(self.condition)
        return (needed | used, used)

    def origins(self, name: str) -> tuple[Origin, ...]:
        return (Origin(0, name),) if name in self.left.columns else ()

    def demand_of(self, demand: Demand) -> Demand:
        return demand | Demand(values=columns_of(self.condition))

    @property
    def duplicating(self) -> tuple[Node, ...]:
        return (self.left,)

    def routes(self, on: On) -> tuple[On, ...] | None:
        """Only right rows with the keys of a left row can match it."""
        if not reads_only(on, self.left.columns):
            return None
        return (on, through_equality(self.condition, self.right, on))

    @property
    def key_candidates(self) -> Candidates:
        both = Join((self.left, self.right))
        return ((both, computed(equated(self.condition))),)

    @property
    def heavy(self) -> bool:
        return True


@cached_hash
@dataclass(frozen=True)
class SemiJoin(ExistenceJoin, Clause):
    """The left rows with a match."""

    judgement: ClassVar[str] = "wanted"
    monotone: ClassVar[bool] = True

    @property
    def head(self) -> str:
        return f"Semi join{condition_head(self.condition)}"

    def join_into(self, sql: Sql, query: exp.Select) -> list[Expr]:
        join_pair(sql, query, self, self.condition, "left semi")
        return []


@cached_hash
@dataclass(frozen=True)
class AntiJoin(ExistenceJoin, Clause):
    """The left rows without a match."""

    judgement: ClassVar[str] = "unwanted"

    @property
    def head(self) -> str:
        return f"Anti join{condition_head(self.condition)}"

    def nonmonotone_inputs(self, demand: Demand) -> list[tuple[Operator, Node]]:
        return [(Operator.ABSENT, self.right)]

    def join_into(self, sql: Sql, query: exp.Select) -> list[Expr]:
        join_pair(sql, query, self, self.condition, "left anti")
        return []


@cached_hash
@dataclass(frozen=True)
class MarkJoin(ExistenceJoin):
    """Every left row, and a column that says whether it has a match.

    `one_to_one`: no two values of the right side equal the same value of the left.
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

    def nonmonotone_inputs(self, demand: Demand) -> list[tuple[Operator, Node]]:
        return [(Operator.VALUE, self.right)] if self.mark in demand.values else []

    @property
    def head(self) -> str:
        return f"Mark {self.mark}{condition_head(self.condition)}"

    def body(self, sql: Sql) -> exp.Query:
        """Never a correlated EXISTS: below a filter over a UNION, Spark's optimizer
        looks for columns of the inner query in the outer one, and fails with "key not found"."""
        compared = conjuncts(self.condition)
        pairs = equalities(self.condition, self.left.columns, self.right.columns)
        left_only = [
            conjunct
            for conjunct in compared
            if conjunct.columns and conjunct.columns <= {*self.left.columns}
        ]
        right_only = [
            conjunct for conjunct in compared if conjunct.columns <= {*self.right.columns}
        ]
        right = (
            Filter(self.right, right_condition)
            if (right_condition := conjunction(right_only))
            else self.right
        )
        by_key = len(pairs) + len(left_only) + len(right_only) == len(compared)
        if not by_key or (pairs and not self.one_to_one):
            return sql.body(self._judged_twice())
        if pairs:
            return self._found_by_key(sql, right, pairs, left_only)
        inner = exp.select(exp.Literal.number(1), copy=False)
        mark_value: Tree = exp.Exists(this=inner.from_(sql.source(right)[0], copy=False))
        if (left_condition := conjunction(left_only)) is not None:
            left_holds = exp.Coalesce(this=sql.written(left_condition), expressions=[exp.false()])
            mark_value = exp.and_(left_holds, mark_value, copy=False)
        mark = exp.alias_(mark_value, identifier(self.mark), copy=False)
        query = exp.select(*map(sql.column, self.left.columns), mark, copy=False)
        return query.from_(sql.source(self.left)[0], copy=False)

    def _judged_twice(self) -> Node:
        """The left rows with a match, and those without."""
        sides = (
            Project(
                kind(self.left, self.right, self.condition),
                (*same_columns(self.left), Item(self.mark, Expr(value))),
            )
            for kind, value in ((SemiJoin, "TRUE"), (AntiJoin, "FALSE"))
        )
        return UnionAll(tuple(sides))

    def _found_by_key(
        self, sql: Sql, right: Node, pairs: tuple[Equality, ...], left_only: list[Expr]
    ) -> exp.Select:
        """L LEFT JOIN the distinct keys of R: the mark is whether a key was found."""
        keys = Aggregate(
            right, tuple(Item(f"_ab_met{i}", pair.right) for i, pair in enumerate(pairs))
        )
        marked_keys = Project(keys, (*same_columns(keys), Item("_ab_met", Expr("TRUE"))))
        equal = [
            binary(exp.NullSafeEQ if pair.null_safe else exp.EQ, pair.left, column(key.name))
            for pair, key in zip(pairs, keys.keys, strict=True)
        ]
        outer = Outer(self.left, marked_keys, conjunction([*left_only, *equal]))
        mark = Item(self.mark, is_not_null(column("_ab_met")))
        return sql.select(outer, (*same_columns(self.left), mark))
