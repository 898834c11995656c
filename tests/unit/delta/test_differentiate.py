"""What deltas read, and in which order: the plans themselves are proven by the fixtures."""

from __future__ import annotations

from anabranch.delta.differentiate import delta
from anabranch.names import TableName
from anabranch.plan.nodes import Aggregate, Join, KeyFilter, Node, Scan, Version
from anabranch.plan.optimize import KEY_RULES, optimize
from anabranch.plan.walk import walk
from tests.oracle.kept import World

WORLD = World(
    {
        "customer": "c INT, cn INT",
        "orders": "o INT, oc INT, note VARCHAR",
        "item": "io INT, isup INT, price INT",
        "supplier": "s INT, sn INT",
        "nation": "n INT",
    }
)
LOCAL = """SELECT price FROM customer, orders, item, supplier, nation
    WHERE c = oc AND o = io AND isup = s AND cn = sn AND sn = n AND note = 'x'"""
COUNTS = (
    "SELECT n FROM (SELECT c, count(o) AS n FROM customer LEFT JOIN orders ON c = oc GROUP BY c)"
)


def change(query: str, *changed: str) -> Node:
    plan = WORLD.lower(query, {}).plan
    assert plan is not None
    found = delta(plan, frozenset(map(TableName.of, changed)))
    assert found is not None
    return optimize(found, KEY_RULES)


def scans(node: Node) -> list[tuple[str, Version]]:
    return [(s.table.name, s.version) for s in walk(node) if isinstance(s, Scan)]


def test_a_term_goes_where_few_inputs_share_what_is_compared() -> None:
    """Suppliers and customers of one nation are many; items of a supplier are few."""
    joins = [node for node in walk(change(LOCAL, "supplier")) if isinstance(node, Join)]
    order = [scans(join.parts[1])[0][0] for join in reversed(joins)]
    assert order == ["item", "orders", "customer", "nation"]


def test_the_keys_of_a_left_join_are_found_without_its_right_side() -> None:
    found = change(COUNTS, "orders")
    keys = {node.keys for node in walk(found) if isinstance(node, KeyFilter)}
    touched = [each for each in keys if isinstance(each, Aggregate)]
    assert touched
    for each in touched:
        assert ("orders", Version.AFTER) not in scans(each)
        assert ("orders", Version.BEFORE) not in scans(each)


def test_partners_are_asked_for_the_left_rows_in_question() -> None:
    query = """SELECT c FROM customer WHERE cn = 3 AND EXISTS (SELECT * FROM orders WHERE oc = c)"""
    found = change(query, "orders")
    asked = [
        node
        for node in walk(found)
        if isinstance(node, KeyFilter) and ("orders", Version.AFTER) in scans(node.input)
    ]
    assert asked
    assert all(("customer", Version.AFTER) in scans(node.keys) for node in asked)
