"""Fingerprints: what changes the meaning of a query changes them, and nothing else does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from anabranch.model import Column, Columns
from anabranch.names import TableName
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import Node, Scan
from anabranch.refresh.fingerprint import Spelling, fingerprint, texts
from anabranch.sql.lower.query import lower

A, B, V = TableName.of("a"), TableName.of("b"), TableName.of("v")
Tables = Mapping[TableName, Columns]


def columns(*named: str) -> Columns:
    """Columns `name type`, with ids from 1 up."""
    pairs = [each.split(" ") for each in named]
    return tuple(Column(n, t, field_id=at) for at, (n, t) in enumerate(pairs, 1))


TABLES: Tables = {
    A: columns("id int", "k int", "v int", "s struct<x:int>"),
    B: columns("id int", "k int", "w int"),
}


def mark(query: str, tables: Tables = TABLES, view: str | None = None) -> str:
    def types(node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
        return ["int" for _ in exprs]

    views = {V: view} if view is not None else {}
    found = lower(query, tables, views, types)
    assert found.plan is not None, found.obstacles
    return fingerprint(found.plan, tuple(Column(n, "int") for n in found.output), (), tables)


def altered(table: TableName, column: str, **changes: object) -> Tables:
    return {
        **TABLES,
        table: tuple(
            replace(each, **changes) if each.name == column else each  # type: ignore[arg-type]
            for each in TABLES[table]
        ),
    }


def without(table: TableName, column: str) -> Tables:
    return {**TABLES, table: tuple(each for each in TABLES[table] if each.name != column)}


def added(table: TableName, column: Column) -> Tables:
    return {**TABLES, table: (*TABLES[table], column)}


READS_K_AND_V = [
    "SELECT k, v FROM a",
    "SELECT k, sum(v) AS s FROM a GROUP BY k",
    "SELECT DISTINCT k FROM a WHERE v > 1",
    "SELECT a.v, b.k FROM a JOIN b ON a.k = b.k",
    "SELECT v FROM a WHERE k = 1 UNION ALL SELECT k FROM a",
    "SELECT count(*) AS n FROM a JOIN b ON a.k = b.k AND a.v = b.k",
    "SELECT b.k FROM b LEFT JOIN a ON a.k = b.k AND a.v > 1",
    "SELECT k FROM b WHERE EXISTS (SELECT 1 FROM a WHERE a.k = b.k AND a.v > 1)",
    "SELECT k, sum(v) OVER (PARTITION BY k) AS s FROM a",
]


@pytest.mark.parametrize("query", READS_K_AND_V)
def test_only_columns_that_are_read_matter(query: str) -> None:
    was = mark(query)
    for tables in (
        added(A, Column("new", "int", field_id=9)),
        without(A, "id"),
        without(A, "s"),
        altered(A, "id", name="other"),
        altered(A, "id", type="bigint"),
        altered(B, "w", field_id=9),
        altered(A, "k", nullable=False),
        {name: tuple(reversed(found)) for name, found in TABLES.items()},
    ):
        assert mark(query, tables) == was
    for tables in (
        altered(A, "k", type="bigint"),
        altered(A, "v", field_id=9),
        altered(A, "v", nested={"element": 9}),
    ):
        assert mark(query, tables) != was


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM a",
        "SELECT count(*) AS n FROM a WHERE v > 1",
        "SELECT w FROM b, a",
        "SELECT w FROM b LEFT JOIN a ON w > 1",
        "SELECT w FROM b WHERE EXISTS (SELECT 1 FROM a)",
    ],
)
def test_where_only_rows_are_counted_no_column_matters(query: str) -> None:
    assert mark(query, without(A, "id")) == mark(query)


def test_layout_does_not_matter_and_meaning_does() -> None:
    was = mark("SELECT k, v FROM a WHERE v > 1")
    assert mark("SELECT k, v /* both */\nFROM a\nWHERE v > 1") == was
    for other in (
        "SELECT k, v FROM a WHERE v > 2",
        "SELECT v, k FROM a WHERE v > 1",
        "SELECT k, v AS w FROM a WHERE v > 1",
        "SELECT k, k AS v FROM a WHERE v > 1",
        "SELECT k, w AS v FROM b WHERE w > 1",
        "SELECT DISTINCT k, v FROM a WHERE v > 1",
        "SELECT k, v FROM a WHERE v > 1 UNION ALL SELECT k, v FROM a WHERE v > 1",
    ):
        assert mark(other) != was, other


def test_literals_keep_their_case() -> None:
    assert mark("SELECT k FROM a WHERE 'EU' = 'eu'") != mark("SELECT k FROM a WHERE 'eu' = 'eu'")


def test_a_view_matters_as_far_as_it_is_read() -> None:
    query = "SELECT k FROM v"
    was = mark(query, view="SELECT k FROM a WHERE v > 1")
    assert mark(query, view="SELECT k, id, v -- more\nFROM a WHERE v > 1") == was
    assert mark(query, view="SELECT k FROM a WHERE v > 2") != was
    assert mark(query, view="SELECT id AS k FROM a WHERE v > 1") != was


def test_a_common_name_changes_a_natural_join() -> None:
    query = "SELECT k, w FROM a NATURAL JOIN b"
    assert mark(query, added(B, Column("v", "int", field_id=9))) != mark(query)
    assert mark(query, added(B, Column("new", "int", field_id=9))) == mark(query)


def test_output_and_hidden_columns_matter() -> None:
    plan, out = Scan(A, ("k",)), columns("k int")
    was = fingerprint(plan, out, (), TABLES)
    assert fingerprint(plan, columns("k bigint"), (), TABLES) != was
    assert fingerprint(plan, out, columns("_ab_h1 bigint"), TABLES) != was


def test_without_a_plan_the_texts_and_all_columns_matter() -> None:
    was = texts("SELECT 1", TABLES, {V: "SELECT 2"})
    assert texts(" SELECT 1\n", TABLES, {V: "SELECT 2 "}) == was
    for other in (
        texts("SELECT 2", TABLES, {V: "SELECT 2"}),
        texts("SELECT 1", TABLES, {V: "SELECT 3"}),
        texts("SELECT 1", without(A, "id"), {V: "SELECT 2"}),
    ):
        assert other != was


@dataclass(frozen=True)
class Twice(Node):
    """An operator that fingerprints know nothing of."""

    input: Node
    times: int = 2
    beside: Node | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


def test_an_unknown_operator_is_spelled_whole() -> None:
    spelling, scan = Spelling(TABLES), Scan(A, ("id", "k"))
    was = spelling.plan(Twice(scan))
    assert was[1] == {}, "what is as always is left out"
    for other in (
        Twice(scan, 3),
        Twice(Scan(A, ("k",))),
        Twice(scan, beside=Scan(B, ("k",))),
    ):
        assert spelling.plan(other) != was
    one, two = (Twice(scan, beside=Twice(Scan(B, (name,)))) for name in ("k", "w"))
    assert spelling.plan(one) != spelling.plan(two)
