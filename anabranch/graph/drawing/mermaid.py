"""The graph in the language of Mermaid, which GitHub and many wikis draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anabranch.graph.drawing.words import group_title, said
from anabranch.graph.picture import Picture, PictureTable

CLASSES = {
    "ERROR": "stroke:#d64545,stroke-width:2px",
    "SUSPENDED": "stroke:#c98a00,stroke-dasharray:4 3",
}


def mermaid(picture: Picture) -> str:
    ids = {each.name: f"t{at}" for at, each in enumerate(picture.tables)}
    lines = ["flowchart TD", *_nodes(picture, ids)]
    lines += [f"  {ids[up]} --> {ids[name]}" for up, name in picture.edges]
    for status, style in CLASSES.items():
        marked = [ids[each.name] for each in picture.tables if _status(each) == status]
        if marked:
            lines += [f"  classDef {status} {style}", f"  class {','.join(marked)} {status}"]
    return "\n".join(lines)


def _nodes(picture: Picture, ids: Mapping[str, str]) -> Iterator[str]:
    known = {each.name: each for each in picture.tables}
    for group in picture.groups:
        yield f"  subgraph g{group.number}[{_quoted(group_title(group))}]"
        yield from (f"    {_node(known[name], ids)}" for name in group.members if name in known)
        yield "  end"
    yield from (f"  {_node(each, ids)}" for each in picture.tables if each.group is None)


def _node(table: PictureTable, ids: Mapping[str, str]) -> str:
    left, right = (
        ("[(", ")]") if table.is_source else ("{{", "}}") if table.converges else ("(", ")")
    )
    return f"{ids[table.name]}{left}{_quoted(table.name, said(table))}{right}"


def _quoted(*lines: str) -> str:
    """Mermaid reads HTML entities, and nothing else, inside quotes."""
    escaped = (
        line.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace("`", "&#96;")
        for line in lines
    )
    return '"' + "<br/>".join(escaped) + '"'


def _status(table: PictureTable) -> str | None:
    return table.facts.status if table.facts else None
