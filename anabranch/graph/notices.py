"""What a user should hear when a table or a refresh group is declared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Generic

from anabranch.graph.diamonds import diamond_at
from anabranch.graph.order import T, closure, dependants


@dataclass(frozen=True)
class ClosedDiamond(Generic[T]):
    """`branches` are the tables the convergence point reads through which the shared source comes."""

    convergence: T
    shared_source: T
    branches: tuple[T, ...]

    @property
    def ways(self) -> str:
        ways = [f"through {each}" for each in self.branches if each != self.shared_source]
        if self.shared_source in self.branches:
            ways.insert(0, "directly")
        return " and ".join(ways)

    def __str__(self) -> str:
        return (
            f"stream table {self.convergence} closes a diamond: "
            f"{self.shared_source} reaches it {self.ways}"
        )


@dataclass(frozen=True)
class LeftOut(Generic[T]):
    """A table brings members of a refresh group together without being in it."""

    table: T
    group: str
    members: tuple[T, ...]

    def __str__(self) -> str:
        listed = " and ".join(str(each) for each in self.members)
        return (
            f"stream table {self.table} joins {listed} of refresh group {self.group} "
            "but is not in it"
        )


def closed_diamonds(
    table: T, before: Mapping[T, Iterable[T]], after: Mapping[T, Iterable[T]]
) -> list[ClosedDiamond[T]]:
    """The diamonds that are there because the table was made or changed: in it, or below it.

    Of shared sources that come through the same branches only the nearest are named.
    """
    below = sorted(closure([table], dependants(after)), key=str)
    found = [each for name in below for each in diamonds_into(name, after)]
    known = {each for name in below for each in diamonds_into(name, before)}
    return [each for each in found if each not in known]


def diamonds_into(table: T, reads: Mapping[T, Iterable[T]]) -> list[ClosedDiamond[T]]:
    """The diamonds that meet in a table, by the sources they share."""
    diamond = diamond_at(table, reads)
    if diamond is None:
        return []
    above = {each: closure([each], reads) for each in sorted(set(reads[table]), key=str)}
    branches = {
        source: tuple(each for each, reached in above.items() if source in reached)
        for source in diamond.shared_sources
    }
    return [
        ClosedDiamond(table, source, through)
        for source, through in branches.items()
        # In a cycle a member may be a convergence point through another that it reads.
        if len(through) > 1 and not _farther(source, branches, reads)
    ]


def _farther(
    source: T, branches: Mapping[T, tuple[T, ...]], reads: Mapping[T, Iterable[T]]
) -> bool:
    """Another shared source, on the same branches, reads this one."""
    alike = [each for each, through in branches.items() if through == branches[source]]
    return any(
        source in closure([each], reads) and each not in closure([source], reads)
        for each in alike
        if each != source
    )


def left_out(
    table: T, reads: Mapping[T, Iterable[T]], declared: Mapping[str, Collection[T]]
) -> list[LeftOut[T]]:
    """The refresh groups without the table of which two of its direct upstreams bring two members.

    What comes through one upstream alone was joined there, and is said of that one.
    """
    above = [closure([each], reads) for each in set(reads.get(table, ()))]
    found = []
    for group, members in sorted(declared.items()):
        brought = [reached.intersection(members) for reached in above]
        if table not in members and any(
            one and other and len(one | other) > 1 for one, other in combinations(brought, 2)
        ):
            listed = sorted(set().union(*brought), key=str)
            found.append(LeftOut(table, group, tuple(listed)))
    return found


def member_conflicts(
    members: Collection[T], declared: Mapping[str, Collection[T]]
) -> dict[str, tuple[T, ...]]:
    """Declared refresh groups that hold some of the members already, and which."""
    common = {
        group: sorted(set(members).intersection(held), key=str) for group, held in declared.items()
    }
    return {group: tuple(held) for group, held in sorted(common.items()) if held}
