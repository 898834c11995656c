"""Rows in the order of some columns, cut into files by ranges of them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from anabranch.names import quote


def in_ranges(rows: DataFrame, columns: Sequence[str], files: int) -> DataFrame:
    """Each file holds one range of the columns' values, sorted: few files hold any one value."""
    keys = [quote(name) for name in columns]
    parted = rows.repartitionByRange(files, *keys) if files > 1 else rows.coalesce(1)
    return parted.sortWithinPartitions(*keys)
