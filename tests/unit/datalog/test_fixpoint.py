"""The fixed point: least, whatever the order of rules and facts, and it knows why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.datalog.fixpoint import Fact, Model, solve
from anabranch.datalog.rule import Rule
from anabranch.errors import InvalidValue
from tests.unit.datalog.naive import naive

PATHS = [
    Rule.parse("Path(X, Y) :- Edge(X, Y)"),
    Rule.parse("Path(X, Z) :- Edge(X, Y), Path(Y, Z)"),
]
# Joins of three atoms, repeated variables, unnamed columns, recursion through two relations.
MIXED = [
    *PATHS,
    Rule.parse("Loop(X) :- Path(X, X)"),
    Rule.parse("Bad(X) :- Loop(X), Mark(_, X)"),
    Rule.parse("Bad(Y) :- Bad(X), Edge(X, Y), Mark(M, Y)"),
    Rule.parse("Both(X, Y) :- Bad(X), Bad(Y), Path(X, Y)"),
    Rule.parse("Path(X, Y) :- Both(Y, X)"),
]
NODE = st.integers(0, 4)
FACTS = st.fixed_dictionaries(
    {
        "Edge": st.sets(st.tuples(NODE, NODE), max_size=8),
        "Mark": st.sets(st.tuples(NODE, NODE), max_size=4),
    }
)


def reasons(model: Model) -> dict[Fact, Any]:
    facts = [Fact(name, row) for name, rows in model.derived.items() for row in rows]
    return {fact: model.reason(fact) for fact in facts}


@settings(max_examples=150, deadline=None)
@given(FACTS)
def test_equal_to_a_naive_evaluator(facts: dict[str, set[Any]]) -> None:
    model = solve(MIXED, facts)
    for relation, rows in naive(MIXED, facts).items():
        assert model[relation] == rows, relation


@settings(max_examples=100, deadline=None)
@given(FACTS, st.permutations(MIXED), st.randoms())
def test_independent_of_the_order_of_rules_and_facts(
    facts: dict[str, set[Any]], rules: Sequence[Rule], random: Any
) -> None:
    shuffled = {name: random.sample(sorted(rows), len(rows)) for name, rows in facts.items()}
    one, two = solve(MIXED, facts), solve(rules, shuffled)
    assert dict(one.facts) == dict(two.facts)
    assert reasons(one) == reasons(two)


@settings(max_examples=100, deadline=None)
@given(FACTS, FACTS)
def test_monotone(facts: dict[str, set[Any]], more: dict[str, set[Any]]) -> None:
    small = solve(MIXED, facts)
    large = solve(MIXED, {name: rows | more[name] for name, rows in facts.items()})
    assert all(small[name] <= large[name] for name in small.facts)


@settings(max_examples=100, deadline=None)
@given(FACTS)
def test_every_reason_is_a_derivation_from_given_facts(facts: dict[str, set[Any]]) -> None:
    model = solve(MIXED, facts)
    by_text = {str(rule): rule for rule in MIXED}
    for fact in reasons(model):
        proven = {Fact(name, row) for name, rows in facts.items() for row in rows}
        for because in model.why(fact.relation, *fact.row):
            rule = by_text[because.rule]
            values: dict[str, Any] = {}
            for atom, used in zip(rule.body, because.facts, strict=True):
                assert used in proven
                assert atom.relation == used.relation
                for term, value in zip(atom.terms, used.row, strict=True):
                    assert term == "_" or values.setdefault(term, value) == value
            assert because.fact.row == tuple(values[term] for term in rule.head.terms)
            proven.add(because.fact)
        assert fact in proven


@settings(max_examples=100, deadline=None)
@given(st.sets(st.tuples(NODE, NODE), max_size=10))
def test_the_chain_is_a_shortest_one(edges: set[tuple[int, int]]) -> None:
    model = solve(PATHS, {"Edge": edges})
    for start, end in model["Path"]:
        hops, reached = 1, {b for a, b in edges if a == start}
        while end not in reached:
            hops, reached = hops + 1, {b for a, b in edges if a in reached}
        assert len(model.why("Path", start, end)) == hops


def test_ties_are_broken_by_name() -> None:
    edges = [(1, 3), (1, 2), (2, 4), (3, 4)]
    (_, last) = solve(PATHS, {"Edge": edges}).why("Path", 1, 4)
    assert last.facts == (Fact("Edge", (1, 2)), Fact("Path", (2, 4)))


def test_a_fact_that_does_not_hold_has_no_reason() -> None:
    with pytest.raises(InvalidValue, match=r"Path\(1, 9\) does not hold"):
        solve(PATHS, {"Edge": [(1, 2)]}).why("Path", 1, 9)


def test_a_given_fact_needs_no_rule() -> None:
    assert solve(PATHS, {"Edge": [(1, 2)]}).why("Edge", 1, 2) == ()


def test_widths_must_agree() -> None:
    with pytest.raises(InvalidValue, match="Edge"):
        solve([*PATHS, Rule.parse("Node(X) :- Edge(X)")], {})
    with pytest.raises(InvalidValue, match="Edge has 2 columns, not 3"):
        solve(PATHS, {"Edge": [(1, 2, 3)]})


def test_a_chain_of_ten_thousand() -> None:
    rules = [Rule.parse("Hit(X) :- Start(X)"), Rule.parse("Hit(Y) :- Edge(X, Y), Hit(X)")]
    model = solve(rules, {"Start": [(0,)], "Edge": [(i, i + 1) for i in range(10_000)]})
    assert len(model.why("Hit", 10_000)) == 10_001
