"""The semi-naive fixed point: each round reads only what the previous round found.

A fact is found in the first round in which any derivation of it exists, so the derivation that is
recorded is a shallowest one; among those of one round the smallest by rule and facts is taken,
independent of the order of rules and facts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from anabranch.datalog.join import Entry, entries
from anabranch.datalog.relation import Relation, Row
from anabranch.datalog.rule import Rule
from anabranch.errors import InvalidValue

Facts = Mapping[str, Iterable[Row]]


@dataclass(frozen=True, order=True)
class Fact:
    relation: str
    row: Row

    def __str__(self) -> str:
        return f"{self.relation}({', '.join(map(str, self.row))})"


@dataclass(frozen=True, order=True)
class Because:
    """A derived fact, the rule that derived it and the facts it used, in the order of the body."""

    fact: Fact
    rule: str
    facts: tuple[Fact, ...]


Derivation = tuple[str, tuple[Row, ...], Rule]  # the rule's text, the rows of its body, the rule
Derived = dict[str, dict[Row, Derivation]]


@dataclass(frozen=True)
class Model:
    """All facts, given and derived, with one derivation of each derived fact."""

    facts: Mapping[str, frozenset[Row]]
    derived: Mapping[str, Mapping[Row, Derivation]] = field(repr=False)

    def __getitem__(self, relation: str) -> frozenset[Row]:
        return self.facts.get(relation, frozenset())

    def reason(self, fact: Fact) -> Because | None:
        """The last step of a derivation; None for a given fact."""
        derivation = self.derived.get(fact.relation, {}).get(fact.row)
        if derivation is None:
            return None
        text, rows, rule = derivation
        body = zip(rule.body, rows, strict=True)
        return Because(fact, text, tuple(Fact(atom.relation, row) for atom, row in body))

    def why(self, relation: str, *row: Hashable) -> tuple[Because, ...]:
        """The derivation of a fact, causes first; empty for a given fact."""
        target = Fact(relation, tuple(row))
        if target.row not in self[relation]:
            raise InvalidValue(f"{target} does not hold")
        chain: dict[Fact, Because] = {}
        stack = [target]
        while stack:
            because = self.reason(stack[-1])
            missing = (
                [premise for premise in because.facts if self._open(premise, chain)]
                if because
                else []
            )
            if missing:
                stack.extend(reversed(missing))
                continue
            fact = stack.pop()
            if because:
                chain.setdefault(fact, because)
        return tuple(chain.values())

    def _open(self, fact: Fact, done: Mapping[Fact, Because]) -> bool:
        return fact not in done and fact.row in self.derived.get(fact.relation, {})


def solve(rules: Sequence[Rule], facts: Facts) -> Model:
    """The least model of the rules over the facts."""
    relations = _relations(rules, facts)
    by_relation: dict[str, list[Entry]] = {}
    for rule in rules:
        for entry in entries(rule):
            by_relation.setdefault(entry.relation, []).append(entry)
    derived: Derived = {}
    fresh: dict[str, Iterable[Row]] = {name: relation.rows for name, relation in relations.items()}
    while fresh:
        new = _round(by_relation, fresh, relations)
        for name, rows in new.items():
            derived.setdefault(name, {}).update(rows)
            relations[name].add(rows)
        fresh = dict(new)
    return Model({name: frozenset(relation.rows) for name, relation in relations.items()}, derived)


def _round(
    by_relation: Mapping[str, Sequence[Entry]],
    fresh: Mapping[str, Iterable[Row]],
    relations: Mapping[str, Relation],
) -> Derived:
    """What follows from the fresh facts and is not known yet, each with its smallest derivation."""
    result: Derived = {}
    for name, rows in fresh.items():
        for entry in by_relation.get(name, ()):
            text, head = str(entry.rule), entry.rule.head.relation
            known, new = relations[head].rows, result.get(head, {})
            for row, used in entry.derive(rows, relations):
                if row not in known:
                    smallest = new.get(row)
                    if smallest is None or (text, used) < smallest[:2]:
                        new[row] = (text, used, entry.rule)
            if new:
                result[head] = new
    return result


def _relations(rules: Iterable[Rule], facts: Facts) -> dict[str, Relation]:
    relations: dict[str, Relation] = {}
    for rule in rules:
        for atom in (rule.head, *rule.body):
            relation = relations.setdefault(atom.relation, Relation(atom.relation, len(atom.terms)))
            if relation.width != len(atom.terms):
                raise InvalidValue(
                    f"{atom.relation} is used with {relation.width} and {len(atom.terms)} columns"
                )
    for name, rows in facts.items():
        tuples = list(rows)
        if tuples:
            relations.setdefault(name, Relation(name, len(tuples[0]))).add(tuples)
    return relations
