"""Which column a name means: Spark's rules, case-insensitive.

The longest qualifier wins: `a.b.c` is column c of table a.b, else column b of table a and its field c,
else column a and its field b.c.

Names are resolved here alone: a plan is made from what is bound to the names (see `bindings`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    column: str  # tells it from all other columns of the query
    qualified_only: bool = False  # the right-hand key of USING: needs its table's name
    named: bool = True  # False: Spark made the name up from the expression
    known: Column = UNKNOWN  # its type and where it comes from, as far as that is known
    certain: bool = True  # False: only the plan may rely on its name


@dataclass(frozen=True)
class Opaque:
    """A FROM item whose columns are not certain: it may have one of any name."""

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

    @property
    def is_ambiguous(self) -> bool:
        return len({field.column for field in self.fields if field.certain}) > 1


@dataclass(frozen=True)
class Alias:
    """A name that means the item of the SELECT list that is called so; in lower case."""

    name: str


Meaning = Answer | Alias


@dataclass(frozen=True)
class Scope:
    fields: tuple[Field, ...] = ()
    opaque: tuple[Opaque, ...] = ()

    def look_up(self, parts: Sequence[str]) -> Answer | None:
        return self._look_up(parts, guess=True)

    def declared(self, parts: Sequence[str]) -> Answer | None:
        """The columns of that name, not those that may have it."""
        return self._look_up(parts, guess=False)

    def _look_up(self, parts: Sequence[str], *, guess: bool) -> Answer | None:
        for length in range(min(3, len(parts) - 1), -1, -1):
            qualifier = tuple(part.lower() for part in parts[:length])
            rest = tuple(parts[length + 1 :])
            if matching := tuple(self._matching(qualifier, parts[length])):
                return Answer(matching, rest)
            if not guess:
                continue
            hidden = [each for each in self.opaque if answers(each.qualifier, qualifier)]
            hidden += self._made_up(qualifier, parts[length])
            if hidden:
                return Answer((), rest, together(each.flow for each in hidden))
        return None

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
            if not field.named
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
    (itself, its name, left, right) that hold the key of whichever side has one."""

    scope: Scope
    pairs: tuple[tuple[str, str], ...]
    merged: tuple[tuple[str, str, str, str], ...] = ()


def using(
    left: Scope, right: Scope, names: Sequence[str], side: Side, fresh: Callable[[str], str]
) -> Using:
    """`left JOIN right USING (names)`: the keys come first, and are those of the side that has all
    its rows; the keys of the other need their table's name."""
    keys: list[Field] = []
    pairs: list[tuple[str, str]] = []
    full: list[tuple[str, str, str, str]] = []
    hidden: dict[str, Field] = {}
    for name in names:
        mine, theirs = _only(left, name), _only(right, name)
        pairs.append((mine.column, theirs.column))
        if side is Side.FULL:
            name = mine.name.lower()
            full.append((fresh(name), name, mine.column, theirs.column))
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
    fields = [field for field in scope.star() if field.name.lower() == name.lower()]
    if len(fields) > 1:
        raise UserError(f"column {shown(name)} of USING is ambiguous")
    if not fields:
        raise unknown([name], scope.fields)
    return fields[0]


def unknown(parts: Sequence[str], fields: Iterable[Field]) -> UnknownName:
    known = [field.name for field in fields if field.named]
    name = ".".join(shown(part) for part in parts)
    return UnknownName(f"column {name} does not exist", name=parts[-1], known=known)
