"""The graph as text: golden small graphs, and that nothing is left out of large ones."""

from __future__ import annotations

import time
from collections import Counter
from itertools import takewhile

from hypothesis import given

from anabranch.graph.drawing.tree import ASCII, UNICODE, Line, Signs, tree
from anabranch.graph.picture import Facts, Picture
from tests.unit.graph.drawing.graphs import CYCLE, DIAMOND, shown
from tests.unit.graph.random_graphs import Reads, drawn, many


def text(picture: Picture, signs: Signs = UNICODE) -> str:
    return "\n".join("".join(span.text for span in line) for line in tree(picture, signs)) + "\n"


def test_a_diamond() -> None:
    facts = {
        "S.B": Facts("SUSPENDED", schedule=None),
        "S.D": Facts("ERROR", schedule="@hourly", staleness_seconds=7300, last_error="no column x"),
    }
    assert (
        text(shown(DIAMOND, facts))
        == """\
s.a          source
├─ S.B       SUSPENDED  by hand  never filled  group 1
│  └─ ◆ S.D  ERROR      @hourly  2h old        group 1
└─ S.C       ACTIVE     2s       1m old        group 1
   └─ ↑ ◆ S.D

diamonds
  ◆ S.D  meets s.a

groups, each published as one
  group 1, epoch 0  S.B, S.C, S.D

errors
  S.D  no column x
"""
    )


def test_a_cycle_without_unicode() -> None:
    assert (
        text(shown(CYCLE), ASCII)
        == """\
s.a           source
`- @ S.B      ACTIVE  2s  1m old  group 1
   `- @ S.C   ACTIVE  2s  1m old  group 1
      |- S.D  ACTIVE  2s  1m old
      `- ^ @ S.B

groups, each published as one
  group 1, epoch 0  S.B, S.C

cycles, each refreshed to a fixed point
  @ S.B  S.B, S.C
"""
    )


def test_tables_without_sources_and_cycles_without_entry() -> None:
    assert text(shown({"A": [], "B": ["C"], "C": ["B"]})).splitlines()[:4] == [
        "A       ACTIVE  2s  1m old",
        "↻ B     ACTIVE  2s  1m old  group 1",
        "└─ ↻ C  ACTIVE  2s  1m old  group 1",
        "   └─ ↑ ↻ B",
    ]


def test_many_tables_drawn_before_are_counted() -> None:
    reads = {f"T{at}": ["a", "b"] for at in range(9)}
    assert text(shown(reads)).splitlines()[10:12] == [
        "b      source",
        "└─ ↑ T0, T1, T2 and 6 more",
    ]


def test_nothing_is_drawn_when_there_is_nothing() -> None:
    assert tree(Picture()) == []


@many
@given(drawn(cyclic=True))
def test_every_table_once_and_every_edge(reads: Reads) -> None:
    picture = shown(reads)
    own, under = read_back(tree(picture))
    assert sorted(own) == sorted(each.name for each in picture.tables)
    readers = Counter(up for up, _ in picture.edges)
    assert under == readers


def read_back(lines: list[Line]) -> tuple[list[str], Counter[str]]:
    """The tables that are drawn, and how many readers stand under each."""
    own, under, path = list[str](), Counter[str](), list[str]()
    for line in takewhile(bool, lines):
        lead = line[0].text if line[0].style == "rail" else ""
        title = line[1] if lead else line[0]
        depth = len(lead) // 3
        name, count = title.text.replace("◆ ", "").replace("↻ ", ""), 1
        if title.style == "before":
            named, _, more = name.removeprefix("↑ ").removesuffix(" more").partition(" and ")
            count = len(named.split(", ")) + int(more or 0)
        else:
            own.append(name)
            path[depth:] = [name]
        if depth:
            under[path[depth - 1]] += count
    return own, under


def test_long_chains_are_no_trouble() -> None:
    reads = {f"T{at:04}": [f"T{at - 1:04}"] if at else ["a"] for at in range(1500)}
    started = time.process_time()
    assert len(tree(shown(reads))) == 1501
    assert time.process_time() - started < 5
