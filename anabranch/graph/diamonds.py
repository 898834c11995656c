"""Diamonds: where changes of one table reach another on several ways.

A table A is a **shared source** of a stream table D, its **convergence point**, when the paths from A
to D neither all begin with the same edge nor all end with the same edge: they part at A and meet at D,
and may touch in between.  One path may be the edge A → D itself (the triangle).  The **intermediates**
of D are the stream tables strictly between a shared source and D, on any path.

A table that all paths run through before they part, such as a stream table that is the only shared
source, is no intermediate: D cannot see two versions of it.  In a graph with cycles a component counts
as one node, and what is said of it holds for each of its members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic

from anabranch.graph.lineage import Lineage, bits, lineage
from anabranch.graph.order import T, closure


@dataclass(frozen=True)
class Diamond(Generic[T]):
    """All diamonds that meet in one convergence point, taken together; upstreams first."""

    convergence: T
    shared_sources: tuple[T, ...]
    intermediates: tuple[T, ...]

    @property
    def members(self) -> tuple[T, ...]:
        """What has to move together."""
        return (*self.intermediates, self.convergence)


def diamonds(reads: Mapping[T, Iterable[T]]) -> list[Diamond[T]]:
    """One for every convergence point, upstreams first."""
    line = lineage(reads)
    readers = _readers(line)
    return [
        found
        for node, between in enumerate(line.between)
        if between
        for found in _at(line, readers, node)
    ]


def diamond_at(table: T, reads: Mapping[T, Iterable[T]]) -> Diamond[T] | None:
    """The diamond that meets in the table; looks at nothing but what the table reads."""
    above = closure([table], reads)
    found = diamonds({name: ups for name, ups in reads.items() if name in above})
    return next((each for each in found if each.convergence == table), None)


def _at(line: Lineage[T], readers: list[list[int]], node: int) -> list[Diamond[T]]:
    above = set(bits(line.up[node]))
    parting = (at for at in bits(line.twice[node]) if len(above.intersection(readers[at])) > 1)
    shared = line.names(parting)
    between = line.names(bits(line.between[node]))
    members = line.nodes[node].members
    return [
        Diamond(name, shared, (*between, *(other for other in members if other != name)))
        for name in members
    ]


def _readers(line: Lineage[T]) -> list[list[int]]:
    readers: list[list[int]] = [[] for _ in line.nodes]
    for node, direct in enumerate(line.upstreams):
        for source in direct:
            readers[source].append(node)
    return readers
