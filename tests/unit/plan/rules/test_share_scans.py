"""Looks: what is asked of a large table in several places is read once, and means the same."""

from __future__ import annotations

import pytest

from anabranch.delta.maintenance import maintenance
from anabranch.names import TableName
from anabranch.plan.exprs import Expr, column
from anabranch.plan.nodes import (
    Filter,
    Generate,
    Join,
    KeyFilter,
    Node,
    Parameter,
    ReducedScan,
    Scan,
    Version,
)
from anabranch.plan.optimize import KEY_RULES, SHARE_RULES, optimize
from anabranch.plan.statistics import NOTHING, Statistics, TableStatistics
from anabranch.plan.walk import walk
from tests.oracle.kept import World

WORLD = World({"a": "id INT, k INT, v INT", "b": "id INT, k INT, w DOUBLE", "c": "id INT, k INT"})
A, B, C = (TableName.of(name) for name in "abc")
ROWS = {A: 3, B: 2, C: 1}


def share_scans(plan: Node, statistics: Statistics) -> Node:
    return optimize(plan, SHARE_RULES, statistics)


def larges(*tables: TableName) -> Statistics:
    return Statistics(
        {
            table: TableStatistics(
                ROWS[table],
                same=frozenset(each.name for each in WORLD.columns[table] if each.type != "double"),
            )
            for table in tables
        },
        large=1,
    )


def change(query: str, *changed: TableName) -> Node:
    plan = WORLD.lower(query, {}).plan
    assert plan is not None
    found = maintenance(plan)
    node = found.delta(frozenset(changed)) if hasattr(found, "delta") else None
    assert node is not None
    return optimize(node, KEY_RULES)


def reads(plan: Node) -> list[str]:
    """The scans that are no deltas; what is in a look, or else shared, once."""
    scans = [node for node in walk(plan) if isinstance(node, Scan)]
    return sorted(
        f"{scan.table.name} {scan.version.value}"
        for scan in scans
        if scan.version is not Version.DELTA
    )


CHAIN = "SELECT a.v, c.id FROM a JOIN b ON a.id = b.id JOIN c ON b.k = c.k"
EXISTS = "SELECT a.id FROM a WHERE EXISTS (SELECT * FROM b WHERE b.k = a.k AND b.id > 0)"
WITHIN = "SELECT a.id, g.n FROM a JOIN (SELECT k, sum(v) AS n FROM a GROUP BY k) g ON a.k = g.k"


def test_a_small_table_is_read_where_it_is_asked_for() -> None:
    plan = change(CHAIN, A, B, C)
    assert share_scans(plan, NOTHING) is plan


@pytest.mark.parametrize(
    ("query", "changed", "large", "expected"),
    [
        (CHAIN, (A, B, C), (A, B, C), ["a after", "b after", "c after"]),
        (CHAIN, (A, B, C), (B,), ["a before", "b after", "c after"]),
        (CHAIN, (A,), (A, B, C), ["b after", "c after"]),
        (EXISTS, (A, B), (A, B), ["a before", "b after"]),
        (WITHIN, (A,), (A,), ["a after", "a after"]),
    ],
)
def test_what_is_read(
    query: str, changed: tuple[TableName, ...], large: tuple[TableName, ...], expected: list[str]
) -> None:
    assert reads(share_scans(change(query, *changed), larges(*large))) == expected


def test_keys_over_other_columns_are_other_conditions_of_the_same_look() -> None:
    plan = share_scans(change(CHAIN, A, B, C), larges(B))
    (look,) = {node for node in walk(plan) if isinstance(node, ReducedScan)}
    assert sorted(on[0][0].readable for _, on in look.by) == ["id", "k"]


def test_a_condition_that_all_have_is_part_of_the_look() -> None:
    plan = share_scans(change(EXISTS, A, B), larges(B))
    (look,) = {node for node in walk(plan) if isinstance(node, ReducedScan)}
    assert isinstance(look.input, Filter)
    assert "id > 0" in look.input.condition.readable


def test_a_table_that_is_asked_once_is_not_looked_at() -> None:
    plan = change(CHAIN, A)
    assert share_scans(plan, larges(A, B, C)) is plan


def test_before_comes_from_after_as_signed_rows_in_a_join_and_as_counted_rows_elsewhere() -> None:
    join = share_scans(change(CHAIN, A, B, C), larges(A, B, C))
    assert not any(isinstance(node, Generate) for node in walk(join))
    assert any(
        isinstance(node, Generate) for node in walk(share_scans(change(EXISTS, A, B), larges(B)))
    )


def test_rows_that_cannot_be_counted_are_read_before_the_change() -> None:
    query = "SELECT a.id, g.n FROM a JOIN (SELECT k, max(w) AS n FROM b GROUP BY k) g ON a.k = g.k"
    assert reads(share_scans(change(query, A, B), larges(B))) == [
        "a before", "b after", "b before"
    ]  # fmt: skip


def test_keys_that_come_from_a_look_need_another_one() -> None:
    scan = Scan(A, ("id", "k"), Version.AFTER)
    first = KeyFilter(scan, Parameter("keys", ("x",)), ((column("id"), "x"),))
    second = KeyFilter(scan, first, ((column("k"), "id"),))
    plan = share_scans(second, larges(A))
    assert len({node for node in walk(plan) if isinstance(node, ReducedScan)}) == 2


def test_a_small_table_says_which_rows_of_a_large_one_are_met() -> None:
    query = """SELECT x.id, g.n FROM a x JOIN c ON x.k = c.k AND c.id > 5 LEFT JOIN
        (SELECT b.k, max(b.id) AS n FROM b GROUP BY b.k) g ON g.k = c.k"""
    plan = share_scans(change(query, A, B, C), larges(A))
    keys = {keys for node in walk(plan) if isinstance(node, ReducedScan) for keys, _ in node.by}
    narrow = {
        node.condition
        for each in keys
        if any(isinstance(node, KeyFilter) for node in walk(each))
        for node in walk(each)
        if isinstance(node, Filter)
    }
    assert Expr("`id` > 5") in narrow


def test_a_join_without_equalities_reads_all() -> None:
    plan = change("SELECT a.id FROM a JOIN b ON a.id < b.id", A, B)
    assert not any(isinstance(node, ReducedScan) for node in walk(share_scans(plan, larges(A, B))))
    assert any(isinstance(node, Join) for node in walk(plan))


def test_a_condition_is_asked_of_the_table_it_is_about() -> None:
    plan = share_scans(
        change("SELECT a.v FROM a JOIN b ON a.id = b.id WHERE b.k = 3", A, B), larges(A)
    )
    assert Expr("`k` = 3") in {node.condition for node in walk(plan) if isinstance(node, Filter)}
