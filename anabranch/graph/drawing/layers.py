"""Which layer of a drawing a table is in: one below everything it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from anabranch.graph.components import components
from anabranch.graph.order import dependants

Reads = Mapping[str, Iterable[str]]
Edge = tuple[str, str]  # upstream and reader


def parted(reads: Reads) -> tuple[list[Edge], list[Edge]]:
    """Edges that lead down, and those that close a cycle and have to lead back up."""
    order = [name for part in components(reads) for name in _turned(part.members, reads)]
    place = {name: at for at, name in enumerate(order)}
    down, back = list[Edge](), list[Edge]()
    for name in place:
        for up in sorted(set(reads[name])):
            (back if place.get(up, -1) >= place[name] else down).append((up, name))
    return down, back


def _turned(members: Sequence[str], reads: Reads) -> list[str]:
    """Members of a cycle in an order that few edges run against.

    Next comes whoever waits for the fewest others, and of these one that reads something outside.
    """
    waiting = {name: set(reads[name]).intersection(members) - {name} for name in members}
    entered = {name for name in members if not set(members).issuperset(reads[name])}
    order: list[str] = []
    while waiting:
        found = min(waiting, key=lambda name: (len(waiting[name]), name not in entered, name))
        del waiting[found]
        for rest in waiting.values():
            rest.discard(found)
        order.append(found)
    return order


def layers(names: Iterable[str], down: Iterable[Edge]) -> dict[str, int]:
    """layer(t) = 1 + the greatest layer it reads; what reads nothing sits above its first reader."""
    given = list(names)
    reads: dict[str, list[str]] = {name: [] for name in given}
    for up, name in down:
        reads[name].append(up)
    found: dict[str, int] = {}
    for part in components(reads):
        for name in part.members:
            found[name] = 1 + max((found[up] for up in reads[name]), default=-1)
    readers = dependants(reads)
    for name in given:
        if not reads[name] and name in readers:
            found[name] = min(found[reader] for reader in readers[name]) - 1
    return found
