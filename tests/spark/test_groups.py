"""combine_groups and replace_groups against groups computed anew."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from anabranch.errors import InternalError
from anabranch.model import Column, Columns, Reading
from anabranch.spark.groups import Groups, State, combine_groups, replace_groups
from anabranch.spark.query import Inputs, run_sql
from anabranch.spark.scan import frame
from anabranch.spark.session import Spark
from anabranch.spark.types import WEIGHT, struct
from anabranch.spark.write import write
from tests.spark.stores import Table, numbered, plan_of

SOURCE = (Column("g", "string"), Column("x", "int"))
COLUMNS = numbered(
    Column("g", "string"),
    Column("total", "bigint"),
    Column("least", "int"),
    Column("_ab_n", "bigint"),
    Column("_ab_s0", "bigint"),
    Column("_ab_s1", "bigint"),
    Column("_ab_s2", "int"),
)
VISIBLE = COLUMNS[:3]
GROUPS = Groups(
    ("g",),
    (
        State("_ab_n", "bigint", "sum"),
        State("_ab_s0", "bigint", "sum"),
        State("_ab_s1", "bigint", "sum"),
        State("_ab_s2", "int", "min", "_ab_d2"),
    ),
    (("g", "g"), ("total", "CASE WHEN _ab_s1 > 0 THEN _ab_s0 END"), ("least", "_ab_s2")),
)
FULL = """
    SELECT g, sum(x) AS total, min(x) AS least, count(*) AS _ab_n,
           coalesce(sum(x), 0L) AS _ab_s0, count(x) AS _ab_s1, min(x) AS _ab_s2
    FROM src GROUP BY g
"""
CHANGE = """
    SELECT g, sum(_ab_w) AS _ab_n,
           coalesce(sum(x) FILTER (WHERE _ab_w > 0), 0L)
             - coalesce(sum(x) FILTER (WHERE _ab_w < 0), 0L) AS _ab_s0,
           count(x) FILTER (WHERE _ab_w > 0) - count(x) FILTER (WHERE _ab_w < 0) AS _ab_s1,
           min(x) FILTER (WHERE _ab_w > 0) AS _ab_s2, min(x) FILTER (WHERE _ab_w < 0) AS _ab_d2
    FROM delta GROUP BY g
"""


class World:
    """A source held in Python, and the table kept from it."""

    def __init__(self, spark: Spark, root: Path, rows: list[tuple[Any, ...]]) -> None:
        self.spark, self.rows = spark, list(rows)
        self.table = Table(spark, root, COLUMNS)
        self.table.put(self.query(FULL))

    def rows_frame(self, rows: list[tuple[Any, ...]], columns: Columns) -> DataFrame:
        return self.spark.session.createDataFrame(rows, struct(columns))

    def query(self, sql: str, **more: DataFrame) -> DataFrame:
        with Inputs(self.spark.session) as inputs:
            inputs.bind("src", self.rows_frame(self.rows, SOURCE))
            for name, df in more.items():
                inputs.bind(name, df)
            return run_sql(self.spark.session, sql)

    def change(self, inserted: list[tuple[Any, ...]], deleted: list[tuple[Any, ...]]) -> DataFrame:
        self.rows.extend(inserted)
        for row in deleted:
            self.rows.remove(row)
        delta = [(*row, 1) for row in inserted] + [(*row, -1) for row in deleted]
        return self.query(CHANGE, delta=self.rows_frame(delta, (*SOURCE, WEIGHT)))

    def rescan(self, keys: DataFrame) -> DataFrame:
        sql = FULL.replace("FROM src", "FROM src LEFT SEMI JOIN keys ON src.g <=> keys.g")
        return self.query(sql, keys=keys)

    def expected(self) -> Counter[tuple[Any, ...]]:
        values: dict[Any, list[Any]] = {}
        for g, x in self.rows:
            values.setdefault(g, []).append(x)
        known = {g: [x for x in xs if x is not None] for g, xs in values.items()}
        return Counter(
            (g, sum(xs) if xs else None, min(xs) if xs else None) for g, xs in known.items()
        )


def combined(world: World, change: DataFrame, rewrite: bool) -> None:
    rows = combine_groups(
        world.table.stored, change, COLUMNS, GROUPS, rewrite=rewrite, rescan=world.rescan
    )
    world.table.put(rows, rewrite=rewrite)


@pytest.mark.parametrize("rewrite", [False, True], ids=["mark", "rewrite"])
@pytest.mark.extended
def test_random_changes(spark: Spark, tmp_path: Path, rewrite: bool) -> None:
    source = random.Random(5)

    def row() -> tuple[Any, ...]:
        return (source.choice([None, "a", "b", "c", "d"]), source.choice([None, 1, 2, 3]))

    world = World(spark, tmp_path, [row() for _ in range(12)])
    for _ in range(4):
        inserted = [row() for _ in range(source.randint(0, 4))]
        present = world.rows + inserted
        deleted = source.sample(present, min(len(present), source.randint(0, 8)))
        before = world.expected()
        change = world.change(inserted, deleted)
        with spark.tuned(10, adaptive=True):
            combined(world, change, rewrite)
        assert world.table.bag(VISIBLE) == world.expected()
        signed = Counter(world.expected())
        signed.subtract(before)
        assert world.table.net(VISIBLE) == {row: w for row, w in signed.items() if w}


def test_state_changes_without_visible_change_are_stored(spark: Spark, tmp_path: Path) -> None:
    world = World(spark, tmp_path, [("a", 5)])
    combined(world, world.change([("a", None)], []), False)
    assert world.table.last.add
    assert world.table.net(VISIBLE) == {}
    combined(world, world.change([], [("a", 5)]), False)
    assert world.table.bag(VISIBLE) == {("a", None, None): 1}


def test_a_change_of_nothing_writes_nothing(spark: Spark, tmp_path: Path) -> None:
    world = World(spark, tmp_path, [("a", 5), ("b", 1)])
    combined(world, world.change([("a", 7)], [("a", 7)]), False)
    assert (world.table.last.add, world.table.last.remove) == ((), ())
    combined(world, world.change([("a", 7)], [("a", 7)]), True)
    assert (world.table.last.add, world.table.last.remove) == ((), ())
    assert world.table.bag(VISIBLE) == world.expected()


def test_fewer_rows_than_none_stops_the_job(spark: Spark, tmp_path: Path) -> None:
    world = World(spark, tmp_path, [("a", 5), ("zz", 1)])
    change = world.change([], [("zz", 1)])
    combined(world, change, False)
    with pytest.raises(InternalError, match="fewer rows than none"):
        combined(world, change, False)


def test_an_inserted_and_deleted_extremum_is_not_believed(spark: Spark, tmp_path: Path) -> None:
    world = World(spark, tmp_path, [("a", 5)])
    combined(world, world.change([("a", 1), ("b", 1), ("b", 3)], [("a", 1), ("b", 1)]), False)
    assert world.table.bag(VISIBLE) == {("a", 5, 5): 1, ("b", 3, 3): 1}


@pytest.mark.parametrize("deleted", [5, 6], ids=["extremum", "other"])
def test_the_source_is_read_only_if_an_extremum_went(
    spark: Spark, tmp_path: Path, deleted: int
) -> None:
    """Judged by the plan that was run in the end, which names the columns of every scan."""
    world = World(spark, tmp_path, [("a", 5), ("a", 6)])
    change = world.change([], [("a", deleted)])
    columns = numbered(*SOURCE, Column("only_in_source", "int"))
    df = world.rows_frame(world.rows, SOURCE).selectExpr("*", "1 AS only_in_source")
    files = write(df, str(tmp_path / "source"), columns, 1).add
    sql = FULL.replace(
        "FROM src",
        "FROM stored_src AS src LEFT SEMI JOIN keys ON src.g <=> keys.g WHERE only_in_source = 1",
    )

    def rescan(keys: DataFrame) -> DataFrame:
        return world.query(sql, keys=keys, stored_src=frame(spark.session, Reading(files), columns))

    with spark.tuned(10, adaptive=True):
        rows = combine_groups(
            world.table.stored, change, COLUMNS, GROUPS, rewrite=False, rescan=rescan
        )
        rows.collect()
        run = plan_of(rows).split("== Initial Plan ==")[0]
    assert "isFinalPlan=true" in run
    assert ("only_in_source" in run) is (deleted == 5)


GLOBAL_COLUMNS = numbered(
    Column("n", "bigint"),
    Column("total", "bigint"),
    Column("_ab_n", "bigint"),
    Column("_ab_s0", "bigint"),
)
GLOBAL = Groups(
    (),
    (State("_ab_n", "bigint", "sum"), State("_ab_s0", "bigint", "sum")),
    (("n", "_ab_n"), ("total", "CASE WHEN _ab_n > 0 THEN _ab_s0 END")),
)


@pytest.mark.parametrize("rewrite", [False, True], ids=["mark", "rewrite"])
def test_a_global_aggregate_never_disappears(spark: Spark, tmp_path: Path, rewrite: bool) -> None:
    table = Table(spark, tmp_path, GLOBAL_COLUMNS)
    session = spark.session
    table.put(session.sql("SELECT 2L AS n, 9L AS total, 2L AS _ab_n, 9L AS _ab_s0"))

    def apply(n: int, total: int) -> dict[Any, int]:
        change = session.createDataFrame([(n, total)], "_ab_n bigint, _ab_s0 bigint")
        rows = combine_groups(table.stored, change, GLOBAL_COLUMNS, GLOBAL, rewrite=rewrite)
        table.put(rows, rewrite=rewrite)
        return table.bag(GLOBAL_COLUMNS[:2])

    assert apply(-2, -9) == {(0, None): 1}
    assert apply(0, 0) == {(0, None): 1}
    assert apply(1, 4) == {(1, 4): 1}


@pytest.mark.parametrize("rewrite", [False, True], ids=["mark", "rewrite"])
def test_replace_takes_only_the_difference(spark: Spark, tmp_path: Path, rewrite: bool) -> None:
    columns = numbered(Column("g", "string"), Column("n", "bigint"), Column("_ab_k0", "int"))
    table = Table(spark, tmp_path, columns)
    session = spark.session
    text = "g string, n bigint, _ab_k0 int"
    old = [("a", 1, 1), ("b", 1, None), ("c", 1, 3), ("d", 4, 4)]
    table.put(session.createDataFrame(old, text))
    touched = session.createDataFrame([(1,), (None,), (3,), (5,)], "_ab_k0 int")
    new = [("a", 1, 1), ("b", 2, None), ("e", 9, 5)]
    rows = replace_groups(
        table.stored,
        touched,
        lambda keys: (
            session.createDataFrame(new, text).join(keys, "_ab_k0", "left_semi")
            if False
            else session.createDataFrame(new, text)
        ),
        columns,
        ("_ab_k0",),
        rewrite=rewrite,
    )
    table.put(rows, rewrite=rewrite)
    assert table.bag() == Counter([*new, ("d", 4, 4)])
    assert table.net() == {
        ("b", 1, None): -1, ("b", 2, None): 1, ("c", 1, 3): -1, ("e", 9, 5): 1
    }  # fmt: skip
