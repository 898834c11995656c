"""Rules as text: `Head(X, Y) :- First(X, Z), Second(Z, Y)`; `_` matches anything."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain

from anabranch.errors import InvalidValue

ANY = "_"
_ATOM = re.compile(r"\s*([A-Za-z]\w*)\s*\(([^()]*)\)\s*")
_TERM = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True)
class Atom:
    """A relation over variables."""

    relation: str
    terms: tuple[str, ...]

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(self.terms) - {ANY}

    def __str__(self) -> str:
        return f"{self.relation}({', '.join(self.terms)})"


@dataclass(frozen=True)
class Rule:
    """The head holds whenever the whole body does."""

    head: Atom
    body: tuple[Atom, ...]

    def __post_init__(self) -> None:
        if not self.body:
            raise InvalidValue(f"rule {self.head} has no body", hint="give it as a fact")
        bound = frozenset(chain.from_iterable(atom.variables for atom in self.body))
        if unbound := sorted(frozenset(self.head.terms) - bound):
            raise InvalidValue(f'rule {self.head}: the body does not bind "{unbound[0]}"')

    @classmethod
    def parse(cls, text: str) -> Rule:
        head, arrow, body = text.partition(":-")
        heads = _atoms(head, text)
        if not arrow or len(heads) != 1:
            raise InvalidValue(f"{text!r} is not a rule", hint="write Head(X) :- Body(X, Y)")
        return cls(heads[0], _atoms(body, text))

    def __str__(self) -> str:
        return f"{self.head} :- {', '.join(map(str, self.body))}"


def _atoms(text: str, rule: str) -> tuple[Atom, ...]:
    atoms: list[Atom] = []
    position = 0
    while match := _ATOM.match(text, position):
        terms = tuple(term.strip() for term in match[2].split(","))
        if not all(_TERM.match(term) for term in terms):
            raise InvalidValue(f"{rule!r}: {match[0].strip()} takes variables only")
        atoms.append(Atom(match[1], terms))
        position = match.end()
        if position < len(text) and text[position] == ",":
            position += 1
            continue
        break
    if position != len(text) or not atoms or text.rstrip().endswith(","):
        raise InvalidValue(f"{rule!r} is not a rule", hint="write Head(X) :- Body(X, Y)")
    return tuple(atoms)
