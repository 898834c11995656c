"""A layered layout: boxes apart, edges downwards, few crossings."""

from __future__ import annotations

import time
from itertools import combinations

import pytest
from hypothesis import given

from anabranch.graph.drawing.grid import beside, grid
from anabranch.graph.drawing.layers import layers, parted
from anabranch.graph.drawing.layout import BESIDE, Box, Layout, layout
from anabranch.graph.drawing.ordering import crossings, ordered
from anabranch.graph.drawing.spacing import spaced
from tests.unit.graph.random_graphs import Reads, drawn, graph, many


def laid(reads: Reads, down: bool | None = None) -> Layout:
    names = sorted({*reads, *(up for ups in reads.values() for up in ups)})
    return layout(reads, {name: (160.0 + 7 * len(name), 40.0) for name in names}, down)


def test_a_table_is_one_layer_below_what_it_reads() -> None:
    down, back = parted(graph("a>B>C>D a>D e>D"))
    found = layers(["a", "e", "B", "C", "D"], down)
    assert back == []
    assert found == {"a": 0, "B": 1, "C": 2, "D": 3, "e": 2}


def test_few_edges_of_a_cycle_lead_back() -> None:
    down, back = parted(graph("a>B>C>D>B D>E F>F"))
    assert back == [("D", "B"), ("F", "F")]
    assert ("B", "C") in down and ("C", "D") in down


def test_an_edge_that_passes_layers_has_a_lane_in_each() -> None:
    cells = grid(["a", "B", "C", "D"], [("a", "B"), ("B", "C"), ("C", "D"), ("a", "D")])
    assert cells.paths["a", "D"] == (0, 4, 5, 3)
    assert [len(layer) for layer in cells.layers] == [1, 2, 2, 1]
    assert cells.turns == [2, 2, 2]


def test_crossings_are_counted() -> None:
    below = {0: [2, 3], 1: [2, 3]}
    assert crossings([[0, 1], [2, 3]], below) == 1
    assert crossings([[0, 1], [2, 3]], {0: [3], 1: [2]}) == 1
    assert crossings([[0, 1], [2, 3]], {0: [2], 1: [3]}) == 0


def test_a_crossing_that_is_not_needed_goes() -> None:
    paths = [(0, 5), (1, 4), (2, 3)]
    above, below = beside(paths)
    best = ordered([[0, 1, 2], [3, 4, 5]], above, below)
    assert crossings(best, below) == 0


def test_nodes_stand_by_their_neighbours() -> None:
    middle = spaced([[0, 1, 2], [3]], dict.fromkeys(range(4), 10.0), {3: [0, 1, 2]}, gap=2.0)
    assert middle[3] == pytest.approx(middle[1])
    assert [middle[at] for at in range(3)] == pytest.approx([5.0, 17.0, 29.0])


@many
@given(drawn(cyclic=True))
def test_boxes_keep_apart_and_edges_lead_on(reads: Reads) -> None:
    for down in (True, False):
        found = laid(reads, down)
        assert all(apart(one, other) for one, other in combinations(found.boxes.values(), 2))
        assert len(found.ways) == sum(map(len, reads.values()))
        for way in found.ways:
            if not way.back:
                along = [point[1 if down else 0] for point in way.points]
                assert along == sorted(along) and along[0] < along[-1]
            assert all(0 <= x <= found.width and 0 <= y <= found.height for x, y in way.points)


def apart(one: Box, other: Box) -> bool:
    gap = BESIDE - 0.001
    return (
        one.x + one.width + gap <= other.x
        or other.x + other.width + gap <= one.x
        or one.y + one.height + gap <= other.y
        or other.y + other.height + gap <= one.y
    )


def test_a_chain_goes_down_and_a_wide_graph_to_the_right() -> None:
    assert laid(graph(">".join("aBCDEFGHIJ"))).down
    assert not laid({f"T{at}": {"a"} for at in range(20)}).down


def test_three_hundred_tables_take_no_time() -> None:
    reads = {
        f"T{at}": {f"T{at - step}" for step in (20, 21, 27) if at >= step} or {"a"}
        for at in range(300)
    }
    started = time.process_time()
    laid(reads)
    assert time.process_time() - started < 10
