"""The graph in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.graph.drawing.words import group_title, said
from anabranch.graph.picture import Picture, PictureTable

SHAPES = {"ERROR": "#d64545", "SUSPENDED": "#c98a00", "INITIALIZING": "#3b7dd8"}
HEAD = """digraph anabranch {
  rankdir=TB
  node [shape=box, style="rounded,filled", fillcolor=white, color="#5b6470", fontname="monospace"]
  edge [color="#8a929c"]"""


def dot(picture: Picture) -> str:
    return "\n".join([HEAD, *_nodes(picture), *_edges(picture), "}"])


def _nodes(picture: Picture) -> Iterator[str]:
    known = {each.name: each for each in picture.tables}
    for group in picture.groups:
        yield f"  subgraph cluster_{group.number} {{"
        yield f'    label={_quoted(group_title(group))}; style="rounded,filled"; fillcolor="#e8f0fb"'
        yield from (f"    {_node(known[name])}" for name in group.members if name in known)
        yield "  }"
    yield from (f"  {_node(each)}" for each in picture.tables if each.group is None)


def _node(table: PictureTable) -> str:
    looks = {"label": f"{table.name}\n{said(table)}"}
    if table.facts is None:
        looks |= {"shape": "cylinder", "style": "filled"}
    elif table.facts.status in SHAPES:
        looks["color"] = SHAPES[table.facts.status]
    if table.converges:
        looks["peripheries"] = "2"
    shown = ", ".join(f"{key}={_quoted(value)}" for key, value in looks.items())
    return f"{_quoted(table.name)} [{shown}]"


def _edges(picture: Picture) -> Iterator[str]:
    yield from (f"  {_quoted(up)} -> {_quoted(name)}" for up, name in picture.edges)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
