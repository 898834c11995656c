"""Rows that stand in for a table: its columns in their types, NULL where none is given."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.errors import UnknownName, UserError
from anabranch.model import Columns
from anabranch.names import quote, shown
from anabranch.spark.types import parse_type


def mocked(rows: DataFrame, names: Sequence[str] | None, columns: Columns) -> DataFrame:
    """The rows as the table `columns` would give them; `names` are those of the rows' columns."""
    given = named(rows, names, columns)
    there = {name.lower(): name for name in given.columns}
    unknown_names(given.columns, columns)
    return given.select(
        *(
            (F.col(quote(there[key])) if (key := column.name.lower()) in there else F.lit(None))
            .cast(parse_type(column.type))
            .alias(column.name)
            for column in columns
        )
    )


def named(rows: DataFrame, names: Sequence[str] | None, columns: Columns) -> DataFrame:
    """The rows under the names given; bare VALUES stand for all columns, in order."""
    found = rows.columns
    if names is None and found == [f"col{at + 1}" for at in range(len(found))]:
        names = [column.name for column in columns]
    if names is None:
        return rows
    if len(names) != len(found):
        raise UserError(
            f"rows of {len(found)} values are given for {len(names)} columns: {', '.join(names)}",
            hint="name the columns that are given: (a, b) AS (VALUES …)",
        )
    return rows.toDF(*names)


def unknown_names(names: Sequence[str], columns: Columns) -> None:
    known = [column.name for column in columns]
    for name in names:
        if name.lower() not in (each.lower() for each in known):
            raise UnknownName(f"there is no column {shown(name)}", name=name, known=known)


def chosen(names: Sequence[str], columns: Columns) -> Columns:
    """The columns that are named, in the table's order."""
    lowered = {name.lower() for name in names}
    return tuple(column for column in columns if column.name.lower() in lowered)
