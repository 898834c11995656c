"""In which order the nodes of each layer stand, so that few edges cross."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from itertools import pairwise

SWEEPS = 12

Layers = list[list[int]]
Neighbours = Mapping[int, Sequence[int]]


def ordered(layers: Layers, above: Neighbours, below: Neighbours) -> Layers:
    """Sweep down and up, each node to the middle of its neighbours; the best order seen is kept."""
    best = current = [list(layer) for layer in layers]
    least = crossings(best, below)
    for sweep in range(SWEEPS):
        current = _swept(current, above if sweep % 2 == 0 else below, down=sweep % 2 == 0)
        found = crossings(current, below)
        if found < least:
            best, least = current, found
        if least == 0:
            break
    return best


def _swept(layers: Layers, neighbours: Neighbours, *, down: bool) -> Layers:
    result = [list(layer) for layer in layers]
    turns = range(1, len(layers)) if down else range(len(layers) - 2, -1, -1)
    for at in turns:
        place = {node: spot for spot, node in enumerate(result[at - 1 if down else at + 1])}
        centre = {
            node: _mean([place[each] for each in neighbours.get(node, ())], spot)
            for spot, node in enumerate(result[at])
        }
        result[at].sort(key=centre.__getitem__)
    return result


def _mean(places: Sequence[int], otherwise: int) -> float:
    return sum(places) / len(places) if places else float(otherwise)


def crossings(layers: Layers, below: Neighbours) -> int:
    """Pairs of edges that cross: inversions among the lower ends, taken by their upper ends."""
    total = 0
    for upper, lower in pairwise(layers):
        place = {node: spot for spot, node in enumerate(lower)}
        seen: list[int] = []
        for node in upper:
            ends = sorted(place[each] for each in below.get(node, ()))
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total
