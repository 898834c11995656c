"""Order, closure and connected parts of a dependency graph."""

from __future__ import annotations

import pytest
from hypothesis import given

from anabranch.graph.order import Cycle, closure, connected, dependants, topological
from tests.unit.graph.random_graphs import Reads, drawn, few, graph, reaches


def test_a_cycle_is_named_from_start_to_start() -> None:
    with pytest.raises(Cycle) as caught:
        topological(graph("s>A>B>C>A"))
    assert caught.value.path[0] == caught.value.path[-1]
    assert set(caught.value.path) == {"A", "B", "C"}
    with pytest.raises(Cycle, match="A -> A"):
        topological(graph("A>A"))


@few
@given(drawn(cyclic=False))
def test_topological_puts_upstreams_first(reads: Reads) -> None:
    order = topological(reads)
    assert sorted(order) == sorted(reads)
    for name, upstreams in reads.items():
        assert all(order.index(up) < order.index(name) for up in upstreams & reads.keys())


@few
@given(drawn(cyclic=True))
def test_closure_is_what_is_reached(reads: Reads) -> None:
    for name in reads:
        reached = {other for other in {"a", "b", *reads} if reaches(reads, name, other)}
        assert closure([name], reads) == {name} | reached


def test_dependants() -> None:
    assert dependants(graph("s>A>B s>B")) == {"s": {"A", "B"}, "A": {"B"}}


def test_connected_parts_hang_together_by_edges_among_themselves() -> None:
    reads = graph("s>A>B s>C D>E X>A")
    assert connected(["E", "C", "B", "D", "A"], reads) == [["E", "D"], ["C"], ["B", "A"]]
