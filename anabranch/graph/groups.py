"""Consistency groups: which stream tables are refreshed together and published as one cut.

Together belong
- a convergence point and its intermediates, unless one of them opts out;
- the members of a declared refresh group;
- the members of a cyclic component;
- sets of these that overlap;
- groups that wait for each other, such as a group and a table between two of its members.

Every other stream table is a group of its own.  No group waits for itself, so groups always have an
order, upstreams first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic

from anabranch.graph.components import Component, ranked
from anabranch.graph.lineage import Lineage, bits, lineage, mask
from anabranch.graph.order import T


@dataclass(frozen=True)
class ConsistencyGroup(Generic[T]):
    """Components in order, upstreams first; `declared` names the refresh groups it holds."""

    components: tuple[Component[T], ...]
    convergence_points: tuple[T, ...] = ()
    declared: tuple[str, ...] = ()
    epoch: int = 0

    @cached_property
    def members(self) -> tuple[T, ...]:
        return tuple(name for part in self.components for name in part.members)

    @cached_property
    def id(self) -> T:
        """The smallest member: stays the same as long as that member does."""
        return min(self.members, key=str)

    @property
    def is_singleton(self) -> bool:
        return len(self.members) == 1

    def advance_epoch(self) -> ConsistencyGroup[T]:
        """The group after one more publish."""
        return replace(self, epoch=self.epoch + 1)


def consistency_groups(
    reads: Mapping[T, Iterable[T]],
    declared: Mapping[str, Iterable[T]] | None = None,
    opted_out: Collection[T] = (),
) -> list[ConsistencyGroup[T]]:
    """All groups, each after those it reads; every stream table (key) is in exactly one.

    `declared` holds refresh groups by name; `opted_out` the tables with diamond consistency `none`.
    """
    line = lineage(reads)
    place = {name: at for at, node in enumerate(line.nodes) for name in node.members}
    out = mask({place[name] for name in opted_out if name in place})
    sets = Sets(len(line.nodes))
    meet: set[int] = set()
    for node, between in enumerate(line.between):
        if between and not (between | 1 << node) & out:
            meet.add(node)
            sets.join(between | 1 << node)
    named: dict[int, set[str]] = {}
    for group, members in (declared or {}).items():
        inside = {place[name] for name in members if name in reads}
        sets.join(mask(inside))
        for node in inside:
            named.setdefault(node, set()).add(group)
    return [_group(line, nodes, meet, named) for nodes in _in_order(line, sets)]


def _group(
    line: Lineage[T], nodes: list[int], meet: set[int], named: Mapping[int, set[str]]
) -> ConsistencyGroup[T]:
    return ConsistencyGroup(
        components=tuple(line.nodes[node] for node in nodes),
        convergence_points=line.names(node for node in nodes if node in meet),
        declared=tuple(sorted(set().union(*(named.get(node, ()) for node in nodes)))),
    )


class Sets:
    """A partition of 0, 1, ..., n - 1 that only grows coarser."""

    def __init__(self, size: int) -> None:
        self._owner = list(range(size))
        self._held = [1 << at for at in range(size)]

    def owner(self, at: int) -> int:
        while self._owner[at] != at:
            self._owner[at] = at = self._owner[self._owner[at]]
        return at

    def join(self, places: int) -> None:
        """Put the places into one set.  Each step of the loop ends one set: n - 1 over a lifetime."""
        if not places:
            return
        first = self.owner(next(bits(places)))
        while rest := places & ~self._held[first]:
            other = self.owner(next(bits(rest)))
            self._owner[other] = first
            self._held[first] |= self._held[other]


def _in_order(line: Lineage[T], sets: Sets) -> list[list[int]]:
    """The sets as nodes of a graph: its components are the groups, and come in their order."""
    number: dict[int, int] = {}
    held: list[list[int]] = []
    edges: list[dict[int, None]] = []
    for node in range(line.first, len(line.nodes)):
        at = number.setdefault(sets.owner(node), len(number))
        if at == len(held):
            held.append([])
            edges.append({})
        held[at].append(node)
        # Upstreams come first, so that their set has a number already.
        ups = (up for up in line.upstreams[node] if up >= line.first)
        edges[at].update((number[sets.owner(up)], None) for up in ups)
    return [
        sorted(node for at in found for node in held[at])
        for found in ranked([list(each) for each in edges])
    ]
