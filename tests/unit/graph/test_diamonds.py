"""Diamonds of every shape, and against the law read out path by path."""

from __future__ import annotations

import pytest
from hypothesis import given

from anabranch.graph.diamonds import Diamond, diamond_at, diamonds
from tests.unit.graph.random_graphs import Reads, by_paths, drawn, few, graph, many


def shown(text: str) -> list[str]:
    """`shared sources | intermediates | convergence point`, each sorted."""
    return sorted(
        f"{' '.join(sorted(each.shared_sources))} | "
        f"{' '.join(sorted(each.intermediates))} | {each.convergence}"
        for each in diamonds(graph(text))
    )


def test_detect_diamonds_simple() -> None:
    assert diamonds(graph("a>B>D a>C>D")) == [Diamond("D", ("a",), ("B", "C"))]


def test_detect_diamonds_deep() -> None:
    assert shown("a>B>E>D a>C>D") == ["a | B C E | D"]


def test_detect_diamonds_none_linear() -> None:
    assert shown("a>B>C") == []


def test_detect_diamonds_overlapping() -> None:
    assert shown("a>B>D a>C>D a>C>E a>F>E") == ["a | B C | D", "a | C F | E"]


def test_detect_diamonds_multiple_roots_no_diamond() -> None:
    assert shown("b>B>D c>C>D") == []


def test_independent_sources_that_converge_are_no_diamond() -> None:
    assert shown("m>B1>B2>D n>C1>C2>D") == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("a>B>D a>D", ["a | B | D"], id="triangle"),
        pytest.param("a>B>C>D a>D", ["a | B C | D"], id="deep triangle"),
        pytest.param("s>A>B>D A>D", ["A | B | D"], id="triangle over a stream table"),
        pytest.param("s>A>B>D A>C>D", ["A | B C | D"], id="shared source is a stream table"),
        pytest.param(
            "s>Z>A>B>D A>C>D", ["A | B C | D"], id="what all paths run through is not between"
        ),
        pytest.param("s>A>B>D A>C>D s>D", ["A s | A B C | D"], id="unless a path goes round it"),
        pytest.param("s>A>B>D A>C>D s>E>D", ["A s | A B C E | D"], id="or another branch does"),
        pytest.param("a>B>D b>B a>C>D b>C", ["a b | B C | D"], id="several shared sources"),
        pytest.param(
            "a>B>D a>C>D B>E C>E", ["a | B C | D", "a | B C | E"], id="several convergence points"
        ),
        pytest.param("a>B>E a>C>E a>D>E", ["a | B C D | E"], id="three branches"),
        pytest.param("p>P>B>D a>B a>C>D", ["a | B C | D"], id="a private branch is not between"),
        pytest.param("a>B>D a>C>D>E>F", ["a | B C | D"], id="a tail is no convergence point"),
        pytest.param("a>B>D b>C>D a>X b>X", [], id="two sources that one other table shares"),
        pytest.param(
            "a>B>D a>C>D D>E>G D>F>G",
            ["a | B C | D", "D a | B C D E F | G"],
            id="one after the other",
        ),
        pytest.param(
            "a>B>D a>C>D D>X>E>G X>F>G",
            ["a | B C | D", "X a | B C D E F X | G"],
            id="with a link between",
        ),
        pytest.param("a>B>C>F B>D>F a>E>F", ["B a | B C D E | F"], id="nested"),
        pytest.param(
            "a>B>B2>D a>C>C2>D B>C2", ["a | B C | C2", "B a | B B2 C C2 | D"], id="crossed"
        ),
    ],
)
def test_shapes(text: str, found: list[str]) -> None:
    assert shown(text) == sorted(found)


def test_diamonds_of_two_sources_nested() -> None:
    """source 1 → A, B; source 2 → B, D; A and B → C; B → D; C and D → E."""
    found = {each.convergence: each for each in diamonds(graph("o>A>C>E o>B>C t>B>D>E t>D"))}
    assert found.keys() == {"C", "D", "E"}
    assert found["C"].shared_sources == ("o",)
    assert set(found["C"].intermediates) == {"A", "B"}
    assert found["D"] == Diamond("D", ("t",), ("B",))
    assert set(found["E"].shared_sources) == {"o", "t", "B"}
    assert set(found["E"].intermediates) == {"A", "B", "C", "D"}


def test_a_cycle_counts_as_one_node() -> None:
    assert shown("s>A>B>A") == []
    found = {each.convergence: each for each in diamonds(graph("s>X>A s>Y>B A>B>A"))}
    assert found.keys() == {"A", "B"}
    assert found["A"].shared_sources == ("s",)
    assert set(found["A"].intermediates) == {"X", "Y", "B"}
    assert set(found["B"].intermediates) == {"X", "Y", "A"}


def test_a_cycle_is_a_shared_source_as_a_whole() -> None:
    (found,) = diamonds(graph("s>P>Q>P P>B>D Q>C>D"))
    assert found == Diamond("D", ("P", "Q"), ("B", "C"))


def test_members_end_with_the_convergence_point() -> None:
    (found,) = diamonds(graph("a>Y>Z>B a>X>B"))
    assert found.members[-1] == "B"
    assert found.intermediates.index("Y") < found.intermediates.index("Z")


def test_diamond_at_looks_upwards_only() -> None:
    reads = graph("a>B>D a>C>D D>E>G D>F>G")
    assert diamond_at("D", reads) == Diamond("D", ("a",), ("B", "C"))
    assert diamond_at("B", reads) is None
    assert diamond_at("unknown", reads) is None


def compare(reads: Reads) -> None:
    found = {each.convergence: each for each in diamonds(reads)}
    expected = by_paths(reads)
    assert {
        name: (set(each.shared_sources), set(each.intermediates)) for name, each in found.items()
    } == expected
    for name in reads:
        assert diamond_at(name, reads) == found.get(name)


@many
@given(drawn(cyclic=False))
def test_diamonds_are_what_the_paths_say(reads: Reads) -> None:
    compare(reads)


@many
@given(drawn(cyclic=True))
def test_diamonds_are_what_the_paths_say_with_cycles(reads: Reads) -> None:
    compare(reads)


@few
@given(drawn(cyclic=False, tables=11))
def test_diamonds_of_larger_graphs(reads: Reads) -> None:
    compare(reads)
