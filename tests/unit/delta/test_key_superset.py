"""Keys that are found without all that their rows are joined with."""

from __future__ import annotations

import pytest

from anabranch.delta.key_superset import key_superset
from anabranch.delta.touched import keys_of
from anabranch.names import TableName
from anabranch.plan.exprs import Expr, column
from anabranch.plan.nodes import Filter, Item, Join, Node, Project, Scan, Version

ITEMS = Scan(TableName.of("items"), ("i_part", "i_order", "price"), Version.BEFORE)
ORDERS = Scan(TableName.of("orders"), ("o_order", "o_who"), Version.BEFORE)
PARTS = Scan(TableName.of("parts"), ("p_part", "brand"), Version.AFTER)
BRANDS = Scan(TableName.of("brands"), ("b_brand",), Version.AFTER)
SOME = Filter(PARTS, Expr("`brand` = 'x'"))
BY_PART = Expr("`p_part` = `i_part`")
BY_ORDER = Expr("`o_order` = `i_order`")
BY_BRAND = Expr("`brand` = `b_brand`")


def both(*conditions: Expr) -> Expr:
    return Expr(" AND ".join(each.text for each in conditions))


@pytest.mark.parametrize(
    ("node", "key", "expected"),
    [
        (Join((ITEMS, SOME), BY_PART), "p_part", SOME),
        (
            Filter(Join((ITEMS, PARTS), BY_PART), both(Expr("`brand` = 'x'"), Expr("`price` > 1"))),
            "p_part",
            SOME,
        ),
        # what did not change and is tied to the keys stays
        (
            Join((ITEMS, ORDERS, SOME), both(BY_PART, BY_ORDER)),
            "i_order",
            Join((ITEMS, SOME), BY_PART),
        ),
        (
            Join((ORDERS, ITEMS, SOME, BRANDS), both(BY_ORDER, BY_PART, BY_BRAND)),
            "i_order",
            Join((ITEMS, SOME, BRANDS), both(BY_PART, BY_BRAND)),
        ),
        # brands would not be tied to anything
        (Join((ORDERS, ITEMS, BRANDS), BY_ORDER), "o_order", ORDERS),
    ],
)
def test_inputs_that_change_are_left_out(node: Node, key: str, expected: Node) -> None:
    assert key_superset(node, [column(key)]) == keys_of(expected, [column(key)])


@pytest.mark.parametrize(
    ("node", "key"),
    [
        (ITEMS, "`i_order`"),
        (Join((SOME, BRANDS), BY_BRAND), "`p_part`"),  # nothing is gained
        (Join((ITEMS, SOME), BY_PART), "`p_part` + 1"),  # it might fail for rows that do not meet
        (Join((ITEMS, SOME), BY_PART), "`i_order`"),
    ],
)
def test_others_are_as_they_were(node: Node, key: str) -> None:
    assert key_superset(node, [Expr(key)]) == keys_of(node, [Expr(key)])


def test_a_condition_comes_after_those_below_it() -> None:
    guarded = Filter(Join((ITEMS, PARTS), BY_PART), Expr("`brand` <> 0"))
    node = Filter(guarded, Expr("1 / `brand` > 2"))
    wanted = Filter(PARTS, Expr("`brand` <> 0 AND 1 / `brand` > 2"))
    assert key_superset(node, [column("p_part")]) == keys_of(wanted, [column("p_part")])


def test_names_are_followed() -> None:
    node = Project(Join((ITEMS, SOME), BY_PART), (Item("k", column("p_part")),))
    assert key_superset(node, [column("k")]) == keys_of(SOME, [column("p_part")])
