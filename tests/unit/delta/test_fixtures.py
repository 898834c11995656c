"""Every case of tests/fixtures/delta: kept equals recomputed after each window, and is as expected."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.oracle.endless import ending
from tests.oracle.kept import Kept, World

FIXTURES = Path(__file__).parents[2] / "fixtures" / "delta"
TABLES = {
    "a": "id INT, k INT, v VARCHAR",
    "b": "id INT, k INT, w VARCHAR",
    "c": "id INT, k INT, z VARCHAR",
    "c2": "id INT, z DECIMAL(6,2)",
    "d": "id INT, k INT, z DECIMAL(8,2)",
    "t": "id INT, g VARCHAR, x INT, st VARCHAR",
    "kl": "g VARCHAR, x INT",
    "m": "id INT, g VARCHAR, f DOUBLE, d DECIMAL(12,2), n BIGINT",
    "odd": '"select" INT, "a.b" INT, "Größe" INT, action INT, w INT',
}


@dataclass(frozen=True)
class Case:
    title: str
    query: str
    windows: tuple[tuple[str, str | None], ...]  # statements, and the rows expected after them


def load(path: Path) -> list[Case]:
    cases = []
    for block in re.split(r"(?m)^--- ", path.read_text())[1:]:
        title, text = block.split("\n", 1)
        query, *parts = re.split(r"(?m)^-- change\n", text)
        windows = []
        for part in parts:
            statements, *expected = re.split(r"(?m)^-- expect\s+", part)
            windows.append((statements.strip(), expected[0].strip() if expected else None))
        cases.append(Case(title, query.strip(), tuple(windows)))
    return cases


CASES = [(path.stem, case) for path in sorted(FIXTURES.glob("*.sql")) for case in load(path)]


@pytest.fixture(scope="module", params=[(), TABLES], ids=["small", "large"])
def world(request: pytest.FixtureRequest) -> World:
    made = World(TABLES, request.param)
    made.db.execute("PRAGMA disable_optimizer")  # not worth its time for a handful of rows
    return made


@pytest.mark.parametrize("noise", [False, True], ids=["plain", "noisy"])
@pytest.mark.parametrize("case", [pytest.param(c, id=f"{s}: {c.title}") for s, c in CASES])
def test_case(world: World, case: Case, noise: bool) -> None:
    world.reset()
    kept = Kept(world, case.query)
    for statements, expected in case.windows:
        world.begin()
        world.db.execute(statements.replace("`", '"'))
        with ending(world, case.query):
            kept.refresh(world.end(noise))
        if expected is not None:
            rows = (
                [] if expected == "nothing" else world.db.execute(f"VALUES {expected}").fetchall()
            )
            assert kept.visible == Counter(rows)


def test_there_are_cases() -> None:
    assert len(CASES) > 50
