"""The semi-naive fixed point: each round looks only at what the round before it found.

A fact is found in the first round in which any derivation of it exists, so the derivation that is
kept is a lowest one; among those of one round the smallest by rule and facts is taken, whatever
the order of rules and facts was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    """A derived fact, the rule that gave it and the facts it used, in the order of the body."""

    fact: Fact
    rule: str
    facts: tuple[Fact, ...]


Derivation = tuple[str, tuple[Row, ...], Rule]  # the rule's text, the rows of its body, the rule
Derived = dict[str, dict[Row, Derivation]]


@dataclass(frozen=True)
class Model:
    """All facts, given and derived, and for each derived one how it came about."""

    facts: Mapping[str, frozenset[Row]]
    derived: Mapping[str, Mapping[Row, Derivation]] = field(repr=False)

    def __getitem__(self, relation: str) -> frozenset[Row]:
        return self.facts.get(relation, frozenset())

    def reason(self, fact: Fact) -> Because | None:
        """The last step to a fact; None when it was given."""
        found = self.derived.get(fact.relation, {}).get(fact.row)
        if found is None:
            return None
        text, rows, rule = found
        body = zip(rule.body, rows, strict=True)
        return Because(fact, text, tuple(Fact(atom.relation, row) for atom, row in body))

    def why(self, relation: str, *row: object) -> tuple[Because, ...]:
        """The derivation of a fact, causes first; nothing for a given fact."""
        wanted = Fact(relation, tuple(row))
        if wanted.row not in self[relation]:
            raise InvalidValue(f"{wanted} does not hold")
        chain: dict[Fact, Because] = {}
        todo = [wanted]
        while todo:
            because = self.reason(todo[-1])
            missing = [each for each in because.facts if self._open(each, chain)] if because else []
            if missing:
                todo.extend(reversed(missing))
                continue
            fact = todo.pop()
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
    fresh: dict[str, Iterable[Row]] = {name: each.rows for name, each in relations.items()}
    while fresh:
        found = _round(by_relation, fresh, relations)
        for name, rows in found.items():
            derived.setdefault(name, {}).update(rows)
            relations[name].add(rows)
        fresh = dict(found)
    return Model({name: frozenset(each.rows) for name, each in relations.items()}, derived)


def _round(
    by_relation: Mapping[str, Sequence[Entry]],
    fresh: Mapping[str, Iterable[Row]],
    relations: Mapping[str, Relation],
) -> Derived:
    """What follows from the fresh facts and is not known yet, each with its smallest derivation."""
    found: Derived = {}
    for name, rows in fresh.items():
        for entry in by_relation.get(name, ()):
            text, head = str(entry.rule), entry.rule.head.relation
            known, new = relations[head].rows, found.get(head, {})
            for row, used in entry.derive(rows, relations):
                if row not in known:
                    other = new.get(row)
                    if other is None or (text, used) < other[:2]:
                        new[row] = (text, used, entry.rule)
            if new:
                found[head] = new
    return found


def _relations(rules: Iterable[Rule], facts: Facts) -> dict[str, Relation]:
    relations: dict[str, Relation] = {}
    for rule in rules:
        for atom in (rule.head, *rule.body):
            known = relations.setdefault(atom.relation, Relation(atom.relation, len(atom.terms)))
            if known.width != len(atom.terms):
                raise InvalidValue(
                    f"{atom.relation} is used with {known.width} and {len(atom.terms)} columns"
                )
    for name, rows in facts.items():
        listed = list(rows)
        if listed:
            relations.setdefault(name, Relation(name, len(listed[0]))).add(listed)
    return relations
