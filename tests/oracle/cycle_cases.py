"""A random program on DuckDB: followed change by change, against a naive fixed point."""

from __future__ import annotations

from functools import cache

from tests.oracle.circle import Circle
from tests.oracle.kept import World
from tests.oracle.plain_sql import plain_text
from tests.oracle.programs import COLUMNS, MEMBERS, SOURCES, Case, after


@cache
def world() -> World:
    """One database for all programs: their relations are the same."""
    made = World(dict.fromkeys((*SOURCES, *MEMBERS), COLUMNS), narrows=False)
    made.db.execute("PRAGMA disable_optimizer")
    return made


def difference(case: Case, *, careful: bool = False) -> str | None:
    """What is wrong after some change, if anything is.  Nothing is ever computed from empty again."""
    there = {name: list(case.start.get(name, ())) for name in SOURCES}
    world().reset()
    circle = Circle(world(), case.queries, plain_text)
    for name, rows in there.items():
        set_rows(name, rows)
    circle.fill()
    for at, steps in enumerate(case.changes):
        world().begin(SOURCES)
        for step in steps:
            there[step.source] = after(there[step.source], step)
            set_rows(step.source, there[step.source])
        changed = world().end(names=SOURCES)
        only_new = all(step.gone == () for step in steps)
        circle.refresh(changed, insert_only=only_new, strict=True, careful=careful)
        expected = circle.least()
        for name in case.queries:
            found = circle.bag(name)
            if found != expected[name]:
                return (
                    f"change {at}: {name} has {dict(found - expected[name])} too much "
                    f"and lacks {dict(expected[name] - found)}"
                )
    return None


def set_rows(name: str, rows: list[tuple[int | None, int | None]]) -> None:
    world().db.execute(f"DELETE FROM now.{name}")
    if rows:
        world()._insert(f"now.{name}", rows)
