"""A layered layout: boxes by what they read, and the ways between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from anabranch.graph.drawing.grid import Grid, grid
from anabranch.graph.drawing.layers import Edge, parted
from anabranch.graph.drawing.spacing import spaced

Point = tuple[float, float]
RATIO = 1.6  # width to height of a page that people like to look at
BESIDE = 24.0  # between boxes of a layer
BETWEEN = 52.0  # between layers,
TURN = 1.2  # and for each edge that turns there,
MOST = 90.0  # but not more
LANE = 6.0  # width of an edge that passes a layer
BOW = 30.0  # how far an edge that leads back swings out
APART = 7.0  # its ends from the middle of a box


@dataclass(frozen=True)
class Box:
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Way:
    """An edge: straight from its first point to the second, curved to the third, and so on.

    One that closes a cycle leads `back`: a single curve, its two inner points the handles.
    """

    upstream: str
    reader: str
    points: tuple[Point, ...]
    back: bool = False


@dataclass(frozen=True)
class Layout:
    """`down` when layers lie one under the other, else side by side."""

    width: float
    height: float
    boxes: Mapping[str, Box]
    ways: tuple[Way, ...]
    down: bool

    @property
    def strain(self) -> float:
        """How far the form is from a page: 1 is best."""
        ratio = max(self.width, 1.0) / max(self.height, 1.0) / RATIO
        return max(ratio, 1 / ratio)


def layout(
    reads: Mapping[str, Iterable[str]],
    sizes: Mapping[str, tuple[float, float]],
    down: bool | None = None,
) -> Layout:
    """Layers downwards or to the right, whichever makes the better page.

    The keys of `sizes` are all tables, those of `reads` the ones that may read others.
    """
    forward, back = parted(reads)
    cells = grid(list(sizes), forward)
    turns = [True, False] if down is None else [down]
    return min((Sheet(cells, sizes, turn).laid(back) for turn in turns), key=lambda it: it.strain)


class Sheet:
    """Measures: `along` the way that changes take through the layers, and `across` it."""

    def __init__(self, cells: Grid, sizes: Mapping[str, tuple[float, float]], down: bool) -> None:
        self.cells = cells
        self.sizes = sizes
        self.down = down
        self.layer = cells.layer
        widths = {node: LANE for layer in cells.layers for node in layer}
        widths |= {at: self._turned(sizes[name])[1] for at, name in enumerate(cells.names)}
        self.across = spaced(cells.layers, widths, cells.neighbours(), BESIDE)
        self.depths = [
            max(self._turned(sizes[cells.names[at]])[0] for at in layer if at < len(cells.names))
            for layer in cells.layers
        ]
        self.starts = [0.0]
        for depth, turns in zip(self.depths, cells.turns, strict=False):
            self.starts.append(self.starts[-1] + depth + BETWEEN + min(TURN * turns, MOST))

    def _turned(self, pair: tuple[float, float]) -> tuple[float, float]:
        """x and y from along and across, and back."""
        return (pair[1], pair[0]) if self.down else pair

    def laid(self, back: Iterable[Edge]) -> Layout:
        boxes = {name: self._box(at) for at, name in enumerate(self.cells.names)}
        ways = [self._way(edge, path) for edge, path in self.cells.paths.items()]
        ways += [self._returning(edge, boxes) for edge in back]
        right = max((box.x + box.width for box in boxes.values()), default=0.0)
        bottom = max((box.y + box.height for box in boxes.values()), default=0.0)
        for way in ways:
            right = max(right, *(x for x, _ in way.points))
            bottom = max(bottom, *(y for _, y in way.points))
        return Layout(right, bottom, boxes, tuple(ways), self.down)

    def _box(self, at: int) -> Box:
        """Boxes of a layer begin together."""
        width, height = self.sizes[self.cells.names[at]]
        wide = self._turned((width, height))[1]
        x, y = self._turned((self.starts[self.layer[at]], self.across[at] - wide / 2))
        return Box(x, y, width, height)

    def _way(self, edge: Edge, path: tuple[int, ...]) -> Way:
        """To the end of the first layer, through each lane, to the start of the last box."""
        layer = self.layer
        long = self._turned(self.sizes[self.cells.names[path[0]]])[0]
        points = [(self.starts[layer[path[0]]] + long, self.across[path[0]])]
        for one, other in pairwise(path):
            points += [(self.starts[layer[one]] + self.depths[layer[one]], self.across[one])]
            points += [(self.starts[layer[other]], self.across[other])]
        return Way(*edge, tuple(self._turned(point) for point in points))

    def _returning(self, edge: Edge, boxes: Mapping[str, Box]) -> Way:
        """From the side of the upstream's box to the side of the reader's, in a bow."""
        (start, one), (end, other) = (self._side(boxes[name]) for name in edge)
        far = max(one, other) + BOW
        points = (
            (start + APART, one),
            (start + APART, far),
            (end - APART, far),
            (end - APART, other),
        )
        return Way(*edge, tuple(self._turned(point) for point in points), back=True)

    def _side(self, box: Box) -> tuple[float, float]:
        """The middle of a box, along, and its far edge, across."""
        long, wide = self._turned((box.width, box.height))
        along, across = self._turned((box.x, box.y))
        return along + long / 2, across + wide
