"""Where the nodes of each layer stand: near their neighbours, in order, and never on each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

ROUNDS = 16


def spaced(
    layers: Sequence[Sequence[int]],
    size: Mapping[int, float],
    neighbours: Mapping[int, Sequence[int]],
    gap: float,
) -> dict[int, float]:
    """The middle of every node across the layers; the smallest edge is at 0."""
    middle: dict[int, float] = {}
    for layer in layers:
        middle |= dict(zip(layer, _kept_apart(layer, [0.0] * len(layer), size, gap), strict=True))
    for turn in range(ROUNDS):
        for layer in layers if turn % 2 == 0 else reversed(layers):
            wished = [_wish(node, middle, neighbours) for node in layer]
            middle |= dict(zip(layer, _kept_apart(layer, wished, size, gap), strict=True))
    least = min((middle[node] - size[node] / 2 for node in middle), default=0.0)
    return {node: at - least for node, at in middle.items()}


def _wish(node: int, middle: Mapping[int, float], neighbours: Mapping[int, Sequence[int]]) -> float:
    near = [middle[each] for each in neighbours.get(node, ())]
    return sum(near) / len(near) if near else middle[node]


def _kept_apart(
    layer: Sequence[int], wished: Sequence[float], size: Mapping[int, float], gap: float
) -> list[float]:
    """The places closest to the wishes, by least squares, that keep order and distance.

    Without the distances it is an isotonic regression: neighbours in the wrong order share their mean.
    """
    offsets = [0.0]
    for one, other in pairwise(layer):
        offsets.append(offsets[-1] + (size[one] + size[other]) / 2 + gap)
    pools: list[tuple[float, int]] = []  # mean and count
    for wish, offset in zip(wished, offsets, strict=False):
        mean, count = wish - offset, 1
        while pools and pools[-1][0] > mean:
            before, held = pools.pop()
            mean, count = (before * held + mean * count) / (held + count), held + count
        pools.append((mean, count))
    means = [mean for mean, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=False)]
