"""One rule, evaluated from the newest facts of one atom of its body.

The other atoms are joined by index, those with most bound columns first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from anabranch.datalog.relation import Columns, Relation, Row
from anabranch.datalog.rule import ANY, Atom, Rule

Joined = tuple[Row, tuple[Row, ...]]  # values of the slots, and the rows they come from


@dataclass(frozen=True)
class Step:
    """Join with one atom: look up by `bound` columns (filled from slots `by`), then fill slots.

    `new` are the variables first seen here, `same` columns that repeat one of them.
    """

    place: int
    relation: str
    bound: Columns
    by: Columns
    new: Columns
    same: tuple[tuple[int, int], ...]

    def fits(self, row: Row) -> bool:
        return all(row[left] == row[right] for left, right in self.same)


@dataclass(frozen=True)
class Entry:
    """A rule with the atom its evaluation starts from; slots are numbered as the steps fill them."""

    rule: Rule
    steps: tuple[Step, ...]
    head: Columns

    @property
    def relation(self) -> str:
        return self.steps[0].relation

    def derive(self, fresh: Iterable[Row], relations: Mapping[str, Relation]) -> Iterator[Joined]:
        """Every row of the head that follows from a fresh row, with the rows of the body."""
        first, *others = self.steps
        if not all(relations[step.relation].rows for step in others):
            return
        joined: Iterator[Joined] = (
            (tuple([row[column] for column in first.new]), (row,))
            for row in fresh
            if not first.same or first.fits(row)
        )
        for step in others:
            joined = _joined(step, joined, relations[step.relation])
        order = sorted(range(len(self.steps)), key=lambda i: self.steps[i].place)
        for slots, rows in joined:
            yield tuple([slots[i] for i in self.head]), tuple([rows[i] for i in order])


def _joined(step: Step, bindings: Iterable[Joined], relation: Relation) -> Iterator[Joined]:
    index = relation.index(step.bound)
    new, by, same = step.new, step.by, step.same
    for slots, rows in bindings:
        for row in index.get(tuple([slots[i] for i in by]), ()):
            if not same or step.fits(row):
                yield (*slots, *[row[column] for column in new]), (*rows, row)


def entries(rule: Rule) -> tuple[Entry, ...]:
    """One entry for every atom of the body."""
    return tuple(_entry(rule, first) for first in range(len(rule.body)))


def _entry(rule: Rule, first: int) -> Entry:
    slots: dict[str, int] = {}
    steps = [_step(rule.body[first], first, slots)]
    remaining = [place for place in range(len(rule.body)) if place != first]
    while remaining:
        place = max(
            remaining, key=lambda candidate: len(rule.body[candidate].variables & slots.keys())
        )
        remaining.remove(place)
        steps.append(_step(rule.body[place], place, slots))
    return Entry(rule, tuple(steps), tuple(slots[term] for term in rule.head.terms))


def _step(atom: Atom, place: int, slots: dict[str, int]) -> Step:
    """Numbers the variables that this atom binds first."""
    bound = tuple(i for i, term in enumerate(atom.terms) if term in slots)
    by = tuple(slots[atom.terms[i]] for i in bound)
    first_columns: dict[str, int] = {}
    same: list[tuple[int, int]] = []
    for i, term in enumerate(atom.terms):
        if term == ANY or i in bound:
            continue
        if term in first_columns:
            same.append((first_columns[term], i))
        else:
            first_columns[term] = i
            slots[term] = len(slots)
    return Step(place, atom.relation, bound, by, tuple(first_columns.values()), tuple(same))
