"""Scans read only where the keys of a change can lie; elsewhere they read all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.delta.maintenance import ByRows, Replace, maintenance
from anabranch.model import ColumnRanges, RangeSet
from anabranch.names import TableName
from anabranch.plan.exprs import column
from anabranch.plan.nodes import (
    Item,
    KeyFilter,
    Node,
    Parameter,
    Project,
    ReducedScan,
    Scan,
    UnionAll,
    Version,
)
from anabranch.plan.optimize import KEY_RULES, optimize
from anabranch.plan.rules.push_ranges import inside, push_ranges, ranges_of
from anabranch.plan.statistics import Statistics
from anabranch.plan.walk import walk
from tests.oracle.kept import World

WORLD = World({"a": "id INT, k INT, s TEXT", "b": "id INT, k INT, d DOUBLE", "c": "id BIGINT"})
A, B, C = (TableName.of(name) for name in "abc")
NEAR, FAR = RangeSet("integer", ((10, 19),)), RangeSet("integer", ((900, 999),), nulls=True)


def facts(values: dict[tuple[TableName, str], RangeSet] | None = None) -> Statistics:
    """What is known of the changed rows."""
    found = WORLD.statistics.tables
    return Statistics(
        {
            name: replace(
                found[name],
                changed={
                    column: v for (table, column), v in (values or {}).items() if table == name
                },
            )
            for name in found
        }
    )


def change(query: str, *changed: TableName) -> Node:
    plan = WORLD.lower(query, {}).plan
    assert plan is not None
    kept = maintenance(plan)
    assert isinstance(kept, ByRows)
    found = kept.delta(frozenset(changed))
    assert found is not None
    return optimize(found, KEY_RULES)


def boxes(plan: Node) -> dict[str, tuple[ColumnRanges, ...]]:
    return {
        f"{scan.table.name} {scan.version.value}": scan.ranges
        for scan in walk(plan)
        if isinstance(scan, Scan) and scan.version is not Version.DELTA
    }


CHAIN = "SELECT a.s, c.id FROM a JOIN b ON a.id = b.id JOIN c ON b.id = c.id"


def test_a_join_reads_where_the_keys_of_the_change_lie() -> None:
    known = facts({(A, "id"): NEAR})
    only = ((("id", NEAR),),)
    assert boxes(push_ranges(change(CHAIN, A), known)) == {"b after": only, "c after": only}


def test_a_change_of_which_nothing_is_known_narrows_nothing() -> None:
    assert boxes(push_ranges(change(CHAIN, A), facts())) == {"b after": (), "c after": ()}


@pytest.mark.parametrize("on", ["a.s = b.id", "a.id = b.d", "a.id + 1 = b.id", "a.id < b.id"])
def test_only_columns_of_the_same_kind_that_are_equal(on: str) -> None:
    plan = change(f"SELECT a.s FROM a JOIN b ON {on}", A)
    assert boxes(push_ranges(plan, facts({(A, "id"): NEAR}))) == {"b after": ()}


def test_a_number_between_two_that_compare_as_others_carries_nothing() -> None:
    """2⁵³ + 1 as DOUBLE equals 2⁵³: what equals a DOUBLE on both sides need not be equal."""
    query = "SELECT a.s FROM a JOIN b ON a.id = b.d JOIN c ON b.d = c.id"
    assert boxes(push_ranges(change(query, A), facts({(A, "id"): NEAR})))["c after"] == ()


def test_partners_of_rows_that_a_change_touches() -> None:
    query = "SELECT a.id FROM a WHERE NOT EXISTS (SELECT * FROM b WHERE b.id = a.id)"
    known = facts({(A, "id"): NEAR, (B, "id"): FAR})
    found = boxes(push_ranges(change(query, A, B), known))
    assert found and all(within and all(box for box in within) for within in found.values())


def test_groups_that_a_change_touches() -> None:
    plan = WORLD.lower("SELECT id, sum(k) AS n FROM a GROUP BY id HAVING sum(k) > 1", {}).plan
    assert plan is not None
    kept = maintenance(plan)
    assert isinstance(kept, Replace)
    known = facts({(A, "id"): FAR})
    touched = kept.touched(frozenset({A}))
    assert touched is not None
    key = kept.keys[0].name
    assert ranges_of(touched, known) == {key: FAR}
    again = optimize(kept.recompute(Parameter("keys", (key,))), KEY_RULES)
    assert boxes(push_ranges(again, known.given_that({key: FAR}))) == {"a after": ((("id", FAR),),)}


def test_a_look_reads_what_any_of_those_who_ask_can_want() -> None:
    keys = Scan(A, ("id", "k"), Version.DELTA)
    by = tuple((keys, ((column(name), name),)) for name in ("id", "k"))
    look = ReducedScan(Scan(B, ("id", "k"), Version.AFTER), by)
    both = push_ranges(look, facts({(A, "id"): NEAR, (A, "k"): FAR}))
    assert boxes(both) == {"b after": ((("id", NEAR),), (("k", FAR),))}
    assert boxes(push_ranges(look, facts({(A, "id"): NEAR}))) == {"b after": ()}


def test_a_look_that_several_ask_is_one_whatever_they_ask_for() -> None:
    keys = Scan(A, ("id", "k"), Version.DELTA)
    look = ReducedScan(Scan(B, ("id", "k"), Version.AFTER), ((keys, ((column("id"), "id"),)),))
    asked = [
        KeyFilter(Project(look, (Item(name, column(name)),)), keys, ((column(name), name),))
        for name in ("id", "k")
    ]
    both = UnionAll(tuple(Project(each, (Item("x", column(each.columns[0])),)) for each in asked))
    found = push_ranges(both, facts({(A, "id"): NEAR, (A, "k"): FAR}))
    assert len([part for part in walk(found) if isinstance(part, ReducedScan)]) == 1


def test_rows_in_one_of_the_boxes() -> None:
    days = RangeSet("date", ((-1, 0), (365, 365)), nulls=True)
    found = inside((((("id", NEAR),)), (("id", FAR), ("d", days))))
    assert found.text == (
        "((`id` BETWEEN 10 AND 19)) OR (((`id` BETWEEN 900 AND 999) OR (`id` IS NULL)) AND "
        "((`d` BETWEEN CAST('1969-12-31' AS DATE) AND CAST('1970-01-01' AS DATE)) OR "
        "(`d` BETWEEN CAST('1971-01-01' AS DATE) AND CAST('1971-01-01' AS DATE)) OR (`d` IS NULL)))"
    )


def test_few_ranges_that_hold_all_values() -> None:
    assert (RangeSet("integer", ((1, 3),)) | RangeSet("integer", ((4, 9), (20, 20)))).ranges == (
        (1, 9),
        (20, 20),
    )
    many = RangeSet("integer", ())
    for start in range(0, 1000, 10):
        many |= RangeSet("integer", ((start * start, start * start),))
    assert len(many.ranges) == 8
    assert all(many.share(n * n, n * n) == 1 for n in range(0, 1000, 10))
