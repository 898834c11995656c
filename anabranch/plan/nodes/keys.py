"""Filters on keys: exact, or as a superset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from sqlglot import exp

from anabranch.errors import InternalError
from anabranch.plan.exprs import Expr, Tree, column, is_null
from anabranch.plan.hashing import cached_hash
from anabranch.plan.nodes.base import (
    Clause,
    Item,
    Names,
    Node,
    On,
    Origin,
    Sql,
    check_keys,
    keys_head,
    same_columns,
)
from anabranch.plan.nodes.filter import Filter


@cached_hash
@dataclass(frozen=True)
class KeyFilter(Clause):
    """The input rows whose values are among the keys; NULL matches NULL.

    `broadcast`: the keys are few.
    """

    input: Node
    keys: Node
    on: On
    broadcast: bool = True

    combines: ClassVar[bool] = False
    monotone: ClassVar[bool] = True
    work: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_keys(self.on, self.input, self.keys)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input, self.keys)

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        return replace(self, input=inputs[0], keys=inputs[1])

    def uses(self, needed: Names) -> tuple[Names | None, ...]:
        return (needed.union(*(expr.columns for expr, _ in self.on)), None)

    def origins(self, name: str) -> tuple[Origin, ...]:
        return (Origin(0, name),)

    @property
    def head(self) -> str:
        return f"KeyFilter where {keys_head(self.on)}"

    def join_into(self, sql: Sql, query: exp.Select) -> list[Expr]:
        keys, alias, condition = sql.keys(self.keys, self.on)
        query.from_(sql.source(self.input)[0], copy=False)
        query.join(keys, on=condition, join_type="left semi", copy=False)
        if self.broadcast:
            sql.hint(query, alias)
        return []


@cached_hash
@dataclass(frozen=True)
class ReducedScan(Node):
    """All rows whose values are among some of the keys, and possibly others.

    The scan of a table, or a filter over one, that several readers share.  Each reader filters by its
    own keys again, so that the scans of a table can become one.
    """

    input: Node
    by: tuple[tuple[Node, On], ...]

    combines: ClassVar[bool] = False
    monotone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.by:
            raise InternalError("a reduced scan needs something to compare")
        for keys, on in self.by:
            check_keys(on, self.input, keys)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input, *(keys for keys, _ in self.by))

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        first, *keys = inputs
        return ReducedScan(first, tuple(zip(keys, (on for _, on in self.by), strict=True)))

    def origins(self, name: str) -> tuple[Origin, ...]:
        return (Origin(0, name),)

    @property
    def head(self) -> str:
        return f"ReducedScan where {' or '.join(keys_head(on) for _, on in self.by)}"

    def body(self, sql: Sql) -> exp.Query:
        """One relation of keys is a semi join; several are conditions joined by OR: IN, since a
        correlated EXISTS must not stand below UNION (see MarkJoin)."""
        if len(self.by) == 1:
            ((keys, on),) = self.by
            return sql.select(KeyFilter(self.input, keys, on), same_columns(self))
        memberships = [condition for keys, on in self.by for condition in _among(sql, keys, on)]
        query = sql.select(self.input, same_columns(self))
        return query.where(exp.or_(*memberships, copy=False), copy=False)


def _among(sql: Sql, keys: Node, on: On) -> Iterator[Tree]:
    """Conditions of which one holds for each row whose values are among the keys.  IN never matches
    NULL: if there is one among the keys, all rows with NULL in that column are read."""
    keys = sql.without_distinct(keys)
    named = tuple(Item(key, column(key)) for key in dict.fromkeys(key for _, key in on))
    source, alias = sql.aliased(sql.select(keys, named))
    subquery = exp.select(*(sql.column(key) for _, key in on), copy=False)
    sql.hint(subquery.from_(source, copy=False), alias)
    values = [sql.operand(expr) for expr, _ in on]
    this = values[0] if len(values) == 1 else exp.Tuple(expressions=values)
    yield exp.In(this=this, query=subquery.subquery(copy=False))
    for expr, key in on:
        if not keys.never_null(key):
            null_keys = Filter(keys, is_null(column(key)))
            inner = exp.select(exp.Literal.number(1), copy=False)
            inner.from_(sql.source(null_keys)[0], copy=False)
            value_is_null = exp.Is(this=sql.operand(expr), expression=exp.Null())
            yield exp.Paren(this=exp.and_(value_is_null, exp.Exists(this=inner), copy=False))
