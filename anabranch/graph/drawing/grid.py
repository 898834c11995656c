"""The tables of a drawing in their layers, with a lane for each layer that an edge passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from anabranch.graph.drawing.layers import Edge, layers
from anabranch.graph.drawing.ordering import ordered


@dataclass(frozen=True)
class Grid:
    """Nodes are numbers: `names` first, then lanes.  `paths` lead from layer to layer."""

    names: tuple[str, ...]
    layers: tuple[tuple[int, ...], ...]
    paths: Mapping[Edge, tuple[int, ...]]

    @property
    def layer(self) -> dict[int, int]:
        return {node: at for at, nodes in enumerate(self.layers) for node in nodes}

    @property
    def turns(self) -> list[int]:
        """How many edges run between each layer and the next."""
        layer, found = self.layer, [0] * max(len(self.layers) - 1, 0)
        for path in self.paths.values():
            for node in path[:-1]:
                found[layer[node]] += 1
        return found

    def neighbours(self) -> dict[int, list[int]]:
        above, below = beside(self.paths.values())
        return {node: [*above.get(node, ()), *below.get(node, ())] for node in self.layer}


def grid(names: Sequence[str], down: Sequence[Edge]) -> Grid:
    place = {name: at for at, name in enumerate(names)}
    layer = layers(names, down)
    rows: list[list[int]] = [[] for _ in range(1 + max(layer.values(), default=-1))]
    for name in names:
        rows[layer[name]].append(place[name])
    paths: dict[Edge, tuple[int, ...]] = {}
    lanes = len(names)
    for up, name in down:
        passed = range(layer[up] + 1, layer[name])
        for at, row in enumerate(passed, lanes):
            rows[row].append(at)
        paths[up, name] = (place[up], *range(lanes, lanes + len(passed)), place[name])
        lanes += len(passed)
    above, below = beside(paths.values())
    best = ordered(rows, above, below)
    return Grid(tuple(names), tuple(map(tuple, best)), paths)


Beside = dict[int, list[int]]


def beside(paths: Iterable[tuple[int, ...]]) -> tuple[Beside, Beside]:
    """The nodes next to each node in the layer above and in the layer below."""
    above: Beside = {}
    below: Beside = {}
    for path in paths:
        for one, other in pairwise(path):
            above.setdefault(other, []).append(one)
            below.setdefault(one, []).append(other)
    return above, below
