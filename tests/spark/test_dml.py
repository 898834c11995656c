"""DELETE, UPDATE and MERGE against plain Python."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import DataError, UnknownName, UserError
from anabranch.model import Column
from anabranch.spark.dml import Assignments, delete, merge, update
from anabranch.spark.query import Inputs
from anabranch.spark.session import Spark
from tests.spark.stores import Table, numbered

COLUMNS = numbered(Column("id", "bigint", False), Column("op", "string"), Column("x", "int"))
ROWS = [(1, "a", 10), (2, "b", None), (3, None, 30), (3, None, 30)]
BOTH = pytest.mark.parametrize("rewrite", [False, True], ids=["mark", "rewrite"])


@dataclass(frozen=True)
class When:
    match: str
    action: str
    assignments: Assignments = ()
    condition: str | None = None
    star: bool = False


@pytest.fixture
def table(spark: Spark, tmp_path: Path) -> Table:
    table = Table(spark, tmp_path / "with space", COLUMNS)
    table.put(spark.session.createDataFrame(ROWS, "id bigint, op string, x int"))
    return table


def without(*rows: Any) -> Counter[Any]:
    return Counter(ROWS) - Counter(rows)


@BOTH
def test_delete_takes_rows_that_meet_the_condition(table: Table, rewrite: bool) -> None:
    rows = delete(table.whole(), COLUMNS, "t.x > 5 OR t.op = 'zz'", alias="t", rewrite=rewrite)
    table.put(rows, rewrite=rewrite)
    assert table.bag() == {(2, "b", None): 1}


def test_delete_without_condition_takes_all(table: Table) -> None:
    table.put(delete(table.whole(), COLUMNS, None, alias="t", rewrite=True), rewrite=True)
    assert not table.bag()


@BOTH
def test_delete_with_subquery(spark: Spark, table: Table, rewrite: bool) -> None:
    with Inputs(spark.session) as inputs:
        inputs.bind("v", spark.session.sql("SELECT 3 AS k UNION ALL SELECT 2"))
        condition = "id IN (SELECT k FROM v) AND EXISTS (SELECT 1 FROM v WHERE v.k = t.id)"
        rows = delete(table.whole(), COLUMNS, condition, alias="t", rewrite=rewrite)
        table.put(rows, rewrite=rewrite)
    assert table.bag() == {(1, "a", 10): 1}


@BOTH
def test_update(table: Table, rewrite: bool) -> None:
    sets = [("x", "x + id"), ("OP", "concat(op, '!')")]
    rows = update(table.whole(), COLUMNS, sets, "id < 3", alias="t", rewrite=rewrite)
    table.put(rows, rewrite=rewrite)
    assert table.bag() == Counter([(1, "a!", 11), (2, "b!", None), ROWS[2], ROWS[3]])
    assert len(table.net()) == 4


def test_update_leaves_equal_rows_alone(table: Table) -> None:
    rows = update(table.whole(), COLUMNS, [("x", "30")], "id >= 1", alias="t", rewrite=False)
    table.put(rows)
    assert table.net() == {ROWS[0]: -1, ROWS[1]: -1, (1, "a", 30): 1, (2, "b", 30): 1}


@BOTH
def test_update_with_scalar_subquery(spark: Spark, table: Table, rewrite: bool) -> None:
    with Inputs(spark.session) as inputs:
        inputs.bind("v", spark.session.sql("SELECT 1 AS k, 77 AS w"))
        sets = [("x", "(SELECT max(w) FROM v WHERE v.k = t.id)")]
        rows = update(table.whole(), COLUMNS, sets, "id = 1", alias="t", rewrite=rewrite)
        table.put(rows, rewrite=rewrite)
    assert table.bag() == without(ROWS[0]) + Counter([(1, "a", 77)])


def test_update_refuses_what_does_not_fit(table: Table) -> None:
    whole = table.whole()
    with pytest.raises(UserError, match='column "x" of shop.t is int and cannot take string'):
        update(whole, COLUMNS, [("x", "'5'")], None, alias="t", rewrite=False, table="shop.t")
    with pytest.raises(UnknownName, match='table shop.t has no column "y"'):
        update(whole, COLUMNS, [("y", "5")], None, alias="t", rewrite=False, table="shop.t")
    with pytest.raises(UserError, match='column "x" of shop.t is set twice'):
        sets = [("x", "5"), ("X", "6")]
        update(whole, COLUMNS, sets, None, alias="t", rewrite=False, table="shop.t")
    with pytest.raises(DataError, match='column "id" of shop.t must not be NULL'):
        rows = update(
            whole,
            COLUMNS,
            [("id", "NULLIF(id, 2)")],
            None,
            alias="t",
            rewrite=False,
            table="shop.t",
        )
        table.put(rows)
    with pytest.raises(DataError):
        rows = update(whole, COLUMNS, [("x", "3000000000")], None, alias="t", rewrite=False)
        table.put(rows)


SOURCE = "SELECT * FROM VALUES (1L, 'A', 100), (2L, 'B', 200), (9L, 'new', 900) AS s(id, op, x)"


def merged(
    spark: Spark, table: Table, rewrite: bool, clauses: list[When], source: str = SOURCE
) -> None:
    rows = merge(
        table.whole(),
        COLUMNS,
        spark.session.sql(source),
        "t.id = s.id",
        clauses,
        alias="t",
        source_alias="s",
        rewrite=rewrite,
        table="shop.t",
    )
    table.put(rows, rewrite=rewrite)


@BOTH
def test_merge_upserts(spark: Spark, table: Table, rewrite: bool) -> None:
    clauses = [
        When("matched", "delete", condition="s.op = 'B'"),
        When("matched", "update", [("x", "t.x + s.x")]),
        When("not_matched", "insert", [("id", "id"), ("x", "x")]),
    ]
    merged(spark, table, rewrite, clauses)
    assert table.bag() == Counter([(1, "a", 110), ROWS[2], ROWS[3], (9, None, 900)])


@BOTH
def test_merge_star(spark: Spark, table: Table, rewrite: bool) -> None:
    stars = [When("matched", "update", star=True), When("not_matched", "insert", star=True)]
    merged(spark, table, rewrite, stars)
    assert table.bag() == Counter([(1, "A", 100), (2, "B", 200), (9, "new", 900), ROWS[2], ROWS[3]])


@BOTH
def test_merge_not_matched_by_source(spark: Spark, table: Table, rewrite: bool) -> None:
    clauses = [
        When("not_matched_by_source", "update", [("op", "'gone'")], condition="x > 20"),
        When("not_matched", "insert", star=True, condition="x > 1000"),
    ]
    merged(spark, table, rewrite, clauses)
    assert table.bag() == Counter([ROWS[0], ROWS[1], (3, "gone", 30), (3, "gone", 30)])


@BOTH
def test_merge_refuses_two_sources_for_one_row(spark: Spark, table: Table, rewrite: bool) -> None:
    twice = "SELECT * FROM VALUES (1L, 'A', 100), (1L, 'B', 200) AS s(id, op, x)"
    with pytest.raises(DataError, match=r"a row of shop.t is matched by more than one source row"):
        merged(spark, table, rewrite, [When("matched", "update", star=True)], twice)
    one = [When("matched", "update", star=True, condition="s.op = 'B'")]
    merged(spark, table, rewrite, one, twice)
    assert table.bag() == without(ROWS[0]) + Counter([(1, "B", 200)])


@BOTH
def test_merge_deletes_once_whatever_the_source(spark: Spark, table: Table, rewrite: bool) -> None:
    twice = "SELECT * FROM VALUES (1L, 'A', 100), (1L, 'B', 200) AS s(id, op, x)"
    merged(spark, table, rewrite, [When("matched", "delete")], twice)
    assert table.bag() == without(ROWS[0])


@BOTH
def test_merge_matched_without_action_keeps_each_row_once(
    spark: Spark, table: Table, rewrite: bool
) -> None:
    twice = "SELECT * FROM VALUES (1L, 'A', 100), (1L, 'B', 200) AS s(id, op, x)"
    merged(spark, table, rewrite, [When("matched", "delete", condition="s.x > 1000")], twice)
    assert table.bag() == Counter(ROWS)


@BOTH
def test_merge_inserts_equal_source_rows_each(spark: Spark, table: Table, rewrite: bool) -> None:
    equal = "SELECT * FROM VALUES (9L, NULL, 1), (9L, NULL, 1), (1L, NULL, 1) AS s(id, op, x)"
    merged(spark, table, rewrite, [When("not_matched", "insert", star=True)], equal)
    assert table.bag() == Counter([*ROWS, (9, None, 1), (9, None, 1)])


def test_merge_star_needs_all_columns(spark: Spark, table: Table) -> None:
    with pytest.raises(UnknownName, match='the source has no column "op"'):
        merged(spark, table, False, [When("matched", "update", star=True)], "SELECT 1L id, 2 x")
