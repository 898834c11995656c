"""Rows of a member between the rounds of a fixed point, as frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.model import Columns, Reading
from anabranch.spark.errors import translated
from anabranch.spark.identity import cast, typed
from anabranch.spark.merge import Identity, names, quoted
from anabranch.spark.query import checkpoint
from anabranch.spark.scan import frame, union
from anabranch.spark.types import WEIGHT

BROADCAST_ROWS = 200_000  # up to here rows are sent whole to every task


def signed(df: DataFrame, columns: Columns, weight: int) -> DataFrame:
    """The rows with a weight."""
    return df.selectExpr(*quoted(names(columns)), cast(WEIGHT, str(weight)))


def rest(stored: DataFrame, lost: DataFrame, columns: Columns, *, few: bool) -> DataFrame:
    """Stored rows (visible and hidden columns) without every copy of the lost ones."""
    identity = Identity(columns)
    keys = identity.of_stored(lost)
    rows = identity.matched(identity.of_stored(stored), keys, "left_anti", broadcast=few)
    return rows.select(*quoted(names(columns)))


def present(
    session: SparkSession,
    reading: Reading,
    wanted: DataFrame,
    columns: Columns,
    hidden: Columns,
    *,
    few: bool,
) -> DataFrame:
    """Every stored copy of the wanted rows, with its hidden columns: only those are looked up among
    the marks of deleted rows."""
    physical, identity = (*columns, *hidden), Identity(columns)
    keys = identity.of_values(wanted.select(*quoted(names(columns))))

    def among(rows: DataFrame) -> DataFrame:
        return identity.matched(identity.of_stored(rows), keys, "left_semi", broadcast=few)

    return frame(session, reading, physical, among=among).select(*quoted(names(physical)))


def distinct(df: DataFrame, columns: Columns) -> DataFrame:
    """Each row once, in the types in which rows are stored."""
    return typed(df, columns).distinct()


def netted(delta: DataFrame, chosen: Sequence[str]) -> DataFrame:
    """A delta over some columns, each row as often as it really came or went."""
    weight = WEIGHT.name
    total = F.expr(f"sum({weight}) AS {weight}")
    net = delta.groupBy(*quoted(chosen)).agg(total).filter(f"{weight} != 0")
    copies = f"array_repeat(CAST(signum({weight}) AS BIGINT), CAST(abs({weight}) AS INT))"
    return net.selectExpr(*quoted(chosen), f"explode({copies}) AS {weight}")


def change(plus: DataFrame | None, minus: DataFrame | None, columns: Columns) -> DataFrame:
    """What became of the stored rows, as one delta."""
    sides = [(plus, 1), (minus, -1)]
    return union([signed(side, columns, sign) for side, sign in sides if side is not None])


def counted(df: DataFrame, labels: Mapping[str, str]) -> tuple[DataFrame, int]:
    """The rows, computed once, and how many there are."""
    with translated(labels):
        kept = checkpoint(df)
        return kept, kept.count()
