"""Consistency groups: shapes, the law by brute force, what the groups are for, and large graphs."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.graph.components import Component
from anabranch.graph.groups import ConsistencyGroup, consistency_groups
from tests.unit.graph.random_graphs import Reads, by_merging, by_paths, drawn, graph, many

drawn_members = st.lists(st.sampled_from("ABCDEFG"), max_size=3).map(set)
drawn_declared = st.dictionaries(st.sampled_from(["one", "two"]), drawn_members)


def shown(text: str, **declared: str) -> list[str]:
    """Members of every group, upstreams first; `declared` as one=`A B`."""
    named = {name: members.split() for name, members in declared.items()}
    return [" ".join(group.members) for group in consistency_groups(graph(text), named)]


def test_groups_simple_diamond() -> None:
    (group,) = consistency_groups(graph("a>B>D a>C>D"))
    assert group.members == ("B", "C", "D")
    assert group.convergence_points == ("D",)
    assert not group.is_singleton


def test_groups_singleton_non_diamond() -> None:
    groups = consistency_groups(graph("a>B>C"))
    assert [group.members for group in groups] == [("B",), ("C",)]
    assert all(group.is_singleton and not group.convergence_points for group in groups)


def test_groups_nested_merge() -> None:
    (group,) = consistency_groups(graph("a>B>D a>C>D D>E>G D>F>G"))
    assert group.members == ("B", "C", "D", "E", "F", "G")
    assert group.convergence_points == ("D", "G")


def test_groups_independent_diamonds() -> None:
    assert shown("a>B>D a>C>D x>Y>W x>Z>W") == ["B C D", "Y Z W"]


def test_independent_diamonds_over_one_source() -> None:
    assert shown("a>B>D a>C>D a>Y>W a>Z>W") == ["B C D", "Y Z W"]
    assert shown("s>A>B>D A>C>D A>Y>W A>Z>W") == ["A", "B C D", "Y Z W"]


def test_consistency_group_epoch_advance() -> None:
    group = ConsistencyGroup((Component(("A",), cyclic=False),))
    later = group.advance_epoch().advance_epoch()
    assert (group.epoch, later.epoch, later.members) == (0, 2, ("A",))


def test_consistency_group_is_singleton() -> None:
    assert ConsistencyGroup((Component(("A",), cyclic=True),)).is_singleton
    assert not ConsistencyGroup((Component(("A", "B"), cyclic=True),)).is_singleton


def test_the_id_is_the_smallest_member() -> None:
    (group,) = consistency_groups(graph("a>Z>M a>Y>M M>B"))[:1]
    assert group.members == ("Y", "Z", "M")
    assert group.id == "M"
    assert consistency_groups(graph("a>Z>M a>Y>M M>B x>A"))[1].id == "M"


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        pytest.param("a>B>D a>D", ["B D"], id="triangle"),
        pytest.param("a>B>D a>C>D a>C>E a>F>E", ["B C F D E"], id="overlapping"),
        pytest.param("a>B>D a>C>D B>E C>E", ["B C D E"], id="several convergence points"),
        pytest.param("o>A>C>E o>B>C t>B>D>E t>D", ["A B C D E"], id="nested over two sources"),
        pytest.param("s>A>B>D A>C>D", ["A", "B C D"], id="shared source is a stream table"),
        pytest.param("p>P>B>D a>B a>C>D", ["P", "C B D"], id="a private branch stays alone"),
        pytest.param("m>B1>B2>D n>C1>C2>D", ["B1", "C1", "B2", "C2", "D"], id="no shared source"),
        pytest.param("s>A>B>A B>C", ["A B", "C"], id="cycle"),
        pytest.param("s>X>A s>Y>B A>B>A", ["X Y A B"], id="cycle as convergence point"),
        pytest.param("s>X>D s>A>B>A B>D", ["A B X D"], id="cycle between"),
        pytest.param("s>A>A", ["A"], id="a table that reads itself"),
        pytest.param("a>D a>C>D>E>F>G", ["C D", "E", "F", "G"], id="a tail"),
    ],
)
def test_shapes(text: str, groups: list[str]) -> None:
    assert shown(text) == groups


def test_declared_groups_are_groups() -> None:
    groups = consistency_groups(graph("m>B>D n>C>D"), {"pair": ["B", "C"]})
    assert [group.members for group in groups] == [("B", "C"), ("D",)]
    assert [group.declared for group in groups] == [("pair",), ()]


def test_declared_groups_that_overlap_are_merged() -> None:
    assert shown("m>A n>B o>C p>D", one="A B", two="B C") == ["A B C", "D"]


def test_a_declared_group_merges_with_a_diamond() -> None:
    (first, second) = consistency_groups(graph("a>B>D a>C>D n>E o>F"), {"g": ["E", "C"]})
    assert first.members == ("B", "C", "E", "D")
    assert (first.declared, first.convergence_points) == (("g",), ("D",))
    assert second.members == ("F",)


def test_a_declared_group_takes_in_what_lies_between() -> None:
    assert shown("s>A>X>Y>B X>Z", g="A B") == ["A X Y B", "Z"]


def test_groups_that_wait_for_each_other_are_one() -> None:
    """one reads two and two reads one: neither could be published first."""
    assert shown("s>A>B t>C>D", one="A D", two="B C") == ["A C B D"]


def test_a_declared_group_may_name_a_part_of_a_cycle() -> None:
    assert shown("s>A>B>A t>C", g="A C") == ["A B C"]


def test_names_that_are_no_stream_tables_bind_nothing() -> None:
    assert shown("s>A t>B", g="A s dropped", h="") == ["A", "B"]
    assert shown("s>A s>B", g="A s", h="B s") == ["A", "B"]


def test_opting_out_dissolves_the_diamond() -> None:
    reads = graph("a>B>D a>C>D D>E>G D>F>G")
    for name in "BCD":
        groups = consistency_groups(reads, opted_out={name})
        assert all(group.is_singleton for group in groups)
        assert not any(group.convergence_points for group in groups)
    # The lower diamond has all the upper one between; the upper one knows nothing of the lower.
    assert [group.members for group in consistency_groups(reads, opted_out={"E"})] == [
        ("B", "C", "D"),
        ("E",),
        ("F",),
        ("G",),
    ]


def test_opting_out_frees_neither_cycles_nor_declared_groups() -> None:
    reads = graph("s>A>B>A t>C u>D")
    groups = consistency_groups(reads, {"g": ["C", "D"]}, opted_out=set(reads))
    assert [group.members for group in groups] == [("A", "B"), ("C", "D")]


@many
@given(drawn(cyclic=False), drawn_declared, drawn_members)
def test_groups_are_what_the_law_says(
    reads: Reads, declared: dict[str, set[str]], opted_out: set[str]
) -> None:
    compare(reads, declared, opted_out)


@many
@given(drawn(cyclic=True), drawn_declared, drawn_members)
def test_groups_are_what_the_law_says_with_cycles(
    reads: Reads, declared: dict[str, set[str]], opted_out: set[str]
) -> None:
    compare(reads, declared, opted_out)


def compare(reads: Reads, declared: dict[str, set[str]], opted_out: set[str]) -> None:
    groups = consistency_groups(reads, declared, opted_out)
    assert {frozenset(group.members) for group in groups} == by_merging(reads, declared, opted_out)
    assert sum(len(group.members) for group in groups) == len(reads)
    for group in groups:
        met = {
            low
            for low, (_, between) in by_paths(reads).items()
            if low in group.members and not {low, *between} & opted_out
        }
        assert set(group.convergence_points) == met
        held = {name for name, members in declared.items() if members & set(group.members)}
        assert set(group.declared) == held


@many
@given(drawn(cyclic=True), drawn_declared)
def test_groups_and_members_come_after_what_they_read(
    reads: Reads, declared: dict[str, set[str]]
) -> None:
    groups = consistency_groups(reads, declared)
    place = {name: at for at, group in enumerate(groups) for name in group.members}
    for group in groups:
        seen: set[str] = set()
        for part in group.components:
            seen |= set(part.members)
            for name in part.members:
                for upstream in reads[name] & place.keys():
                    assert place[upstream] < place[name] or upstream in seen


@many
@given(drawn(cyclic=True), drawn_declared, st.data())
def test_no_table_ever_sees_two_versions_of_a_source(
    reads: Reads, declared: dict[str, set[str]], data: st.DataObject
) -> None:
    """Ticks in which sources move on and any groups fail: a table has one version of each source.

    A member reads staged members and published others; a cycle ends with all its members' inputs.
    """
    groups = consistency_groups(reads, declared)
    published: dict[str, set[tuple[str, int]]] = {name: set() for name in reads}
    for tick in range(4):
        for group in groups:
            if data.draw(st.booleans()):
                continue
            for part in group.components:
                inputs = {up for name in part.members for up in reads[name]} - set(part.members)
                seen = [published.get(up, {(up, tick)}) for up in sorted(inputs)]
                published |= dict.fromkeys(part.members, set().union(*seen))
        for versions in published.values():
            assert len(versions) == len({source for source, _ in versions})


def large(tables: int, edges: int, near: int) -> Reads:
    """Random edges to one of the `near` tables before, or to a base source."""
    drawing = random.Random(7)
    reads: Reads = {f"T{at}": set() for at in range(tables)}
    for _ in range(edges):
        low = drawing.randrange(tables)
        high = drawing.randrange(low - near, low)
        reads[f"T{low}"].add(f"T{high}" if high >= 0 else f"s{-high}")
    return reads


@pytest.mark.parametrize("near", [50, 10_000, 40_000])
def test_ten_thousand_tables_take_less_than_two_seconds(near: int) -> None:
    reads = large(10_000, 50_000, near)
    start = time.process_time()
    groups = consistency_groups(reads)
    assert time.process_time() - start < 6  # three times the promise: machines differ
    assert sum(len(group.members) for group in groups) == 10_000
    assert max(len(group.members) for group in groups) > 2
