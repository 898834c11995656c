"""Leave out files whose statistics show that no row can match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyiceberg.manifest import ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from anabranch.lake.ranges import column_range, stored_value
from anabranch.model import Bound

Wanted = tuple[NestedField, str, tuple[Any, ...]]


def pruned(
    schema: Schema, files: Sequence[ManifestEntry], bounds: Sequence[Bound]
) -> list[ManifestEntry]:
    """Files that may hold a row for which all bounds are true."""
    wanted = [found for bound in bounds if (found := _wanted(schema, bound)) is not None]
    return [each for each in files if _may_match(each, wanted)]


def _may_match(entry: ManifestEntry, wanted: Sequence[Wanted]) -> bool:
    file = entry.data_file
    ranges = ((column_range(file, field), op, values) for field, op, values in wanted)
    return all(each.may_satisfy(op, values) for each, op, values in ranges)


def _wanted(schema: Schema, bound: Bound) -> Wanted | None:
    """What a bound asks of a column, in the form that ends of files have; None if that cannot be
    compared.  Of floating point nothing can: Spark puts NaN above all numbers, statistics leave it
    out."""
    column = _column(schema, bound.column)
    if column is None:
        return None
    values = tuple(stored_value(value, column) for value in bound.values)
    if bound.op != "null" and (not values or None in values):
        return None
    return column, bound.op, values


def _column(schema: Schema, name: str) -> NestedField | None:
    exact = [each for each in schema.fields if each.name == name]
    alike = [each for each in schema.fields if each.name.lower() == name.lower()]
    found = exact or alike
    return found[0] if len(found) == 1 else None
