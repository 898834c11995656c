"""What a FROM clause offers, as far as it is known without Spark: see `outline`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from anabranch.plan.exprs import Tree


@dataclass(frozen=True)
class Known:
    """A column: `name` is None when Spark makes one up, `type` when it cannot be told."""

    name: str | None
    type: str | None = None


Outline = tuple[Known, ...] | None  # None: not even the number of columns is known


@dataclass(frozen=True)
class Source:
    qualifier: tuple[str, ...]  # lower-cased
    columns: Outline
    hidden: frozenset[str] = (
        frozenset()
    )  # keys of USING that a plain name takes from the other side

    def answers_to(self, qualifier: Sequence[str]) -> bool:
        return self.qualifier[-len(qualifier) :] == tuple(qualifier)

    def find(self, name: str, qualified: bool) -> Known | None:
        """The column; one without type when it may be there."""
        if self.columns is None:
            return Known(name)
        if not qualified and name in self.hidden:
            return None
        unnamed = any(column.name is None for column in self.columns)
        for column in self.columns:
            if column.name is not None and column.name.lower() == name:
                return column
        return Known(name) if unnamed and not name.isidentifier() else None


@dataclass(frozen=True)
class Scope:
    sources: tuple[Source, ...] = ()
    outer: Scope | None = None
    aliases: Mapping[str, str | None] = field(default_factory=dict, hash=False)

    def find(self, parts: Sequence[str]) -> Known | None:
        """The longest qualifier wins; what is left behind the column are fields of a struct."""
        for length in range(min(3, len(parts) - 1), -1, -1):
            qualifier = parts[:length]
            for source in self.sources:
                if length and not source.answers_to(qualifier):
                    continue
                found = source.find(parts[length], bool(length))
                if found and len(parts) == length + 1:
                    return found
                if found and (found.type is None or "<" in found.type):
                    return Known(parts[-1])
        if parts[0] in self.aliases:
            return Known(parts[-1], self.aliases[parts[0]] if len(parts) == 1 else None)
        return self.outer.find(parts) if self.outer else None

    def is_open(self) -> bool:
        return any(source.columns is None for source in self.sources) or (
            self.outer is not None and self.outer.is_open()
        )

    def is_ambiguous(self, parts: Sequence[str]) -> bool:
        """Do two known columns of one FROM clause answer to the name?"""
        if len(parts) == 1 and parts[0] in self.aliases:
            return False
        for length in range(min(3, len(parts) - 1), -1, -1):
            found = [
                column
                for source in self.sources
                if not length or source.answers_to(parts[:length])
                for column in source.columns or ()
                if (column.name or "").lower() == parts[length]
                if length or parts[length] not in source.hidden
            ]
            if found:
                return len(found) > 1
        return False

    def reach(self, qualifier: Sequence[str]) -> Iterator[str]:
        """Columns as a person would write them behind a qualifier, or behind another table's."""
        inside = [source for source in self.sources if source.answers_to(qualifier)]
        for source in inside if qualifier and inside else self.sources:
            before = f"{source.qualifier[-1]}." if qualifier and source.qualifier else ""
            yield from (f"{before}{column.name}" for column in source.columns or () if column.name)
        if (self.outer and not inside) or (self.outer and not qualifier):
            yield from self.outer.reach(qualifier)

    def qualifiers(self) -> Iterator[str]:
        for source in self.sources:
            yield from source.qualifier[-1:]
        if self.outer:
            yield from self.outer.qualifiers()


def merged(
    left: Sequence[Source], right: Sequence[Source], using: Sequence[str]
) -> tuple[Source, ...]:
    """`left JOIN right USING (keys)`: the keys once, in front; their tables' names still reach them."""
    both = (*left, *right)
    if any(source.columns is None for source in both):
        return tuple(replace(source, columns=None) for source in both)
    keys: list[Known] = []
    for key in using:
        found = [source.find(key, False) for source in both]
        sides = [each for each in found if each is not None]
        same = len({each.type for each in sides}) == 1
        keys += [replace(sides[0], type=sides[0].type if same else None)] if sides else []
    hidden = frozenset(using)
    rest = (replace(source, hidden=source.hidden | hidden) for source in both)
    return (Source((), tuple(keys)), *rest)


def renamed(columns: Outline, node: Tree) -> Outline:
    """`AS t(a, b)` gives the columns other names."""
    alias = node.args.get("alias")
    names = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    if not names:
        return columns
    if columns is None or len(columns) != len(names):
        return tuple(Known(each.name) for each in names)
    return tuple(replace(c, name=each.name) for c, each in zip(columns, names, strict=True))
