"""What a user hears about diamonds and refresh groups."""

from __future__ import annotations

from anabranch.graph.notices import closed_diamonds, left_out, member_conflicts
from tests.unit.graph.random_graphs import graph


def closed(table: str, before: str, after: str) -> list[str]:
    found = closed_diamonds(table, graph(before), graph(f"{before} {after}"))
    return [
        f"{each.shared_source}: {' '.join(each.branches)}: {each.convergence}" for each in found
    ]


def test_a_new_table_closes_a_diamond() -> None:
    before = {"revenue_by_region": ["sales"], "revenue_by_product": ["sales"]}
    after = {**before, "exec_summary": ["revenue_by_region", "revenue_by_product"]}
    (notice,) = closed_diamonds("exec_summary", before, after)
    assert notice.shared_source == "sales"
    assert notice.branches == ("revenue_by_product", "revenue_by_region")
    assert str(notice) == (
        "stream table exec_summary closes a diamond: sales reaches it "
        "through revenue_by_product and through revenue_by_region"
    )


def test_a_triangle_is_said_as_such() -> None:
    (notice,) = closed_diamonds("D", graph("s>B"), graph("s>B>D s>D"))
    assert str(notice) == ("stream table D closes a diamond: s reaches it directly and through B")


def test_no_diamond_no_notice() -> None:
    assert closed("D", "s>B t>C", "B>D C>D") == []
    assert closed("D", "s>B", "B>D") == []


def test_branches_are_what_the_new_table_reads() -> None:
    assert closed("D", "s>A>B s>C", "B>D C>D") == ["s: B C: D"]


def test_only_the_nearest_shared_source_of_the_same_branches_is_named() -> None:
    assert closed("G", "a>B>D a>C>D D>E D>F", "E>G F>G") == ["D: E F: G"]
    assert closed("D", "s>A>B A>C", "B>D C>D") == ["A: B C: D"]


def test_every_shared_source_is_named() -> None:
    assert closed("D", "s>B t>B s>C t>C", "B>D C>D") == ["s: B C: D", "t: B C: D"]
    assert closed("D", "s>A>B A>C s>E", "B>D C>D E>D") == ["s: B C E: D", "A: B C: D"]


def test_diamonds_that_were_there_are_not_told_again() -> None:
    assert closed("E", "s>B>D s>C>D", "D>E") == []
    assert closed("C", "s>B>D s>C>D", "t>C") == []


def test_a_changed_table_may_close_a_diamond_below_it() -> None:
    assert closed("C", "s>B>D t>C>D", "s>C") == ["s: B C: D"]


def test_a_cycle_is_told_where_the_branches_meet() -> None:
    assert closed("E", "s>X s>Y", "X>D Y>D E>D>E") == ["s: E X Y: D"]


def test_joining_a_declared_group_from_outside() -> None:
    (notice,) = left_out("D", graph("m>B n>C B>D C>D"), {"pair": ["B", "C"], "other": ["X"]})
    assert (notice.group, notice.members) == ("pair", ("B", "C"))
    assert str(notice) == ("stream table D joins B and C of refresh group pair but is not in it")


def test_joining_a_declared_group_through_others() -> None:
    reads = graph("m>B n>C>Y B>D Y>D")
    assert [each.members for each in left_out("D", reads, {"pair": ["B", "C"]})] == [("B", "C")]


def test_who_is_in_the_group_or_reads_one_member_hears_nothing() -> None:
    reads = graph("m>B n>C B>D C>D D>E B>F B>G>H B>H")
    declared = {"pair": ["B", "C", "D"]}
    for name in "BDEFH":
        assert left_out(name, reads, declared) == []
    assert left_out("E", reads, {"pair": ["B", "C"]}) == []


def test_refresh_group_member_conflict() -> None:
    declared = {"one": ["A", "B"], "two": ["C"], "three": ["D", "B"]}
    assert member_conflicts(["B", "C"], declared) == {"one": ("B",), "three": ("B",), "two": ("C",)}
    assert member_conflicts(["X"], declared) == {}
