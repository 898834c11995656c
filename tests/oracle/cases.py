"""One case of the oracle: a query, rows, windows of changes; and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from random import Random

import duckdb

from tests.oracle import data
from tests.oracle.data import Window
from tests.oracle.endless import ending, is_endless
from tests.oracle.kept import Bag, Kept, Obstructed, World, Wrong
from tests.oracle.queries import Drawn, draw


@dataclass(frozen=True)
class Case:
    query: str
    start: Window
    windows: tuple[Window, ...]
    noise: bool = False  # deltas hold rows that come to nothing


@dataclass(frozen=True)
class Seeded:
    """A case is one integer.  Two in a row have the same query, and other rows: understanding a query
    takes as long as running it."""

    seed: int

    @property
    def query(self) -> int:
        """The seed of the query."""
        return self.seed // 2

    @cached_property
    def drawn(self) -> Drawn:
        return draw(self.query)

    @cached_property
    def case(self) -> Case:
        random = Random(f"data {self.seed}")
        start = data.start(random, self.drawn.tables)
        return Case(
            self.drawn.text, start, data.windows(random, self.drawn.tables), random.random() < 0.3
        )


@dataclass(frozen=True)
class Verdict:
    """`kind`: kept · refused · endless (so is the query) · invalid (for DuckDB) · wrong … · broken …"""

    kind: str
    text: str = ""

    @property
    def fails(self) -> bool:
        return self.kind.startswith(("wrong", "broken"))


def judge(world: World, case: Case) -> Verdict:
    """Incremental equals recompute, window by window, as long as the query has a result."""
    try:
        _begin(world, case)
        if is_endless(world, case.query):
            return Verdict("endless")
        expected = world.recompute(case.query)
    except (duckdb.Error, ValueError) as error:
        return Verdict("invalid", str(error))
    try:
        _follow(world, case, expected)
    except Obstructed as found:
        return Verdict("refused", str(found))
    except Wrong as wrong:
        return Verdict(f"wrong {wrong.part}", str(wrong))
    except Exception as error:  # whatever the engine stumbles over is a finding
        return Verdict(f"broken: {type(error).__name__}", f"{case.query}\n{error}")
    return Verdict("kept")


def _begin(world: World, case: Case) -> None:
    world.reset()
    for statement in case.start:
        world.db.execute(statement)


def _follow(world: World, case: Case, expected: Bag) -> None:
    kept = Kept(world, case.query, expected=expected)
    touched: list[str] | None = None
    for window in case.windows:
        world.begin(touched)
        for statement in window:
            world.db.execute(statement)
        touched = sorted({data.table_of(statement) for statement in window})
        if is_endless(world, case.query):
            return
        with ending(world, case.query):
            kept.refresh(world.end(case.noise, touched))
