"""The graph as text: sources at the margin, under each table those that read it.

A table is drawn once, where it is met first; elsewhere an arrow points back to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anabranch.graph.drawing.words import cells, freshness, group_title, schedule
from anabranch.graph.order import dependants
from anabranch.graph.picture import Picture, PictureTable

NAMED = 3  # tables drawn before that one line names; the others are counted
GAP = "  "


@dataclass(frozen=True)
class Signs:
    branch: str
    last: str
    rail: str
    convergence: str
    cycle: str
    before: str


UNICODE = Signs("├─ ", "└─ ", "│  ", "◆ ", "↻ ", "↑ ")
ASCII = Signs("|- ", "`- ", "|  ", "<> ", "@ ", "^ ")


@dataclass(frozen=True)
class Span:
    """A piece of a line; `style` says what it is, not how it looks."""

    text: str
    style: str = ""


Line = tuple[Span, ...]


@dataclass(frozen=True)
class Row:
    """A line before its columns are aligned."""

    lead: str
    title: Span
    facts: tuple[Span, ...] = ()


def tree(picture: Picture, signs: Signs = UNICODE) -> list[Line]:
    """Tables, then what is worth saying of diamonds, groups and components."""
    rows = list(_rows(picture, signs))
    titles = max((cells(row.lead + row.title.text) for row in rows if row.facts), default=0)
    longest = max((len(row.facts) for row in rows), default=0)
    widths = [
        max(cells(row.facts[at].text) for row in rows if len(row.facts) > at)
        for at in range(longest)
    ]
    return [*(_aligned(row, titles, widths) for row in rows), *_notes(picture, signs)]


def _aligned(row: Row, titles: int, widths: Sequence[int]) -> Line:
    line = [Span(row.lead, "rail"), row.title]
    wanted = titles - cells(row.lead + row.title.text)
    for fact, width in zip(row.facts, widths, strict=False):
        line += [Span(" " * wanted + GAP), fact]
        wanted = width - cells(fact.text)
    return tuple(span for span in line if span.text)


def _rows(picture: Picture, signs: Signs) -> Iterator[Row]:
    """Depth first from the sources; an explicit stack, for chains may be long."""
    known = {each.name: each for each in picture.tables}
    readers = {name: sorted(found) for name, found in dependants(picture.reads).items()}
    drawn: set[str] = set()
    for root in [each for each in picture.tables if not each.reads] + list(picture.tables):
        waiting: list[tuple[str, str, str | Row]] = [("", "", root.name)]
        while waiting:
            lead, below, step = waiting.pop()
            if isinstance(step, Row):
                yield step
            elif step not in drawn:
                drawn.add(step)
                yield Row(lead, _title(known[step], signs), _facts(known[step]))
                waiting += reversed(_under(step, below, readers, drawn, known, signs))
            elif lead:  # met on another way since it was put here
                yield _before(lead, [step], known, signs)


def _under(
    name: str,
    below: str,
    readers: dict[str, list[str]],
    drawn: set[str],
    known: dict[str, PictureTable],
    signs: Signs,
) -> list[tuple[str, str, str | Row]]:
    """What comes under a table: the readers to draw, then one line for those drawn before."""
    found = readers.get(name, [])
    fresh = [each for each in found if each not in drawn]
    seen = [each for each in found if each in drawn]
    steps: list[tuple[str, str, str | Row]] = []
    for at, each in enumerate(fresh):
        last = at == len(fresh) - 1 and not seen
        lead = below + (signs.last if last else signs.branch)
        steps.append((lead, below + ("   " if last else signs.rail), each))
    if seen:
        steps.append(("", "", _before(below + signs.last, seen, known, signs)))
    return steps


def _before(lead: str, names: Sequence[str], known: dict[str, PictureTable], signs: Signs) -> Row:
    named = ", ".join(_marked(known[name], signs) for name in names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return Row(lead, Span(signs.before + named + more, "before"))


def _marked(table: PictureTable, signs: Signs) -> str:
    cycle = signs.cycle if table.component else ""
    return cycle + (signs.convergence if table.converges else "") + table.name


def _title(table: PictureTable, signs: Signs) -> Span:
    return Span(_marked(table, signs), "source" if table.is_source else "table")


def _facts(table: PictureTable) -> tuple[Span, ...]:
    if table.facts is None:
        return (Span("view" if table.is_view else "source", "source"),)
    group = f"group {table.group}" if table.group else ""
    return (
        Span(table.facts.status, table.facts.status),
        Span(schedule(table.facts)),
        Span(freshness(table.facts)),
        *([Span(group, "group")] if group else []),
    )


def _notes(picture: Picture, signs: Signs) -> Iterator[Line]:
    meeting = [each for each in picture.tables if each.converges and not each.component]
    errors = [each for each in picture.tables if each.facts and each.facts.last_error]
    yield from _section(
        "diamonds",
        [
            (signs.convergence + each.name, f"meets {_listed(each.shared_sources)}")
            for each in meeting
        ],
    )
    yield from _section(
        "groups, each published as one",
        [
            (f"{group_title(each)}, epoch {each.epoch}", _listed(each.members))
            for each in picture.groups
        ],
    )
    yield from _section(
        "cycles, each refreshed to a fixed point",
        [(signs.cycle + each[0], _listed(each)) for each in picture.components],
    )
    yield from _section(
        "errors", [(each.name, each.facts.last_error or "") for each in errors if each.facts]
    )


def _section(title: str, entries: list[tuple[str, str]]) -> Iterator[Line]:
    if not entries:
        return
    width = max(cells(name) for name, _ in entries)
    yield ()
    yield (Span(title, "heading"),)
    for name, text in entries:
        yield (Span(GAP + name + " " * (width - cells(name))), Span(GAP + text, "note"))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
