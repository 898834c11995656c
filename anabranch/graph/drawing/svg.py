"""The graph as an SVG picture that is readable on light and on dark ground.

Boxes bring their own ground; all else is in middle tones, and nothing is fetched from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import pairwise

from anabranch.graph.drawing.layout import Box, Layout, Point, Way, layout
from anabranch.graph.drawing.words import cells, group_title, said, shortened
from anabranch.graph.picture import Picture, PictureTable

FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
LETTER = 0.61  # width of a letter of these fonts, in sizes
NAME, NOTE = 13.0, 10.5
INSIDE, HEIGHT = 14.0, 44.0
LONGEST = 42  # letters of a name
MARGIN = 28.0
HALO = 11.0
BEND = 0.5  # how far along its way an edge turns

LINE = "#8a929c"
STATUS = {
    "ACTIVE": "#2e9e5b",
    "SUSPENDED": "#c98a00",
    "ERROR": "#d64545",
    "INITIALIZING": "#3b7dd8",
}
TINTS = ("#4f8ff7", "#f29f3d", "#3fb984", "#c678dd", "#e8607a", "#2bb5c4", "#a5a03a", "#8c7ae6")
STYLE = f"""
    text {{ font-family: {FONT}; }}
    .name {{ font-size: {NAME}px; font-weight: 600; fill: #1c2530; }}
    .schema {{ font-weight: 400; fill: #66707c; }}
    .note {{ font-size: {NOTE}px; fill: #56606c; }}
    .legend {{ font-size: {NOTE + 0.5}px; fill: {LINE}; }}
    .box {{ fill: #ffffff; stroke: #5b6470; stroke-width: 1.2; }}
    .source {{ fill: #eef1f5; stroke-dasharray: 4 3; }}
    .edge {{ fill: none; stroke: {LINE}; stroke-width: 1.4; }}
    .back {{ stroke-dasharray: 5 4; }}
  """
TIP = (
    '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    f'orient="auto"><path d="M0 0.5 L8 4 L0 7.5 Z" fill="{LINE}"/></marker>'
)


def svg(picture: Picture, down: bool | None = None) -> str:
    sizes = {each.name: (_width(each), HEIGHT) for each in picture.tables}
    laid = layout(picture.reads, sizes, down)
    legend = list(_legend(picture))
    longest = max((cells(text) * (NOTE + 0.5) * LETTER + 30 for _, text in legend), default=0.0)
    width = max(laid.width, longest) + 2 * MARGIN
    height = laid.height + 2 * MARGIN + len(legend) * 18 + (12 if legend else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(width)}" height="{_n(height)}" '
        f'viewBox="0 0 {_n(width)} {_n(height)}" role="img">',
        "  <title>Stream tables and what they read</title>",
        f"  <style>{STYLE}</style>",
        f"  <defs>{TIP}</defs>",
        f'  <g transform="translate({_n(MARGIN)} {_n(MARGIN)})">',
        *_halos(picture, laid),
        *(_edge(way, laid.down) for way in laid.ways),
        *(_table(each, laid.boxes[each.name]) for each in picture.tables),
        *_legend_lines(legend, laid.height + 24),
        "  </g>",
        "</svg>",
    ]
    return "\n".join(parts)


def _width(table: PictureTable) -> float:
    name = cells(shortened(table.name, LONGEST)) * NAME * LETTER
    marks = 18.0 * (table.converges + bool(table.component))
    note = cells(said(table)) * NOTE * LETTER + 12.0
    return round(max(name + marks, note) + 2 * INSIDE, 1)


def _table(table: PictureTable, box: Box) -> str:
    kind = "box source" if table.is_source else "box"
    stroke = STATUS.get(table.facts.status) if table.facts else None
    left, right = box.x + INSIDE, box.x + box.width - INSIDE
    marks = _marks(table, right, box.y + 15)
    note_at = left
    dot = ""
    if stroke:
        dot = f'<circle cx="{_n(left + 3.5)}" cy="{_n(box.y + 31)}" r="3.5" fill="{stroke}"/>'
        note_at += 12
    return (
        f'    <g><title>{escape(_told(table))}</title><rect class="{kind}" x="{_n(box.x)}" '
        f'y="{_n(box.y)}" width="{_n(box.width)}" height="{_n(box.height)}" rx="7"/>'
        f'<text class="name" x="{_n(left)}" y="{_n(box.y + 19)}">{_name(table.name)}</text>{marks}{dot}'
        f'<text class="note" x="{_n(note_at)}" y="{_n(box.y + 35)}">{escape(said(table))}</text></g>'
    )


def _name(name: str) -> str:
    """The schema stands back behind the table."""
    shown = shortened(name, LONGEST)
    schema, dot, own = shown.rpartition(".")
    if not dot or "`" in shown:
        return escape(shown)
    return f'<tspan class="schema">{escape(schema)}.</tspan>{escape(own)}'


def _marks(table: PictureTable, right: float, middle: float) -> str:
    found = ""
    if table.converges:
        found += _diamond(right - 5, middle)
        right -= 18
    if table.component:
        found += _circle(right - 5, middle)
    return found


def _diamond(x: float, y: float) -> str:
    corners = [(x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y)]
    return f'<path d="M{" L".join(_p(corner) for corner in corners)} Z" fill="{TINTS[0]}"/>'


def _circle(x: float, y: float) -> str:
    corners = [(x, y - 8), (x + 4.5, y - 5), (x, y - 2)]
    return (
        f'<path class="edge" d="M{_p((x + 5, y))} A5 5 0 1 1 {_p((x, y - 5))}"/>'
        f'<path d="M{" L".join(_p(corner) for corner in corners)} Z" fill="{LINE}"/>'
    )


def _told(table: PictureTable) -> str:
    lines = [table.name, said(table)]
    if table.shared_sources:
        lines.append("meets " + ", ".join(table.shared_sources))
    if table.facts and table.facts.last_error:
        lines.append(table.facts.last_error)
    return "\n".join(lines)


def _edge(way: Way, down: bool) -> str:
    kind = "edge back" if way.back else "edge"
    return f'    <path class="{kind}" d="{_path(way, down)}" marker-end="url(#tip)"/>'


def _path(way: Way, down: bool) -> str:
    if way.back:
        start, *curve = way.points
        return f"M{_p(start)} C{' '.join(_p(point) for point in curve)}"
    steps = [f"M{_p(way.points[0])}"]
    for at, (one, other) in enumerate(pairwise(way.points)):
        steps.append(_curve(one, other, down) if at % 2 else f"L{_p(other)}")
    return " ".join(steps)


def _curve(one: Point, other: Point, down: bool) -> str:
    """Leaves and arrives along the layers' direction."""
    if down:
        half = (other[1] - one[1]) * BEND
        handles = (one[0], one[1] + half), (other[0], other[1] - half)
    else:
        half = (other[0] - one[0]) * BEND
        handles = (one[0] + half, one[1]), (other[0] - half, other[1])
    return f"C{_p(handles[0])} {_p(handles[1])} {_p(other)}"


def _halos(picture: Picture, laid: Layout) -> Iterator[str]:
    """Around the members of a group and along the edges between them, and so around nobody else."""
    for group in picture.groups:
        inside = laid.boxes.keys() & set(group.members)
        ways = [way for way in laid.ways if {way.upstream, way.reader} <= inside]
        tint = _tint(group.number)
        yield f'    <g opacity="0.26" fill="{tint}" stroke="{tint}" stroke-linejoin="round">'
        for name in sorted(inside):
            yield f"      {_halo(laid.boxes[name])}"
        for way in ways:
            yield f'      <path d="{_path(way, laid.down)}" fill="none" stroke-width="{_n(HALO)}"/>'
        yield "    </g>"


def _halo(box: Box) -> str:
    return (
        f'<rect x="{_n(box.x - HALO)}" y="{_n(box.y - HALO)}" width="{_n(box.width + 2 * HALO)}" '
        f'height="{_n(box.height + 2 * HALO)}" rx="{_n(HALO + 4)}" stroke="none"/>'
    )


def _legend(picture: Picture) -> Iterator[tuple[str, str]]:
    """A drawing of 20 by 12, and what it means."""
    for group in picture.groups:
        tint = _tint(group.number)
        swatch = f'<rect width="18" height="12" rx="4" fill="{tint}" opacity="0.45"/>'
        yield swatch, f"{group_title(group)}: published together, epoch {group.epoch}"
    if any(each.converges for each in picture.tables):
        yield _diamond(9, 6), "a source arrives here by several paths"
    if picture.components:
        yield _circle(9, 6), "read each other: refreshed to a fixed point"


def _legend_lines(legend: list[tuple[str, str]], top: float) -> Iterator[str]:
    for at, (drawing, text) in enumerate(legend):
        y = top + at * 18
        yield (
            f'    <g transform="translate(0 {_n(y)})">{drawing}'
            f'<text class="legend" x="28" y="10">{escape(text)}</text></g>'
        )


def _tint(number: int) -> str:
    return TINTS[(number - 1) % len(TINTS)]


def _p(point: Point) -> str:
    return f"{_n(point[0])} {_n(point[1])}"


def _n(value: float) -> str:
    """A number with one digit after the point, and none that says nothing."""
    return f"{value:.1f}".rstrip("0").rstrip(".")
