"""The graph for Graphviz and Mermaid."""

from __future__ import annotations

from anabranch.graph.drawing.dot import dot
from anabranch.graph.drawing.mermaid import mermaid
from anabranch.graph.picture import Facts
from tests.unit.graph.drawing.graphs import DIAMOND, shown

ODD = '`my "shop"`.`a<b&c`'


def test_dot() -> None:
    facts = {"S.C": Facts("ERROR", schedule="2s")}
    nodes, edges = dot(shown(DIAMOND, facts, night=["S.B", "S.C"])).split('  "s.a" [')
    assert nodes.splitlines()[4:] == [
        "  subgraph cluster_1 {",
        '    label="group 1 (night)"; style="rounded,filled"; fillcolor="#e8f0fb"',
        '    "S.B" [label="S.B\\nactive · 2s · 1m old"]',
        '    "S.C" [label="S.C\\nerror · 2s · never filled", color="#d64545"]',
        '    "S.D" [label="S.D\\nactive · 2s · 1m old", peripheries="2"]',
        "  }",
    ]
    assert edges.splitlines() == [
        'label="s.a\\nsource table", shape="cylinder", style="filled"]',
        '  "s.a" -> "S.B"',
        '  "s.a" -> "S.C"',
        '  "S.B" -> "S.D"',
        '  "S.C" -> "S.D"',
        "}",
    ]


def test_mermaid() -> None:
    facts = {"S.C": Facts("SUSPENDED")}
    assert (
        mermaid(shown(DIAMOND, facts))
        == """\
flowchart TD
  subgraph g1["group 1"]
    t1("S.B<br/>active · 2s · 1m old")
    t2("S.C<br/>suspended · by hand · never filled")
    t3{{"S.D<br/>active · 2s · 1m old"}}
  end
  t0[("s.a<br/>source table")]
  t0 --> t1
  t0 --> t2
  t1 --> t3
  t2 --> t3
  classDef SUSPENDED stroke:#c98a00,stroke-dasharray:4 3
  class t2 SUSPENDED"""
    )


def test_odd_names_cannot_break_out() -> None:
    picture = shown({ODD: ["s.a"]})
    assert '"`my \\"shop\\"`.`a<b&c`" [' in dot(picture)
    assert 't1("&#96;my &quot;shop&quot;&#96;.&#96;a&lt;b&amp;c&#96;<br/>' in mermaid(picture)
