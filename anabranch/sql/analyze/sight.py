"""What an expression sees: the columns of FROM, aliases, and the query around it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anabranch.errors import did_you_mean
from anabranch.names import shown
from anabranch.sql.analyze import functions
from anabranch.sql.analyze.columns import Column
from anabranch.sql.analyze.scope import Alias, Answer, Meaning, Scope, answers
from anabranch.sql.analyze.types import field_type, lacks_field

MOST = 12  # columns that a hint lists
NEAR = 0.8  # how like a known function a name must be to be called a slip of the pen
WITHOUT_PARENTHESES = functions.TIME_DEPENDENT | functions.NONDETERMINISTIC
_FUNCTIONS = sorted(functions.KNOWN)


@dataclass(frozen=True)
class Sight:
    """`aliases` are items of the SELECT list, as far as their columns are certain, and `listed` the
    names of all.  Those of `first` come before columns of FROM, in HAVING only outside of aggregates.
    `reported` are the mistakes of this SELECT so far: each wrong name once."""

    scope: Scope = field(default_factory=Scope)
    outer: Sight | None = None
    aliases: Mapping[str, Column] = field(default_factory=dict, hash=False)
    listed: frozenset[str] = frozenset()
    first: frozenset[str] = frozenset()
    over_groups: bool = False  # HAVING
    reported: set[str] = field(default_factory=set, compare=False)
    through_plan: bool = (
        False  # Spark looks names up in its plan of the SELECT, which may lack columns
    )

    def find(self, parts: Sequence[str]) -> Column | None:
        """The column; one without a type where there may be one."""
        answer = self.scope.look_up(parts)
        if answer is not None:
            return _column(answer, parts)
        alias = self.aliases.get(parts[0].lower())
        if alias is not None:
            type_ = field_type(alias.type, parts[1:])
            return Column(parts[-1], type_, alias.flow, alias.broken)
        return self.outer.find(parts) if self.outer else None

    def meaning(self, parts: Sequence[str]) -> Meaning | None:
        """What a name is bound to: an item of the SELECT list, or columns of the nearest FROM clause
        that has some."""
        name = parts[0].lower()
        if len(parts) == 1 and name in self.first:
            return Alias(name)
        own = self.scope.declared(parts)
        if own is None and (name in self.aliases or name in self.listed):
            return Alias(name)
        around = self.outer
        while around is not None and own is None:
            own, around = around.scope.declared(parts), around.outer
        return own

    @property
    def of_rows(self) -> Sight:
        """What an aggregate sees: names mean what they mean in the rows of a group."""
        return replace(self, first=frozenset()) if self.over_groups else self

    def is_own(self, parts: Sequence[str]) -> bool:
        """Whether a name is surely a column of FROM."""
        answer = self.scope.look_up(parts)
        return answer is not None and bool(answer.fields)

    def is_ambiguous(self, parts: Sequence[str]) -> bool:
        """Do two known columns of one FROM clause answer to the name?"""
        if self.through_plan or (len(parts) == 1 and parts[0].lower() in self.aliases):
            return False
        answer = self.scope.look_up(parts)
        return answer is not None and answer.is_ambiguous

    def lacks_field(self, parts: Sequence[str]) -> bool:
        """Whether the name takes a field out of a column that has no such field."""
        answer = self.scope.look_up(parts)
        if answer is None or not answer.rest or len(answer.columns) != 1:
            return False
        return lacks_field(answer.fields[0].known.type, answer.rest)

    def fields_of(self, parts: Sequence[str]) -> str | None:
        """What there is in place of a field that is not there."""
        answer = self.scope.look_up(parts)
        assert answer is not None
        field, type_ = answer.fields[0], answer.fields[0].known.type
        if type_ is None or type_.name != "struct":
            return f"{shown(field.name)} is a column of type {type_}, which has no fields"
        known = [each.name for each in type_.fields]
        return did_you_mean(answer.rest[0], known) or f"fields: {', '.join(known)}"

    @property
    def is_open(self) -> bool:
        """Whether there may be columns of any name."""
        return bool(self.scope.opaque) or (self.outer is not None and self.outer.is_open)

    def qualifiers(self) -> Iterator[str]:
        for each in self.scope.fields:
            yield from each.qualifier[-1:]
        if self.outer:
            yield from self.outer.qualifiers()

    def reach(self, qualifier: Sequence[str]) -> Iterator[str]:
        """Columns as a person would write them behind a qualifier, or behind another table's."""
        wanted = tuple(part.lower() for part in qualifier)
        inside = [f for f in self.scope.fields if wanted and answers(f.qualifier, wanted)]
        for each in inside or self.scope.star():
            before = f"{each.qualifier[-1]}." if wanted and each.qualifier else ""
            if each.named and not each.known.broken:
                yield f"{before}{each.name}"
        if self.outer and not inside:
            yield from self.outer.reach(qualifier)


def _column(answer: Answer, parts: Sequence[str]) -> Column:
    if not answer.fields:
        assert answer.perhaps is not None
        return Column(parts[-1], flow=answer.perhaps)
    known = answer.fields[0].known
    if not answer.rest:
        return known
    return Column(parts[-1], field_type(known.type, answer.rest), known.flow, known.broken)


def text_of(parts: Sequence[str]) -> str:
    return ".".join(map(shown, parts))


def cure(parts: Sequence[str], sight: Sight) -> str | None:
    """The nearest column, or all there are."""
    if sight.lacks_field(parts):
        return sight.fields_of(parts)
    asked = ".".join(parts).lower()
    known = [each for each in dict.fromkeys(sight.reach(parts[:-1])) if each.lower() != asked]
    listed = ", ".join(known[:MOST]) + (", …" if len(known) > MOST else "")
    return did_you_mean(".".join(parts), known) or (f"columns: {listed}" if known else None)


def like_function(name: str) -> str | None:
    """The known function that a name is a slip of the pen for; a user's own function is none."""
    if name in functions.KNOWN:
        return None
    return did_you_mean(name, difflib.get_close_matches(name, _FUNCTIONS, n=1, cutoff=NEAR))
