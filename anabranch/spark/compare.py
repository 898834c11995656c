"""Two frames as bags: what one has more than the other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from anabranch.model import Column, Columns
from anabranch.names import quote
from anabranch.spark.errors import translated
from anabranch.spark.identity import equal, exact, typed
from anabranch.spark.types import collated, is_collated, parse_type, uncollated

WEIGHT = "_ab_w"


@dataclass(frozen=True)
class Surplus:
    """Rows that one side has more often; `rows` names the first of them with their multiplicity."""

    total: int
    rows: list[dict[str, Any]]


def as_stored(rows: DataFrame) -> DataFrame:
    """The rows of a query as a table holds them: texts without their collation."""
    if not collated(rows.schema):
        return rows
    return rows.select(
        *(
            F.col(quote(field.name)).cast(uncollated(field.dataType)).alias(field.name)
            for field in rows.schema
        )
    )


def bag_difference(
    expected: DataFrame,
    actual: DataFrame,
    columns: Columns,
    shown: int,
    *,
    computed: bool = True,
    sums: Collection[str] = (),
) -> tuple[Surplus, Surplus]:
    """(missing from actual, unexpected in actual).

    What the query leaves open makes no difference.  Floating-point values are compared to twelve
    digits, since their sums depend on the order of addition; texts with a collation by that, since
    any of those that it calls equal may stand for all.  `computed`: 0.0 and -0.0 are alike, of which
    MIN and MAX take any.  `sums`: columns in which NULL and 0 are alike, the sum of nothing.
    """
    collations = {
        field.name: field.dataType.collation
        for field in expected.schema
        if isinstance(field.dataType, T.StringType) and is_collated(field.dataType)
    }
    names = [quote(column.name) for column in columns]
    weighted = [
        typed(side, columns).withColumn(WEIGHT, F.lit(weight))
        for side, weight in ((expected, 1), (actual, -1))
    ]
    both = weighted[0].unionByName(weighted[1])
    keys = [
        F.expr(
            f"COALESCE({quote(column.name)}, 0) AS _ab_k{at}"
            if column.name in sums
            else f"{_compared(column, collations.get(column.name), computed)} AS _ab_k{at}"
        )
        for at, column in enumerate(columns)
    ]
    values = F.first(F.struct(*names)).alias("_ab_row")
    differing = (
        both.groupBy(*keys)
        .agg(F.sum(WEIGHT).alias(WEIGHT), values)
        .filter(F.col(WEIGHT) != 0)
        .select(WEIGHT, "_ab_row")
    )
    with translated():
        # Only counts and a few rows reach the driver.
        found = differing.groupBy((F.col(WEIGHT) > 0).alias("missing")).agg(
            F.sum(F.abs(F.col(WEIGHT))).alias("total")
        )
        totals = {row["missing"]: int(row["total"]) for row in found.collect()}
        rows = _first(differing, 2 * shown) if totals else []
    return tuple(  # type: ignore[return-value]
        Surplus(
            totals.get(missing, 0),
            [
                {"row": row["_ab_row"].asDict(recursive=True), "count": abs(row[WEIGHT])}
                for row in rows
                if (row[WEIGHT] > 0) is missing
            ][:shown],
        )
        for missing in (True, False)
    )


def _first(differing: DataFrame, count: int) -> list[Row]:
    """Some rows; as texts if Python has no value for one of theirs, such as a day of the year 12000."""
    rows = differing.limit(count)
    try:
        return rows.collect()
    except (ValueError, OverflowError):
        texts = [
            F.col(f"_ab_row.{quote(field.name)}").cast("string").alias(field.name)
            for field in rows.schema["_ab_row"].dataType  # type: ignore[attr-defined]
        ]
        return rows.select(WEIGHT, F.struct(*texts).alias("_ab_row")).collect()


def _compared(column: Column, collation: str | None, computed: bool) -> str:
    value = quote(column.name)
    if collation is not None:
        return f"{value} COLLATE {collation}"
    if column.type in ("float", "double"):
        number = f"CAST({value} AS DOUBLE)"
        return f"format_string('%.11e', {f'{number} + 0.0D' if computed else number})"
    return (equal if computed else exact)(value, parse_type(column.type))
