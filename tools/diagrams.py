"""Writes the diagrams of docs/images: boxes, arrows and words, as SVG that asks nothing of a network.

`python tools/diagrams.py`.  A diagram is a list of shapes; `make docs` writes those that have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"

INK, QUIET, LINE, PAPER = "#22303c", "#5b6b79", "#7d8fa0", "#ffffff"
FILLS = {
    "plain": "#f2f5f8",
    "source": "#fff4dc",
    "good": "#dff3ec",
    "bad": "#fde3e1",
    "main": "#dcebfa",
}
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Box:
    x: int
    y: int
    w: int
    h: int
    title: str
    lines: tuple[str, ...] = ()
    fill: str = "plain"

    def svg(self) -> str:
        middle = self.x + self.w / 2
        first = self.y + self.h / 2 + 5 - 9 * len(self.lines)
        texts = [text(middle, first, self.title, bold=True)]
        texts += [
            text(middle, first + 18 * (at + 1), line, quiet=True)
            for at, line in enumerate(self.lines)
        ]
        shape = (
            f'<rect x="{self.x}" y="{self.y}" width="{self.w}" height="{self.h}" rx="7" '
            f'fill="{FILLS[self.fill]}" stroke="{LINE}"/>'
        )
        return "\n".join((shape, *texts))


@dataclass(frozen=True)
class Arrow:
    points: tuple[tuple[int, int], ...]

    def svg(self) -> str:
        path = " L ".join(f"{x} {y}" for x, y in self.points)
        style = f'fill="none" stroke="{QUIET}" stroke-width="1.6" marker-end="url(#tip)"'
        return f'<path d="M {path}" {style}/>'


@dataclass(frozen=True)
class Words:
    x: int
    y: int
    said: str
    bold: bool = False
    left: bool = False

    def svg(self) -> str:
        return text(self.x, self.y, self.said, bold=self.bold, quiet=not self.bold, left=self.left)


Shape = Box | Arrow | Words


def text(
    x: float, y: float, said: str, *, bold: bool = False, quiet: bool = False, left: bool = False
) -> str:
    anchor = "start" if left else "middle"
    weight = ' font-weight="600"' if bold else ""
    size, ink = (13, QUIET) if quiet else (14, INK)
    style = f'text-anchor="{anchor}" font-size="{size}" fill="{ink}"{weight}'
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(said)}</text>'


def drawing(width: int, height: int, what: str, shapes: Sequence[Shape]) -> str:
    body = "\n".join(shape.svg() for shape in shapes)
    tip = 'viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"'
    size = f'viewBox="0 0 {width} {height}" width="{width}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">
<title>{escape(what)}</title>
<defs><marker id="tip" {tip}>
<path d="M 0 0 L 10 5 L 0 10 z" fill="{QUIET}"/></marker></defs>
<rect width="{width}" height="{height}" rx="10" fill="{PAPER}"/>
{body}
</svg>
"""


def layers() -> str:
    rows = (
        ("main", "cli · demo", "the command line"),
        ("main", "api · statements", "Python and SQL: two ways to say the same verbs"),
        ("main", "verbs · session", "one function for each verb; what an open connection is"),
        ("plain", "deploy · project", "folders of SQL, unit tests, change sets, stage and promote"),
        ("plain", "scheduler · tables · upkeep · backup", "what is due; writes; tidying; copies"),
        ("good", "refresh", "observe, decide, execute, publish whole groups, record"),
        (
            "plain",
            "runtime · world · indexes",
            "transactions, one cut to read from",
        ),
        ("plain", "lake", "Iceberg: versions, changes, stage and publish"),
        ("plain", "spark  |  catalog", "Spark jobs  |  SQLite or PostgreSQL"),
        ("source", "sql · delta", "pure: text to plan, plan to the plan of its change"),
        ("source", "plan · graph · datalog · settings", "pure: nodes and rewrites, groups, rules"),
        ("source", "errors · names · types · model", "the words everything else is written in"),
    )
    shapes: list[Shape] = [
        Box(30, 20 + 56 * at, 640, 48, title, (line,), fill)
        for at, (fill, title, line) in enumerate(rows)
    ]
    what = "The layers of Anabranch; each imports only from itself and from those below"
    return drawing(700, 40 + 56 * len(rows) - 8, what, shapes)


def chain(what: str, steps: Sequence[tuple[str, tuple[str, ...], str]], per_row: int) -> str:
    """Steps one after the other, row by row, each row from left to right."""
    w, h, gap, down = 190, 92, 38, 40
    shapes: list[Shape] = []
    for at, (title, lines, fill) in enumerate(steps):
        row, column = divmod(at, per_row)
        x, y = 20 + column * (w + gap), 20 + row * (h + down)
        shapes.append(Box(x, y, w, h, title, lines, fill))
        if at + 1 < len(steps):
            if column + 1 < per_row:
                shapes.append(Arrow(((x + w, y + h // 2), (x + w + gap - 2, y + h // 2))))
            else:
                middle, turn, first = x + w // 2, y + h + down // 2, 20 + w // 2
                down_again = (middle, turn), (first, turn), (first, y + h + down - 2)
                shapes.append(Arrow(((middle, y + h), *down_again)))
    rows = -(-len(steps) // per_row)
    return drawing(40 + per_row * (w + gap) - gap, 40 + rows * (h + down) - down, what, shapes)


def query() -> str:
    steps = (
        ("SQL text", ("a defining query,", "views included"), "source"),
        ("Parse", ("a sqlglot tree", "in Spark’s dialect"), "plain"),
        ("Resolve and lower", ("names, types, subqueries;", "obstacles are collected"), "plain"),
        ("Plan", ("frozen nodes,", "simplified by rules"), "main"),
        ("Maintenance", ("by rows, by groups,", "or by replacing keys"), "main"),
        ("Delta plan", ("one rule", "for each operator"), "main"),
        ("Spark SQL", ("rendered from", "the plan that is run"), "plain"),
        ("Spark job", ("one write", "into the stage"), "good"),
    )
    return chain("The life of a query, from its text to a Spark job", steps, 4)


def refresh() -> str:
    steps = (
        ("Observe", ("one transaction reads", "pointers, definitions", "and frontiers"), "source"),
        ("Lease", ("one process", "refreshes a group"), "plain"),
        ("Measure", ("rows of the delta,", "from metadata alone"), "plain"),
        ("Decide", ("action and reason:", "a pure function"), "main"),
        ("Execute", ("Spark writes files", "that nobody sees yet"), "plain"),
        ("Count", ("rows in the files against", "rows that Spark produced"), "plain"),
        ("Publish", ("one transaction moves", "all pointers, or none"), "good"),
        ("Record", ("in that transaction: cut,", "frontiers, history"), "good"),
    )
    return chain("The life of a refresh, from looking at the catalog to its record", steps, 4)


def cut() -> str:
    steps = (
        ("Stage", ("data, delete and metadata", "files, synced, invisible"), "plain"),
        ("Compare", ("pointers, definitions,", "views, groups, leases"), "main"),
        ("Cut N", ("one commit: all tables", "of the group, or none"), "good"),
        ("Readers", ("hold it under", "a read lease"), "good"),
        ("Thinned", ("all for an hour, one a", "minute for a day,", "then one an hour"), "plain"),
        (
            "Expired",
            ("after snapshot_retention,", "unless a table or a", "roll-back needs it"),
            "plain",
        ),
        ("Files deleted", ("once nothing has referred", "to them for orphan_grace"), "plain"),
    )
    return chain("The life of a cut, from staged files to their deletion", steps, 4)


def torn() -> str:
    """The two totals of a diamond when its tables are refreshed one by one."""
    rows = (
        ("sales", "100 101 101 101 101 101"),
        ("revenue_by_region", "100 100 101 101 101 101"),
        ("revenue_by_product", "100 100 100 100 101 101"),
        ("exec_summary", "100=100 100=100 100=100 101≠100 101≠100 101=101"),
    )
    steps = ("at first", "a sale", "refresh region", "refresh summary")
    steps += ("refresh product", "refresh summary")
    shapes: list[Shape] = [Words(240 + 130 * at, 34, step) for at, step in enumerate(steps)]
    for row, (name, values) in enumerate(rows):
        y, before = 52 + 52 * row, ""
        shapes.append(Words(20, y + 26, name, bold=True, left=True))
        for column, value in enumerate(values.split()):
            news = "good" if before and value != before else "plain"
            fill = "bad" if "≠" in value else news
            said = value.replace("=", " = ").replace("≠", " ≠ ")
            shapes.append(Box(184 + 130 * column, y, 112, 42, said, (), fill))
            before = value
    what = "A diamond refreshed table by table: for a while the summary shows two different totals"
    return drawing(970, 270, what, shapes)


def diamonds() -> str:
    """A diamond, a triangle, and diamonds that overlap: boxes by the middle of their tops."""
    shapes: list[Shape] = []
    for title, x, boxes, edges in (
        ("diamond", 140, "A:140,0 B:75,1 C:205,1 D:140,2", "AB AC BD CD"),
        ("triangle", 390, "A:390,0 B:345,1 D:390,2", "AB BD AD"),
        (
            "overlapping diamonds: one group",
            660,
            "1:575,0 2:745,0 A:555,1 B:665,1 C:610,2 D:775,2 E:695,3",
            "1A 1B 2B 2D AC BC BD CE DE",
        ),
    ):
        shapes.append(Words(x, 30, title, bold=True))
        middles = {}
        for box in boxes.split():
            name, place = box.split(":")
            across, row = map(int, place.split(","))
            middles[name] = (across, 46 + 72 * row)
            incoming = sum(edge[1] == name for edge in edges.split())
            fill = "source" if not incoming else "main" if incoming > 1 and name != "B" else "plain"
            label = f"source {name}" if name.isdigit() else name
            shapes.append(Box(across - 45, middles[name][1], 90, 38, label, (), fill))
        for start, end in edges.split():
            (x1, y1), (x2, y2) = middles[start], middles[end]
            lean = 12 if x2 > x1 else -12 if x2 < x1 else 0
            lean = 30 if (start, end) == ("A", "D") else lean
            straight = (x1 + lean, y1 + 38), (x2 + (lean if lean == 30 else -lean), y2 - 2)
            shapes.append(Arrow(straight))
    return drawing(850, 320, "A diamond, a triangle, and diamonds that overlap", shapes)


DIAGRAMS: dict[str, Callable[[], str]] = {
    "layers.svg": layers,
    "query.svg": query,
    "refresh.svg": refresh,
    "cut.svg": cut,
    "torn.svg": torn,
    "diamonds.svg": diamonds,
}


def main() -> None:
    for name, draw in DIAGRAMS.items():
        (IMAGES / name).write_text(draw(), "utf-8")
        print(f"wrote docs/images/{name}")


if __name__ == "__main__":
    main()
