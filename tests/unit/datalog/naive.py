"""The oracle: try every rule with every combination of facts until nothing new comes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from anabranch.datalog.rule import ANY, Rule

Row = tuple[Any, ...]


def naive(rules: Sequence[Rule], facts: Mapping[str, Iterable[Row]]) -> dict[str, set[Row]]:
    known = {name: set(rows) for name, rows in facts.items()}
    for rule in rules:
        for atom in (rule.head, *rule.body):
            known.setdefault(atom.relation, set())
    while True:
        found = [(rule.head.relation, row) for rule in rules for row in _heads(rule, known)]
        if all(row in known[name] for name, row in found):
            return known
        for name, row in found:
            known[name].add(row)


def _heads(rule: Rule, known: Mapping[str, set[Row]]) -> list[Row]:
    heads = []
    for rows in product(*(known[atom.relation] for atom in rule.body)):
        values: dict[str, Any] = {}
        if all(
            term == ANY or values.setdefault(term, value) == value
            for atom, row in zip(rule.body, rows, strict=True)
            for term, value in zip(atom.terms, row, strict=True)
        ):
            heads.append(tuple(values[term] for term in rule.head.terms))
    return heads
