"""Leave out files whose statistics show that no row can match."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
)
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator
from pyiceberg.manifest import DataFile, ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, NestedField, TimestampType, TimestamptzType

from anabranch.model import Bound

_MAKE: dict[str, Any] = {
    "=": EqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
    "in": In,
    "null": IsNull,
}


def pruned(
    schema: Schema, files: Sequence[ManifestEntry], bounds: Sequence[Bound]
) -> list[ManifestEntry]:
    """Files that may hold a row for which all bounds are true."""
    wanted: BooleanExpression = AlwaysTrue()
    for bound in bounds:
        wanted = And(wanted, _expression(schema, bound))
    if isinstance(wanted, AlwaysTrue):
        return list(files)
    judge = _InclusiveMetricsEvaluator(schema, wanted)
    return [each for each in files if _may_match(judge, each.data_file)]


def _may_match(judge: _InclusiveMetricsEvaluator, file: DataFile) -> bool:
    try:
        return judge.eval(file)
    except Exception:  # bounds written before a column was widened, or by a careless writer
        return True


def _expression(schema: Schema, bound: Bound) -> BooleanExpression:
    column = _column(schema, bound.column)
    if column is None:
        return AlwaysTrue()
    if bound.op == "null":
        found: BooleanExpression = _MAKE["null"](column.name)
        return found
    if isinstance(column.field_type, (FloatType, DoubleType)):
        return AlwaysTrue()  # Spark puts NaN above all numbers, statistics leave it out
    if not bound.values or not all(_fits(column, value) for value in bound.values):
        return AlwaysTrue()
    try:
        wanted = set(bound.values) if bound.op == "in" else bound.values[0]
        expression: BooleanExpression = _MAKE[bound.op](column.name, wanted)
        _InclusiveMetricsEvaluator(schema, expression)  # binds: a literal of another type fails
    except Exception:
        return AlwaysTrue()
    return expression


def _column(schema: Schema, name: str) -> NestedField | None:
    exact = [each for each in schema.fields if each.name == name]
    alike = [each for each in schema.fields if each.name.lower() == name.lower()]
    found = exact or alike
    return found[0] if len(found) == 1 else None


def _fits(column: NestedField, value: object) -> bool:
    if value is None:
        return False
    if isinstance(value, datetime):
        wanted = TimestamptzType if value.tzinfo is not None else TimestampType
        return isinstance(column.field_type, wanted)
    return not isinstance(column.field_type, (TimestampType, TimestamptzType))
