"""Queries over frames: names bound to views for the time of one statement."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

from anabranch.model import Columns
from anabranch.names import quote
from anabranch.spark.errors import translated
from anabranch.spark.private import is_deterministic
from anabranch.spark.scan import empty
from anabranch.spark.types import type_text

T = TypeVar("T")


class Inputs:
    """Temporary views that are gone at the end of the block.

    A frame made inside stays usable after it: names are resolved when a query is analysed.
    """

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.names: list[str] = []
        self.labels: dict[str, str] = {}  # view name -> the name people know

    def add(self, df: DataFrame, label: str) -> str:
        """Bind a frame under a new name that no other statement uses."""
        name = f"_ab_{uuid.uuid4().hex}"
        self.labels[name] = label
        self.bind(name, df)
        return name

    def keep(self, df: DataFrame, label: str) -> str:
        """Bind a frame whose rows are computed once, when they are first needed.

        A checkpoint also ends the plan: what is built on it is planned without what lies below.
        """
        with translated(self.labels):
            return self.add(checkpoint(df), label)

    def bind(self, name: str, df: DataFrame) -> None:
        self.names.append(name)
        df.createOrReplaceTempView(quote(name) if name != name.strip("`") else name)

    def __enter__(self) -> Inputs:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in self.names:
            self.session.catalog.dropTempView(name)
        self.names.clear()


def run_sql(session: SparkSession, sql: str, labels: Mapping[str, str] | None = None) -> DataFrame:
    """A query's frame, analysed but not run; `labels` maps view names to names people know."""
    with translated(labels):
        found = session.sql(sql)
        _ = found.schema  # a Connect session analyses only when asked
        return found


def settled(df: DataFrame) -> DataFrame:
    """The frame itself, or its rows computed once if a second look could find others."""
    with translated():
        if is_deterministic(df):
            return df
        return checkpoint(df, eager=True)


def checkpoint(df: DataFrame, *, eager: bool = False) -> DataFrame:
    """The rows, computed once.

    They are kept under other names: what Spark remembers to hold for the columns of kept rows may
    speak of columns that are gone, on which a union of them breaks ("key not found").  Behind a new
    name it is forgotten.
    """
    names = df.columns
    aside = df.toDF(*(f"_ab_z{at}" for at in range(len(names))))
    return aside.localCheckpoint(eager=eager).toDF(*names)


def view_names(tables: Iterable[T]) -> dict[T, str]:
    """A name for each that nobody else uses: views belong to a session, threads share it."""
    return {table: f"_ab_{uuid.uuid4().hex}" for table in tables}


def types_of(
    session: SparkSession,
    sql: str,
    views: Mapping[str, Columns],
    labels: Mapping[str, str] | None = None,
) -> list[str]:
    """The types of a query's columns; `void` where there is nothing but NULL."""
    with Inputs(session) as inputs:
        for name, columns in views.items():
            inputs.bind(name, empty(session, columns))
        return [type_text(field.dataType) for field in run_sql(session, sql, labels).schema]
