"""Window functions, and the first rows of each partition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from sqlglot import exp

from anabranch.plan.demand import Demand, Operator
from anabranch.plan.exprs import Expr
from anabranch.plan.hashing import cached_hash
from anabranch.plan.nodes.base import (
    Candidates,
    Item,
    Names,
    Node,
    On,
    Order,
    OverOne,
    Sql,
    check_known,
    check_unique,
    item_heads,
    orders,
    same_columns,
    used_by,
)
from anabranch.plan.nodes.candidates import arguments, computed


@cached_hash
@dataclass(frozen=True)
class Window(OverOne):
    """The rows with one more column per window call; all calls have the same partitions.

    The expression of an item is the whole call, `SUM(x) OVER (PARTITION BY … ORDER BY …)`.
    """

    partition: tuple[Expr, ...]
    calls: tuple[Item, ...]
    types: tuple[str, ...] = ()  # of the partition keys

    spelled: ClassVar[str] = "Windows"
    shareable: ClassVar[bool] = True
    work: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_unique(self.columns)
        for expr in (*self.partition, *(call.expr for call in self.calls)):
            check_known(expr, self.input)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return (*self.input.columns, *(call.name for call in self.calls))

    def keep_only(self, needed: Names) -> Node:
        calls = tuple(call for call in self.calls if call.name in needed)
        return replace(self, calls=calls) if calls else self.input

    def uses(self, needed: Names) -> tuple[Names, ...]:
        return (needed.union(*(e.columns for e in self.partition)) | used_by(self.calls),)

    def defined(self, name: str) -> Item | None:
        return next((call for call in self.calls if call.name == name), None)

    def nonmonotone_inputs(self, demand: Demand) -> list[tuple[Operator, Node]]:
        return [(Operator.WINDOW, self.input)]

    def routes(self, on: On) -> tuple[On, ...] | None:
        return _by_partition_keys(on, self.partition)

    @property
    def key_candidates(self) -> Candidates:
        used = (argument for call in self.calls for argument in arguments(call.expr.tree))
        return ((self.input, computed((*self.partition, *used))),)

    @property
    def heavy(self) -> bool:
        return True

    @property
    def head(self) -> str:
        return f"Window {item_heads(self.calls)}"

    def body(self, sql: Sql) -> exp.Query:
        return sql.select(self.input, (*same_columns(self.input), *self.calls))


@cached_hash
@dataclass(frozen=True)
class TopK(OverOne):
    """The first rows of each partition, after an offset; `order` leaves no visible ties."""

    order: tuple[Order, ...]
    limit: int | None
    offset: int = 0
    partition: tuple[Expr, ...] = ()

    spelled: ClassVar[str] = "Top"
    shareable: ClassVar[bool] = True
    work: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for expr in (*self.partition, *(order.expr for order in self.order)):
            check_known(expr, self.input)

    def uses(self, needed: Names) -> tuple[Names, ...]:
        exprs = (*self.partition, *(order.expr for order in self.order))
        return (needed.union(*(expr.columns for expr in exprs)),)

    def nonmonotone_inputs(self, demand: Demand) -> list[tuple[Operator, Node]]:
        return [(Operator.LIMIT, self.input)]

    def routes(self, on: On) -> tuple[On, ...] | None:
        return _by_partition_keys(on, self.partition)

    @property
    def key_candidates(self) -> Candidates:
        used = (*self.partition, *(order.expr for order in self.order))
        return ((self.input, computed(used)),)

    @property
    def heavy(self) -> bool:
        return True

    @property
    def head(self) -> str:
        words = ["TopK"]
        words += [] if self.limit is None else [str(self.limit)]
        words += [f"after {self.offset}"] if self.offset else []
        words += [f"by {', '.join(order.head for order in self.order)}"] if self.order else []
        if self.partition:
            words.append(f"per {', '.join(key.readable for key in self.partition)}")
        return " ".join(words)

    def body(self, sql: Sql) -> exp.Query:
        return self._ranked(sql) if self.partition else self._first_rows(sql)

    def _first_rows(self, sql: Sql) -> exp.Query:
        query = sql.select(self.input, same_columns(self.input))
        query = query.order_by(*orders(self.order), copy=False)
        if self.limit is not None:
            query = query.limit(self.limit, copy=False)
        return query.offset(self.offset, copy=False) if self.offset else query

    def _ranked(self, sql: Sql) -> exp.Query:
        """The first rows of each partition, by row number."""
        window = exp.Window(
            this=exp.Anonymous(this="ROW_NUMBER"),
            partition_by=[expr.tree.copy() for expr in self.partition],
            order=exp.Order(expressions=list(orders(self.order))),
        )
        rank = Item("_ab_rank", Expr.of(window))
        numbered, _ = sql.aliased(sql.select(self.input, (*same_columns(self.input), rank)))
        query = exp.select(*map(sql.column, self.columns), copy=False)
        query = query.from_(numbered, copy=False)
        if self.limit is not None:
            last = exp.Literal.number(self.limit + self.offset)
            query = query.where(exp.LTE(this=sql.column(rank.name), expression=last), copy=False)
        if self.offset:
            skipped = exp.Literal.number(self.offset)
            query = query.where(exp.GT(this=sql.column(rank.name), expression=skipped), copy=False)
        return query


def _by_partition_keys(on: On, partition: tuple[Expr, ...]) -> tuple[On, ...] | None:
    selects_partitions = partition and all(expr in partition for expr, _ in on)
    return (on,) if selects_partitions else None
