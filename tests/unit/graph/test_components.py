"""Components: Tarjan, the condensation, and its order."""

from __future__ import annotations

import random

from hypothesis import given

from anabranch.graph.components import Component, component_ids, components, condensation, strong
from anabranch.graph.order import reads_among
from tests.unit.graph.random_graphs import Reads, by_components, drawn, few, graph


def members(reads: Reads) -> list[str]:
    return ["".join(part.members) for part in components(reads)]


def test_scc_no_cycles() -> None:
    found = components(graph("s>A>B>C"))
    assert found == [Component((name,), cyclic=False) for name in "ABC"]


def test_scc_simple_cycle() -> None:
    assert components(graph("A>B>A")) == [Component(("A", "B"), cyclic=True)]


def test_scc_mixed() -> None:
    reads = graph("A>B>A B>C>D>E>D")
    assert members(reads) == ["AB", "C", "DE"]
    assert [part.cyclic for part in components(reads)] == [True, False, True]


def test_scc_self_loop() -> None:
    assert components(graph("s>A>A")) == [Component(("A",), cyclic=True)]


def test_condensation_order_is_topological() -> None:
    reads = graph("s>Z>Y>Z Y>A Z>B A>C>D>C B>C D>M")
    found = condensation(reads)
    order = list(found)
    assert order == components(reads)
    assert [part.id for part in found[order[-2]]] == ["A", "B"]
    for part, upstreams in found.items():
        assert all(order.index(upstream) < order.index(part) for upstream in upstreams)


def test_dropping_a_member_breaks_the_cycle() -> None:
    reads = graph("s>A>B>C>A C>D")
    assert component_ids(reads) == {"A": "A", "B": "A", "C": "A"}
    del reads["B"]
    assert component_ids(reads) == {}


def test_base_sources_are_no_components() -> None:
    assert members({"T": {"gone", "s"}}) == ["T"]
    assert components({}) == []


def test_a_long_chain_needs_no_deep_stack() -> None:
    chain = [[at - 1] if at else [] for at in range(50_000)]
    assert len(strong(chain)) == 50_000
    chain[0] = [49_999]
    assert [len(found) for found in strong(chain)] == [50_000]


@few
@given(drawn(cyclic=True))
def test_components_are_what_reaches_each_other(reads: Reads) -> None:
    found = components(reads)
    assert {frozenset(part.members) for part in found} == by_components(reads)
    assert sum(len(part.members) for part in found) == len(reads)
    for part in found:
        alone = part.members[0] not in reads[part.members[0]] and len(part.members) == 1
        assert part.cyclic is not alone


@few
@given(drawn(cyclic=True))
def test_upstream_components_come_first(reads: Reads) -> None:
    place = {name: at for at, part in enumerate(components(reads)) for name in part.members}
    for name, upstreams in reads.items():
        assert all(place[up] <= place[name] for up in upstreams if up in place)


@few
@given(drawn(cyclic=True))
def test_the_order_depends_on_names_alone(reads: Reads) -> None:
    mixed = list(reads.items())
    random.Random(1).shuffle(mixed)
    assert components({name: sorted(ups, reverse=True) for name, ups in mixed}) == components(reads)


@few
@given(drawn(cyclic=True))
def test_parts_read_what_the_condensation_says(reads: Reads) -> None:
    among = reads_among(components(reads), reads)
    assert among == {part: set(ups) for part, ups in condensation(reads).items()}
