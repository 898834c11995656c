"""The picture of a graph: who is in it, and what is said of whom."""

from __future__ import annotations

from anabranch.graph.groups import consistency_groups
from anabranch.graph.picture import Facts, Picture, picture
from tests.unit.graph.random_graphs import graph


def drawn(text: str, **declared: str) -> Picture:
    reads = graph(text)
    named = {name: members.split() for name, members in declared.items()}
    return picture(reads, {}, consistency_groups(reads, named))


def test_sources_come_first_and_upstreams_before_their_readers() -> None:
    shown = drawn("b>C>B a>B")
    assert [each.name for each in shown.tables] == ["a", "b", "C", "B"]
    assert [each.is_source for each in shown.tables] == [True, True, False, False]
    assert shown.edges == [("b", "C"), ("C", "B"), ("a", "B")]


def test_a_diamond_has_its_shared_source_and_its_group() -> None:
    shown = drawn("a>B>D a>C>D D>E")
    meeting = {each.name: each.shared_sources for each in shown.tables if each.converges}
    assert meeting == {"D": ("a",)}
    (group,) = shown.groups
    assert group.members == ("B", "C", "D") and group.convergence_points == ("D",)
    assert shown.data()["groups"][0]["group_id"] == shown.data()["tables"][1]["group_id"] == "B"
    assert {each.name: each.group for each in shown.tables if each.group} == dict.fromkeys("BCD", 1)


def test_declared_groups_and_cycles() -> None:
    shown = drawn("a>B>C>B d>E", night="B E")
    assert [group.declared for group in shown.groups] == [("night",)]
    assert shown.components == (("B", "C"),)
    assert {each.name: each.component for each in shown.tables if each.component} == {
        "B": "B",
        "C": "B",
    }


def test_the_surroundings_of_one_table() -> None:
    shown = drawn("a>B>D a>C>D e>F f>D").around("B")
    assert [each.name for each in shown.tables] == ["a", "B", "D"]
    assert shown.reads["D"] == ("B",)
    assert len(shown.groups) == 1
    assert drawn("a>B e>F").around("F").groups == ()


def test_facts_and_what_programs_get() -> None:
    reads = graph("a>B")
    facts = {"B": Facts("ERROR", "FULL", "2s", 3.5, "no such column")}
    data = picture(reads, facts, consistency_groups(reads)).data()
    assert data["edges"] == [{"upstream": "a", "table": "B"}]
    assert data["tables"][0]["kind"] == "source table"
    assert data["tables"][1] == {
        "name": "B",
        "kind": "stream table",
        "reads": ["a"],
        "shared_sources": [],
        "group_id": None,
        "scc_id": None,
        "status": "ERROR",
        "refresh_mode": "FULL",
        "schedule": "2s",
        "staleness_seconds": 3.5,
        "last_error": "no such column",
    }
