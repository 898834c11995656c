"""Which column a name means: Spark's rules, case-insensitive.

The longest qualifier wins: `a.b.c` is column c of table a.b, else column b of table a and its field c,
else column a and its field b.c.

Plans and the analysis without Spark go by these rules alike.  Only the analysis meets tables whose
columns are not known: see `Opaque`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from anabranch.errors import UnknownName, UserError
from anabranch.names import shown
from anabranch.sql.analyze.columns import UNKNOWN, Column, Flow, merged, together


@dataclass(frozen=True)
class Field:
    """A column that a FROM clause offers."""

    qualifier: tuple[str, ...]  # lower-cased parts of the table's name, or its alias
    name: str  # as declared
    column: str  # its name in the plan
    qualified_only: bool = False  # the right-hand key of USING: needs its table's name
    named: bool = True  # False: Spark made the name up from the expression
    known: Column = UNKNOWN  # its type and where it comes from, as far as that is known


@dataclass(frozen=True)
class Opaque:
    """A FROM item whose columns are not known: it may have one of any name."""

    qualifier: tuple[str, ...]
    flow: Flow


@dataclass(frozen=True)
class Answer:
    """The columns that a name may mean: several make it ambiguous, and what is behind the column are
    fields of it.  `perhaps`: no known column, but some FROM item may have one."""

    fields: tuple[Field, ...] = ()
    rest: tuple[str, ...] = ()
    perhaps: Flow | None = None

    @property
    def columns(self) -> set[str]:
        return {field.column for field in self.fields}


@dataclass(frozen=True)
class Found:
    column: str
    fields: tuple[str, ...]  # what is taken out of the column, a struct


@dataclass(frozen=True)
class Scope:
    fields: tuple[Field, ...] = ()
    opaque: tuple[Opaque, ...] = ()

    def look_up(self, parts: Sequence[str]) -> Answer | None:
        for length in range(min(3, len(parts) - 1), -1, -1):
            qualifier = tuple(part.lower() for part in parts[:length])
            rest = tuple(parts[length + 1 :])
            if found := tuple(self._matching(qualifier, parts[length])):
                return Answer(found, rest)
            hidden = [each for each in self.opaque if answers(each.qualifier, qualifier)]
            hidden += self._made_up(qualifier, parts[length])
            if hidden:
                return Answer((), rest, together(each.flow for each in hidden))
        return None

    def find(self, parts: Sequence[str]) -> Found | None:
        answer = self.look_up(parts)
        if answer is None or not answer.fields:
            return None
        if len(answer.columns) > 1:
            raise UserError(
                f"column {_text(parts)} is ambiguous", hint="put the table's name before it"
            )
        return Found(answer.fields[0].column, answer.rest)

    def _matching(self, qualifier: tuple[str, ...], name: str) -> Iterable[Field]:
        for field in self.fields:
            fits = not field.qualified_only
            if qualifier:
                fits = answers(field.qualifier, qualifier)
            if fits and field.name.lower() == name.lower():
                yield field

    def _made_up(self, qualifier: tuple[str, ...], name: str) -> list[Opaque]:
        """Columns whose made-up name may be this one."""
        return [
            Opaque(field.qualifier, field.known.flow)
            for field in self.fields
            if not field.named and field.name == ""
            if answers(field.qualifier, qualifier)
            if field.known.any_name or not name.isidentifier()
        ]

    def star(self, qualifier: Sequence[str] = ()) -> tuple[Field, ...]:
        """What `*` or `t.*` stands for."""
        if not qualifier:
            return tuple(field for field in self.fields if not field.qualified_only)
        wanted = tuple(part.lower() for part in qualifier)
        mine = [field for field in self.fields if answers(field.qualifier, wanted)]
        if not mine:
            tables = {".".join(field.qualifier) for field in self.fields}
            name = ".".join(qualifier)
            raise UnknownName(f"{name}.* names no table of FROM", name=name, known=tables)
        return tuple(sorted(mine, key=lambda field: not field.qualified_only))

    def opened(self) -> Scope:
        """The same columns, and perhaps others."""
        flow = together(each.known.flow for each in self.fields)
        return Scope(self.fields, (*self.opaque, Opaque((), flow)))

    def unknown(self, parts: Sequence[str]) -> UnknownName:
        known = [field.name for field in self.fields if field.named]
        return UnknownName(f"column {_text(parts)} does not exist", name=parts[-1], known=known)

    def renamed(self, names: Mapping[str, str]) -> Scope:
        """Only the columns that have a new name, under it."""
        return Scope(
            tuple(
                replace(field, column=names[field.column])
                for field in self.fields
                if field.column in names
            )
        )

    @property
    def has_unnamed(self) -> bool:
        return any(not field.named for field in self.fields)

    def __add__(self, other: Scope) -> Scope:
        return Scope(self.fields + other.fields, self.opaque + other.opaque)


def answers(own: tuple[str, ...], asked: tuple[str, ...]) -> bool:
    """Whether a FROM item is what a qualifier means; without one all are.

    >>> answers(("lake", "shop", "sales"), ("shop", "sales")), answers((), ("sales",))
    (True, False)
    """
    return not asked or own[-len(asked) :] == asked


def common_names(left: Scope, right: Scope) -> list[str]:
    """The columns that NATURAL JOIN compares."""
    names = {field.name.lower() for field in right.star()}
    return [field.name for field in left.star() if field.name.lower() in names]


class Side(Enum):
    """Whose rows are all in the result of a join."""

    NONE = ""
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"


@dataclass(frozen=True)
class Using:
    """The scope of a join, the pairs of columns that must be equal, and for a full join the columns
    (name, left, right) that hold the key of whichever side has one."""

    scope: Scope
    pairs: tuple[tuple[str, str], ...]
    merged: tuple[tuple[str, str, str], ...] = ()


def using(
    left: Scope, right: Scope, names: Sequence[str], side: Side, fresh: Callable[[str], str]
) -> Using:
    """`left JOIN right USING (names)`: the keys come first, and are those of the side that has all
    its rows; the keys of the other need their table's name."""
    keys: list[Field] = []
    pairs: list[tuple[str, str]] = []
    full: list[tuple[str, str, str]] = []
    hidden: dict[str, Field] = {}
    for name in names:
        mine, theirs = _only(left, name), _only(right, name)
        pairs.append((mine.column, theirs.column))
        if side is Side.FULL:
            full.append((fresh(mine.name.lower()), mine.column, theirs.column))
            both = merged(mine.known, theirs.known)
            keys.append(Field((), mine.name, full[-1][0], known=both))
            covered: tuple[Field, ...] = (mine, theirs)
        else:
            keys.append(theirs if side is Side.RIGHT else mine)
            covered = (mine,) if side is Side.RIGHT else (theirs,)
        hidden |= {each.column: replace(each, qualified_only=True) for each in covered}
    rest = [
        hidden.get(field.column, field)
        for field in (*left.fields, *right.fields)
        if field not in keys
    ]
    return Using(Scope((*keys, *rest)), tuple(pairs), tuple(full))


def _only(scope: Scope, name: str) -> Field:
    found = [field for field in scope.star() if field.name.lower() == name.lower()]
    if len(found) > 1:
        raise UserError(f"column {shown(name)} of USING is ambiguous")
    if not found:
        raise scope.unknown([name])
    return found[0]


def _text(parts: Sequence[str]) -> str:
    return ".".join(shown(part) for part in parts)
