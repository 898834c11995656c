"""Incremental equals recompute: random queries, rows and windows of changes, on DuckDB.

A case is its seed, two have the same query.  `ANABRANCH_ORACLE_CASES` says how many there are; each
chunk of them is a test.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pytest
from _pytest.mark import ParameterSet

from tests.oracle import data
from tests.oracle.cases import Case, Seeded, Verdict, judge
from tests.oracle.kept import World
from tests.oracle.queries import draw, names
from tests.oracle.shrink import fixture, shrunk
from tests.oracle.tables import TABLES
from tests.oracle.weights import WEIGHTS

CASES = int(os.environ.get("ANABRANCH_ORACLE_CASES", "2500"))
CHUNK = 100
QUICK = 500  # cases of `make test`
REFUSED = 0.02  # the share of queries that may not be incremental
SAMPLE = 500  # the queries that are counted for it
ENOUGH = 20  # incremental queries per construct


def chunks() -> list[ParameterSet]:
    return [
        pytest.param(first, marks=() if first < QUICK else pytest.mark.extended)
        for first in range(0, CASES, CHUNK)
    ]


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    """One with tables of which only a part is read, one with tables that are worth a look, one with
    some of each."""
    made = [
        World(TABLES),
        World(TABLES, TABLES, narrows=False),
        World(TABLES, list(TABLES)[::2], narrows=False),
    ]
    for each in made:
        each.db.execute("PRAGMA disable_optimizer")  # not worth its time for a handful of rows
    return made


@pytest.fixture(scope="module")
def world(worlds: list[World]) -> World:
    return worlds[0]


@pytest.fixture(scope="module")
def verdicts() -> dict[int, Verdict]:
    """What has become of the queries, by seed."""
    return {}


@pytest.mark.parametrize("first", chunks())
def test_incremental_equals_recompute(
    worlds: list[World], verdicts: dict[int, Verdict], first: int
) -> None:
    for seed in range(first, min(first + CHUNK, CASES)):
        seeded = Seeded(seed)
        case, world = seeded.case, worlds[seeded.query % len(worlds)]
        verdict = verdicts[seeded.query] = judge(world, case)
        assert verdict.kind != "invalid", f"seed {seed}: {case.query}\n{verdict.text}"
        assert not verdict.fails, _report(world, seed, case)


def _report(world: World, seed: int, case: Case) -> str:
    small = shrunk(world, case)
    verdict = judge(world, small)
    return f"{verdict.kind}: {verdict.text}\n\n{fixture(world, small, f'seed {seed}')}"


RECURSIVE = WEIGHTS | {"recursion to the end": 60, "one source": 60, "plain query": 60}


@pytest.mark.parametrize("first", range(0, CASES // 25, CHUNK // 2))
def test_recursions_end_when_they_do(worlds: list[World], first: int) -> None:
    """Whatever a change leaves behind, also cycles that nothing reaches any more."""
    kinds: Counter[str] = Counter()
    for seed in range(first, first + CHUNK // 2):
        drawn, random = draw(seed, RECURSIVE), Random(f"recursion {seed}")
        start = data.start(random, drawn.tables)
        case = Case(drawn.text, start, data.windows(random, drawn.tables))
        verdict = judge(worlds[seed % len(worlds)], case)
        kinds[verdict.kind] += "recursion to the end" in drawn.used
        assert verdict.kind != "invalid", f"seed {seed}: {case.query}\n{verdict.text}"
        assert not verdict.fails, _report(worlds[0], seed, case)
    assert kinds["kept"] > kinds["endless"], kinds


@pytest.mark.extended
def test_queries_are_incremental(world: World, verdicts: dict[int, Verdict]) -> None:
    """Hardly any query is refused, and no construct always."""
    kept: Counter[str] = Counter()
    refused: dict[int, str] = {}
    for seed in range(5_000):
        drawn = draw(seed)
        rare = {name for name in drawn.used if kept[name] < ENOUGH}
        if rare or seed < SAMPLE:
            verdict = verdicts.get(seed) or _lowered(world, drawn.text)
            kept.update(rare if verdict.kind == "kept" else ())
            if verdict.kind == "refused" and seed < SAMPLE:
                refused[seed] = verdict.text
    assert len(refused) <= REFUSED * SAMPLE, refused
    assert not {name: kept[name] for name in names() if kept[name] < ENOUGH}


def _lowered(world: World, query: str) -> Verdict:
    found = world.lower(query, {})
    if found.plan is None:
        return Verdict("refused", "; ".join(map(str, found.obstacles)))
    return Verdict("kept")
