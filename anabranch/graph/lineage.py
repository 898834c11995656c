"""Who descends from whom, for all tables at once, as sets of bits in whole numbers.

A set of ten thousand tables is one number of ten thousand bits; `|` and `&` on it take less than a
microsecond, so that quadratic facts about a graph cost a few operations per edge and no path is walked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Generic

from anabranch.graph.components import Component, components
from anabranch.graph.order import T, dependants


@dataclass(frozen=True)
class Lineage(Generic[T]):
    """The condensation, after base sources that are read more than once; a node is its place.

    For a node D, as sets of nodes:
    up       D and everything that reaches D
    twice    what reaches D through at least two of its direct upstreams (one may be itself)
    between  what lies on a path to D from a shared source of D (see `diamonds`)
    """

    nodes: tuple[Component[T], ...]
    first: int  # node that is no base source; upstreams come before those who read them
    upstreams: tuple[tuple[int, ...], ...]
    up: tuple[int, ...]
    twice: tuple[int, ...]
    between: tuple[int, ...]

    def names(self, nodes: Iterable[int]) -> tuple[T, ...]:
        return tuple(name for node in nodes for name in self.nodes[node].members)


def lineage(reads: Mapping[T, Iterable[T]]) -> Lineage[T]:
    readers = dependants(reads)
    # A source with a single reader cannot be shared.
    sources = [up for up in readers if up not in reads and len(readers[up]) > 1]
    nodes = [Component((name,), cyclic=False) for name in sorted(sources, key=str)]
    nodes += components(reads)
    place = {name: at for at, node in enumerate(nodes) for name in node.members}
    read = ({up for name in node.members for up in reads.get(name, ())} for node in nodes)
    upstreams = tuple(
        tuple(sorted({place[up] for up in ups if up in place} - {at}))
        for at, ups in enumerate(read)
    )
    up = _up(upstreams)
    twice = tuple(_twice(up[source] for source in direct) for direct in upstreams)
    between = _between(upstreams, up, twice)
    return Lineage(tuple(nodes), len(sources), upstreams, up, twice, between)


def bits(places: int) -> Iterator[int]:
    """The places that are set, smallest first."""
    while places:
        lowest = places & -places
        yield lowest.bit_length() - 1
        places ^= lowest


def mask(places: Iterable[int]) -> int:
    return union(1 << at for at in places)


def union(sets: Iterable[int]) -> int:
    return reduce(or_, sets, 0)


def _up(upstreams: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """up(D) = {D} ∪ ⋃ up(u) over the direct upstreams u."""
    up: list[int] = []
    for at, direct in enumerate(upstreams):
        up.append(1 << at | union(up[source] for source in direct))
    return tuple(up)


def _down(upstreams: Sequence[Sequence[int]]) -> list[int]:
    """down(A) = {A} ∪ ⋃ down(r) over the direct readers r."""
    down = [1 << at for at in range(len(upstreams))]
    for at in reversed(range(len(upstreams))):
        for source in upstreams[at]:
            down[source] |= down[at]
    return down


def _twice(sets: Iterable[int]) -> int:
    """What is in two of the sets or more."""
    once = again = 0
    for each in sets:
        again |= once & each
        once |= each
    return again


def _between(
    upstreams: Sequence[Sequence[int]], up: Sequence[int], twice: Sequence[int]
) -> tuple[int, ...]:
    """The intermediates of every node.

    N above D is one when some A above N has two readers that lead to D and reaches D through two of its
    upstreams.  With u for the direct upstreams of D:

    kin(u)     = what has an ancestor in common with u, or descends from it, but does not reach u
    parted(D)  = what lies below a table with two readers in up(D)
               = ⋃ parted(u) ∪ (up(D) ∩ ⋃ kin(u)), and D itself as soon as anything is parted
    between(D) = (up(D) ∩ ⋃ kin(u)) ∪ (twice(D) ∩ ⋃ parted(u))

    For if N is kin of u, the last table that the ways to N and to u have in common has one reader on
    each, and reaches D through u and through N's upstream.  If N is not kin of any u, the two
    readers lead to one and the same upstream, where N is parted already.
    """
    related = _down(upstreams)  # becomes ⋃ down(A) over all A in up(u)
    parted: list[int] = []
    between: list[int] = []
    for at, direct in enumerate(upstreams):
        above = up[at] ^ 1 << at
        kin = above & union(related[source] ^ up[source] for source in direct)
        before = union(parted[source] for source in direct)
        here = kin | before
        parted.append(here | 1 << at if here else 0)
        between.append(kin | twice[at] & before)
        related[at] |= union(related[source] for source in direct)
    return tuple(between)
