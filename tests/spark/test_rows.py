"""apply_rows: stored + delta, as bags."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import InternalError
from anabranch.model import Column
from anabranch.spark.identity import HASHES
from anabranch.spark.merge import add_all, apply_rows, replace_all
from anabranch.spark.scan import empty
from anabranch.spark.session import Spark
from anabranch.spark.types import WEIGHT, struct
from tests.spark.stores import Table, bag, frozen, numbered, plan_of

ALL = numbered(Column("a", "int"), Column("b", "string"), Column("op", "double"), *HASHES)
VISIBLE = ALL[:3]
ZEROS = numbered(Column("a", "int"), Column("d", "double"), Column("l", "array<double>"))
NESTED = numbered(Column("a", "int"), Column("m", "map<string,int>"), Column("l", "array<int>"))


def frame_of(spark: Spark, rows: list[tuple[Any, ...]], columns: Any) -> Any:
    return spark.session.createDataFrame(rows, struct(columns))


def random_row(source: random.Random) -> tuple[Any, ...]:
    return (
        source.choice([None, 1, 2]),
        source.choice([None, "x", "y"]),
        source.choice([None, 0.0, -0.0, 1.5]),
    )


@pytest.mark.parametrize("rewrite", [False, True], ids=["mark", "rewrite"])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.extended
def test_random_deltas(spark: Spark, tmp_path: Path, rewrite: bool, seed: int) -> None:
    source = random.Random(seed)
    table = Table(spark, tmp_path, ALL)
    start = [random_row(source) for _ in range(40)]
    table.put(add_all(frame_of(spark, start, VISIBLE), VISIBLE, hashed=True))
    expected = Counter(start)
    assert table.bag(VISIBLE) == expected
    for _ in range(3):
        inserted = [random_row(source) for _ in range(source.randint(0, 10))]
        present = list((expected + Counter(inserted)).elements())
        deleted = source.sample(present, min(len(present), source.randint(0, 12)))
        delta = [(*row, 1) for row in inserted] + [(*row, -1) for row in deleted]
        source.shuffle(delta)
        with spark.tuned(len(delta)):
            change = frame_of(spark, delta, (*VISIBLE, WEIGHT))
            rows = apply_rows(table.stored, change, VISIBLE, rewrite=rewrite)
            table.put(rows, rewrite=rewrite)
        before, expected = expected, expected + Counter(inserted) - Counter(deleted)
        assert table.bag(VISIBLE) == expected
        signed = Counter(expected)
        signed.subtract(before)
        assert table.net(VISIBLE) == {row: weight for row, weight in signed.items() if weight}


@pytest.mark.parametrize("rewrite", [False, True], ids=["mark", "rewrite"])
def test_nested_columns_are_compared(spark: Spark, tmp_path: Path, rewrite: bool) -> None:
    table = Table(spark, tmp_path, NESTED)
    rows = [(1, {"x": 1, "y": 2}, [1, None]), (1, {"x": 1, "y": 2}, [1, None]), (2, None, None)]
    table.put(add_all(frame_of(spark, rows, NESTED), NESTED, hashed=True))
    delta = [(1, {"y": 2, "x": 1}, [1, None], -1), (2, None, None, -1), (3, {}, [], 1)]
    change = frame_of(spark, delta, (*NESTED, WEIGHT))
    table.put(apply_rows(table.stored, change, NESTED, rewrite=rewrite), rewrite=rewrite)
    assert table.bag() == Counter(frozen(row) for row in (rows[0], (3, {}, [])))


@pytest.mark.parametrize("rewrite", [False, True], ids=["mark", "rewrite"])
def test_a_row_that_is_not_there_stops_the_job(spark: Spark, tmp_path: Path, rewrite: bool) -> None:
    table = Table(spark, tmp_path, ALL)
    row = (1, "x", 1.0)
    table.put(add_all(frame_of(spark, [row], VISIBLE), VISIBLE, hashed=True))
    for delta in ([(*row, -1), (*row, -1)], [(2, "x", 1.0, -1)]):
        change = frame_of(spark, delta, (*VISIBLE, WEIGHT))
        with pytest.raises(InternalError, match="more equal rows"):
            table.put(apply_rows(table.stored, change, VISIBLE, rewrite=rewrite))


def test_a_delta_that_cancels_writes_nothing(spark: Spark, tmp_path: Path) -> None:
    table = Table(spark, tmp_path, ALL)
    table.put(add_all(frame_of(spark, [(1, "x", 1.0)], VISIBLE), VISIBLE, hashed=True))
    delta = [(1, "x", 1.0, 1), (1, "x", 1.0, -1), (7, None, None, -1), (7, None, None, 1)]
    change = frame_of(spark, delta, (*VISIBLE, WEIGHT))
    written = table.put(apply_rows(table.stored, change, VISIBLE, rewrite=False))
    assert (written.add, written.remove) == ((), ())


def test_an_empty_table_takes_a_delta(spark: Spark, tmp_path: Path) -> None:
    table = Table(spark, tmp_path, ALL)
    change = frame_of(spark, [(1, "x", 1.0, 1), (1, "x", 1.0, 1)], (*VISIBLE, WEIGHT))
    table.put(apply_rows(table.stored, change, VISIBLE, rewrite=False))
    assert table.bag(VISIBLE) == {(1, "x", 1.0): 2}


def test_one_action_and_one_reading_of_the_delta(spark: Spark, tmp_path: Path) -> None:
    """Of columns whose equal values are the same; for others the delta is looked at once more."""
    plain = VISIBLE[:2]
    table = Table(spark, tmp_path, (*plain, *ALL[len(VISIBLE) :]))
    table.put(add_all(frame_of(spark, [(1, "x")], plain), plain, hashed=True))
    change = frame_of(spark, [(1, "x", -1)], (*plain, WEIGHT))
    before = spark.jobs
    with spark.tuned(1):
        rows = apply_rows(table.stored, change, plain, rewrite=False)
        assert plan_of(rows).count("ReusedExchange") >= 1
        table.put(rows)
    assert spark.jobs == before + 1


def test_replace_all_writes_only_the_difference(spark: Spark, tmp_path: Path) -> None:
    table = Table(spark, tmp_path, VISIBLE)
    old = [(1, "x", 1.0)] * 3 + [(2, None, None)]
    new = [(1, "x", 1.0)] * 2 + [(2, None, None)] * 2 + [(3, "z", None)]
    table.put(frame_of(spark, old, VISIBLE))
    for rewrite in (False, True):
        table.put(
            replace_all(table.stored, frame_of(spark, new, VISIBLE), VISIBLE, rewrite=rewrite),
            rewrite=rewrite,
        )
        assert table.bag() == Counter(new)
    assert (table.last.add, table.last.remove) == ((), ())


def test_hashes_tell_nulls_apart(spark: Spark) -> None:
    columns = numbered(Column("a", "int"), Column("b", "int"))
    rows = [(None, 5), (5, None), (None, None), (5, 5)]
    hashes = add_all(frame_of(spark, rows, columns), columns, hashed=True).select(
        "_ab_h1", "_ab_h2"
    )
    assert len(bag(hashes)) == len(rows)


def test_positive_and_negative_zero_are_one_value(spark: Spark) -> None:
    columns = numbered(Column("a", "double"), Column("b", "float"))
    rows = [(0.0, -0.0), (-0.0, 0.0)]
    hashes = add_all(frame_of(spark, rows, columns), columns, hashed=True).select(
        "_ab_h1", "_ab_h2"
    )
    assert len(bag(hashes)) == 1


@pytest.mark.parametrize("rewrite", [False, True], ids=["mark", "rewrite"])
@pytest.mark.extended
def test_a_row_that_goes_is_the_same_not_only_equal(
    spark: Spark, tmp_path: Path, rewrite: bool
) -> None:
    """0.0 equals -0.0, but their rows are told apart."""
    plain, minus = (1, 0.0, [0.0]), (1, -0.0, [-0.0])
    for number, columns in enumerate((ZEROS, ZEROS[:2])):
        width = len(columns)
        hidden = numbered(*columns, *HASHES) if width == 2 else columns
        table = Table(spark, tmp_path / str(number), hidden)
        start = [row[:width] for row in (plain, minus, plain)]
        table.put(add_all(frame_of(spark, start, columns), columns, hashed=True))
        windows = [
            ([(minus, -1), (plain, 1)], [plain] * 3),
            ([(plain, -1), (plain, -1), (minus, 1)], [plain, minus]),
            ([(minus, -1), (minus, -1)], []),  # one is there; else what is equal goes
        ]
        for delta, expected in windows:
            lines = [(*row[:width], weight) for row, weight in delta]
            change = frame_of(spark, lines, (*columns, WEIGHT))
            rows = apply_rows(table.stored, change, columns, rewrite=rewrite)
            table.put(rows, rewrite=rewrite)
            found = table.stored([column.name for column in columns]).drop("_ab_file", "_ab_pos")
            told = Counter(repr(tuple(row)) for row in found.collect())
            assert told == Counter(repr(row[:width]) for row in expected)


def test_an_empty_delta_frame_has_the_right_columns(spark: Spark) -> None:
    assert empty(spark.session, (*VISIBLE, WEIGHT)).columns == ["a", "b", "op", "_ab_w"]
