"""Partial aggregates of a group, stored so that the group need not be read again.

    COUNT(x)  s = Σ [x is not NULL]          SUM(x)  s = Σ x, and the count, for SUM of nothing is NULL
    MIN(x)    s = min x, until it is deleted  AVG(x)  s = Σ x and the count

Sums are maintained only for exact types: integers and decimals.  A change adds inserted rows and
subtracts deleted rows as SUM(CASE WHEN w > 0 THEN x ELSE -x END): x - y of two wide decimals would
lose digits, and x is widened first so that -x cannot overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from anabranch.plan.exprs import (
    Expr,
    binary,
    call,
    cast,
    column,
    is_not_null,
    literal,
    negative,
    when,
)
from anabranch.plan.nodes import WEIGHT, Call
from anabranch.types import Type

ROWS = "_ab_n"
_SMALL = ("tinyint", "smallint", "int")
_WEIGHT = column(WEIGHT)


@dataclass(frozen=True)
class StateColumn:
    """`initial` computes it from all rows of a group, `change` from the rows of a delta.

    For an extremum, `deleted` is the column of a change with the extremum of the deleted values, and
    `deleted_extremum` computes it.  A state that is NULL has seen no value.
    """

    name: str
    type: str
    combine: Literal["sum", "min", "max"]
    initial: Expr
    change: Expr
    deleted: str | None = None
    deleted_extremum: Expr | None = None


@dataclass
class States:
    """The state columns of one aggregate; calls with the same state share it."""

    columns: dict[Expr, StateColumn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = Expr("COUNT(*)")
        self.columns[rows] = StateColumn(ROWS, "bigint", "sum", rows, call("SUM", _WEIGHT))

    def output(self, aggregate_call: Call) -> Expr | None:
        """The call's result over state columns; None if it cannot be maintained."""
        value = aggregate_call.arg
        if value is not None and aggregate_call.where is not None:
            value = when(aggregate_call.where, value)
        match aggregate_call.function:
            case "count":
                return self._count(value, aggregate_call.where)
            case "sum" if value is not None:
                return self._sum(value, _type(aggregate_call))
            case "avg" if value is not None:
                return self._avg(value, _type(aggregate_call))
            case ("min" | "max") as extremum if value is not None:
                return self._extremum(extremum, value, aggregate_call.arg_type)
        return None

    def _count(self, value: Expr | None, where: Expr | None) -> Expr:
        if value is None and where is None:
            return column(ROWS)
        if value is None or isinstance(value.tree, exp.Literal):
            value = value if where is None else when(where, literal(1))
        if value is None or isinstance(value.tree, exp.Literal):
            return column(ROWS)
        change = when(is_not_null(value), _WEIGHT, literal(0))
        return self._keep("bigint", "sum", call("COUNT", value), call("SUM", change))

    def _sum(self, value: Expr, arg_type: str) -> Expr | None:
        wide = _widened(value, arg_type)
        if wide is None:
            return None
        initial = call("SUM", value if arg_type == "bigint" else wide)
        total = self._keep(_sum_type(arg_type), "sum", initial, _signed_sum(wide))
        return self._unless_empty(value, total)

    def _avg(self, value: Expr, arg_type: str) -> Expr | None:
        wide = _widened(value, arg_type)
        count = self._count(value, None)
        if wide is None or (quotient := _quotient(arg_type)) is None:
            return None
        state_type = "decimal(38,0)" if arg_type == "bigint" else _sum_type(arg_type)
        total = self._keep(state_type, "sum", call("SUM", wide), _signed_sum(wide))
        return self._unless_empty(value, quotient(total, count))

    def _unless_empty(self, value: Expr, result: Expr) -> Expr:
        return when(binary(exp.GT, self._count(value, None), literal(0)), result)

    def _extremum(self, function: Literal["min", "max"], value: Expr, type_: str) -> Expr:
        inserted = when(binary(exp.GT, _WEIGHT, literal(0)), value)
        deleted = when(binary(exp.LT, _WEIGHT, literal(0)), value)
        name = function.upper()
        initial = call(name, value)
        return self._keep(type_, function, initial, call(name, inserted), call(name, deleted))

    def _keep(
        self,
        type_: str,
        combine: Literal["sum", "min", "max"],
        initial: Expr,
        change: Expr,
        deleted_extremum: Expr | None = None,
    ) -> Expr:
        if initial not in self.columns:
            number = len(self.columns) - 1
            deleted = f"_ab_d{number}" if deleted_extremum is not None else None
            self.columns[initial] = StateColumn(
                f"_ab_s{number}", type_, combine, initial, change, deleted, deleted_extremum
            )
        return column(self.columns[initial].name)


def _type(aggregate_call: Call) -> str:
    return aggregate_call.arg_type.lower().replace(" ", "")


def _widened(value: Expr, type_: str) -> Expr | None:
    """The value in a type that is wide enough to negate and add it."""
    if type_ in _SMALL:
        return cast(value, "bigint")
    if type_ == "bigint":
        return cast(value, "decimal(28,0)")
    return value if Type.parse(type_).is_decimal else None


def _signed_sum(value: Expr) -> Expr:
    return call("SUM", when(binary(exp.GT, _WEIGHT, literal(0)), value, negative(value)))


def _sum_type(arg_type: str) -> str:
    """The type of Spark's SUM."""
    type_ = Type.parse(arg_type)
    if not type_.is_decimal:
        return "bigint"
    precision, scale = type_.numbers
    return str(Type.decimal(precision + 10, scale))


def _quotient(arg_type: str) -> Callable[[Expr, Expr], Expr] | None:
    """Spark's AVG from sum and count.

    AVG(decimal(p,s)) is a decimal(p+4,s+4) that is rounded once.  SQL's division rounds to a scale
    of its own: exactly s+4 for decimal(34,s) when s >= 2, and far more than s+4 when p is small.
    For other decimals the second rounding would be visible.
    """
    type_ = Type.parse(arg_type)
    if not type_.is_decimal:
        return lambda total, count: binary(exp.Div, cast(total, "double"), cast(count, "double"))
    precision, scale = type_.numbers
    result = str(Type.decimal(precision + 4, scale + 4))
    if scale >= 2 and precision <= 24:
        wide = f"decimal(34,{scale})"
    elif precision <= 14:
        wide = _sum_type(arg_type)
    else:
        return None

    def divide(total: Expr, count: Expr) -> Expr:
        quotient = binary(exp.Div, cast(total, wide), cast(count, "decimal(20,0)"))
        return cast(quotient, result)

    return divide
