"""A table kept by the engine alone: the smallest stand-in for Iceberg that tests need."""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from anabranch.model import Column, Columns, Delta, Reading, Written
from anabranch.spark.scan import Among, delta_frame, frame
from anabranch.spark.session import Spark
from anabranch.spark.write import write

Bag = Counter[tuple[Any, ...]]


def numbered(*columns: Column) -> Columns:
    """Columns with field ids: visible ones from 1, hidden ones from 10001."""
    hidden = [column for column in columns if column.name.startswith("_ab_")]
    visible = [column for column in columns if column not in hidden]
    return (
        *(replace(column, field_id=1 + at) for at, column in enumerate(visible)),
        *(replace(column, field_id=10001 + at) for at, column in enumerate(hidden)),
    )


class Table:
    """Files, and marks on them."""

    def __init__(self, spark: Spark, root: Path, columns: Columns) -> None:
        self.spark, self.root, self.columns = spark, root, columns
        self.reading = Reading(())
        self.stages = 0
        self.last = Written()

    def stored(self, names: Sequence[str], among: Among | None = None) -> DataFrame:
        chosen = tuple(column for name in names for column in self.columns if column.name == name)
        return frame(self.spark.session, self.reading, chosen, positions=True, among=among)

    def whole(self) -> DataFrame:
        return self.stored([column.name for column in self.columns])

    def put(self, df: DataFrame, *, rewrite: bool = False) -> Written:
        self.stages += 1
        written = write(df, str(self.root / f"s{self.stages}"), self.columns, 1)
        if rewrite:
            self.reading = Reading((*written.keep, *written.add))
        else:
            self.reading = Reading(
                (*self.reading.files, *written.add), (*self.reading.skip, *written.remove)
            )
        self.last = written
        return written

    def bag(self, columns: Columns | None = None) -> Bag:
        return bag(frame(self.spark.session, self.reading, columns or self.columns))

    def net(self, columns: Columns | None = None) -> Bag:
        """The last change as weights; zeros left out."""
        plus = (Reading(self.last.add),) if self.last.add else ()
        minus = (Reading(self.last.remove),) if self.last.remove else ()
        rows = delta_frame(self.spark.session, Delta(plus, minus), columns or self.columns)
        return weights(rows.collect())


def weights(rows: Iterable[Sequence[Any]]) -> Bag:
    found: Bag = Counter()
    for *values, weight in rows:
        found[tuple(frozen(value) for value in values)] += weight
    return Counter({row: weight for row, weight in found.items() if weight})


def bag(df: DataFrame) -> Bag:
    return Counter(tuple(frozen(value) for value in row) for row in df.collect())


def frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return frozenset((key, frozen(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(frozen(item) for item in value)
    return value


def plan_of(df: DataFrame) -> str:
    """The physical plan; after an action on `df` itself, the one that was run."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        df.explain()
    return text.getvalue()
