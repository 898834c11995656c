"""γ: groups, and DISTINCT."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from sqlglot import exp

from anabranch.errors import InternalError
from anabranch.plan.demand import Demand, Operator
from anabranch.plan.exprs import column
from anabranch.plan.hashing import cached_hash
from anabranch.plan.nodes.base import (
    Call,
    Candidates,
    Item,
    Names,
    Node,
    On,
    Origin,
    OverOne,
    Sql,
    check_known,
    check_unique,
    item_heads,
    passed_on,
    same_columns,
    used_by,
)
from anabranch.plan.nodes.candidates import arguments, computed
from anabranch.plan.nodes.conditions import expressed_in, reads_only
from anabranch.plan.nodes.project import Project


@cached_hash
@dataclass(frozen=True)
class Aggregate(OverOne):
    """One row per group of equal keys (NULL equals NULL); without keys exactly one row.

    Without calls it is DISTINCT.
    """

    keys: tuple[Item, ...]
    calls: tuple[Call, ...] = ()

    shareable: ClassVar[bool] = True
    work: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.keys and not self.calls:
            raise InternalError("an aggregate needs keys or calls")
        check_unique(self.columns)
        for expr in (*(key.expr for key in self.keys), *(call.expr for call in self.calls)):
            check_known(expr, self.input)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return (*(key.name for key in self.keys), *(call.name for call in self.calls))

    def keep_only(self, needed: Names) -> Node:
        calls = tuple(call for call in self.calls if call.name in needed)
        if not calls and not self.keys:
            calls = self.calls[:1]
        return Aggregate(self.input, self.keys, calls)

    def uses(self, needed: Names) -> tuple[Names, ...]:
        return (used_by((*self.keys, *self.calls)),)

    def origins(self, name: str) -> tuple[Origin, ...]:
        input_column = passed_on(self.keys).get(name)
        return () if input_column is None else (Origin(0, input_column),)

    def defined(self, name: str) -> Item | Call | None:
        outputs: tuple[Item | Call, ...] = (*self.calls, *self.keys)
        return next((each for each in outputs if each.name == name), None)

    def never_null(self, name: str) -> bool:
        return any(self.input.never_null(origin.name) for origin in self.origins(name))

    def nonmonotone_inputs(self, demand: Demand) -> list[tuple[Operator, Node]]:
        return [(Operator.AGGREGATE, self.input)] if self.calls else []

    def demand_of(self, demand: Demand) -> Demand:
        return Demand(values=used_by((*self.keys, *self.calls)))

    @property
    def duplicating(self) -> tuple[Node, ...]:
        return ()

    def routes(self, on: On) -> tuple[On, ...] | None:
        keys = {key.name: key.expr for key in self.keys}
        return (expressed_in(on, keys),) if keys and reads_only(on, keys) else None

    @property
    def key_candidates(self) -> Candidates:
        used = (argument for call in self.calls for argument in arguments(call.expr.tree))
        return ((self.input, computed((*(key.expr for key in self.keys), *used))),)

    @property
    def heavy(self) -> bool:
        return bool(self.calls)

    @property
    def head(self) -> str:
        if not self.calls:
            return f"Distinct {item_heads(self.keys)}"
        by = f" by {item_heads(self.keys)}" if self.keys else ""
        return f"Aggregate {item_heads(self.calls)}{by}"

    def body(self, sql: Sql) -> exp.Query:
        """Computed keys get a name first: GROUP BY 5 would mean the fifth column."""
        source, keys = self.input, self.keys
        if any(key.expr.column is None for key in keys):
            needed = used_by(self.calls)
            passed = tuple(item for item in same_columns(source) if item.name in needed)
            named = tuple(Item(f"_ab_g{i}", key.expr) for i, key in enumerate(keys))
            source = Project(source, (*named, *passed))
            keys = tuple(
                Item(key.name, column(own.name)) for key, own in zip(keys, named, strict=True)
            )
        calls = tuple(Item(call.name, call.expr) for call in self.calls)
        query = sql.select(source, (*keys, *calls))
        if self.calls:
            return query.group_by(*(sql.written(key.expr) for key in keys), copy=False)
        return query.distinct(copy=False)
