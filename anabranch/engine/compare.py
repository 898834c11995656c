"""Two frames as bags: what one has more than the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.engine.errors import translated
from anabranch.engine.identity import canonical, typed
from anabranch.engine.types import parse_type
from anabranch.model import Columns
from anabranch.names import quote

WEIGHT = "_ab_w"


@dataclass(frozen=True)
class Surplus:
    """Rows that one side has more often; `rows` names the first of them with their multiplicity."""

    total: int
    rows: list[dict[str, Any]]


def bag_difference(
    expected: DataFrame, actual: DataFrame, columns: Columns, shown: int
) -> tuple[Surplus, Surplus]:
    """(missing from actual, unexpected in actual).

    Floating-point values are compared to twelve digits: their sums depend on the order of addition.
    """
    names = [quote(column.name) for column in columns]
    weighted = [
        typed(side, columns).withColumn(WEIGHT, F.lit(weight))
        for side, weight in ((expected, 1), (actual, -1))
    ]
    both = weighted[0].unionByName(weighted[1])
    keys = [
        F.expr(f"{_rounded(quote(column.name), column.type)} AS _ab_k{at}")
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
        rows = differing.limit(2 * shown).collect() if totals else []
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


def _rounded(value: str, type_: str) -> str:
    if type_ in ("float", "double"):
        return f"format_string('%.11e', CAST({value} AS DOUBLE) + 0.0D)"
    return canonical(value, parse_type(type_))
