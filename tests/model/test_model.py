"""The whole system against a plain model: programs by chance, programs that once failed, mutations.

`ANABRANCH_MODEL_PROGRAMS` says how many programs are tried.  One that fails is made small and printed
as a fixture: put it into tests/model/fixtures under a name that says what went wrong.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from anabranch.catalog import cuts, groups, leases, read_leases, read_set
from anabranch.catalog.groups import Group
from anabranch.lake import publish
from anabranch.lake.stage import Staged
from anabranch.names import TableName
from anabranch.refresh.look import Look
from anabranch.scheduler.due import Agenda
from tests.model.machine import Wrong
from tests.model.programs import Chance, Failure, Program, run, shown, smallest
from tests.standin.engine import swap

FIXTURES = Path(__file__).parent / "fixtures"
PROGRAMS = int(os.environ.get("ANABRANCH_MODEL_PROGRAMS", "12"))
PARTS = 4
STEPS = 22


def complain(failure: Failure) -> None:
    small = smallest(failure)
    pytest.fail(f"{small.error}\nafter\n{shown(small.program)}")


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(0)
def test_programs_by_chance(part: int) -> None:
    told: Counter[str] = Counter()
    for seed in range(part, PROGRAMS, PARTS):
        failure = run(Chance(seed).program(STEPS), told)
        if failure is not None:
            complain(failure)
    print(f"{sum(told.values())} steps: {dict(told.most_common())}")


@pytest.mark.parametrize("name", sorted(path.stem for path in FIXTURES.glob("*.json")))
def test_programs_that_once_failed(name: str) -> None:
    failure = run(json.loads((FIXTURES / f"{name}.json").read_text()))
    if failure is not None:
        pytest.fail(f"{failure.error} after {failure.program[-1]}")


# -- the model can fail ------------------------------------------------------------------------


def compares_nothing(*_: object) -> None:
    """A publish does not look whether definitions, views and inputs are still what they were."""


def nobody_holds(*_: object) -> None:
    """A lease keeps nobody out, as if it had ended."""


def never_taken_over(*_: object) -> None:
    """Nor does a publish look whether it still has its lease."""


def everyone_alone(*given: Any) -> list[Group]:
    """Every table is published by itself."""
    found = GROUPED(*given)
    return [Group((part,)) for group in found for part in group.components]


def swaps_anyway(c: Connection, catalog: str, name: TableName, staged: Staged) -> None:
    """A pointer is moved wherever it stands now."""
    now = cuts.pointers(c, catalog).get(name)
    SWAP(c, catalog, name, staged if staged.base is None else replace(staged, base=now))


def nobody_reads(*_: object) -> list[int]:
    """Upkeep does not know of held cuts."""
    return []


def nobody_waits(*_: object) -> list[Any]:
    """A table does not look whether what it reads stands at the cut of the tick."""
    return []


GROUPED, SWAP = groups.grouped, publish._swap
# By the program that finds it: functions, wherever they are used, or attributes of a class.
MUTATIONS: Mapping[str, Sequence[tuple[Any, Callable[..., Any]]]] = {
    "alter_during_a_refresh": [
        (read_set._compare, compares_nothing),
        (leases._busy, nobody_holds),
        (leases.check, never_taken_over),
    ],
    "diamond_in_a_tick": [(groups.grouped, everyone_alone)],
    "two_writers": [(publish._swap, swaps_anyway)],
    "a_held_cut": [(read_leases.held_cuts, nobody_reads)],
    "half_of_a_transaction": [((Agenda, "needs"), nobody_waits), ((Look, "behind"), nobody_waits)],
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        functions = []
        for real, other in MUTATIONS[name]:
            if isinstance(real, tuple):
                patch.setattr(*real, other)
            else:
                functions.append((real, other))
                swap(real, other)
        try:
            yield
        finally:
            for real, other in functions:
                swap(other, real)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_found(name: str) -> None:
    """The program of the same name goes well, as seen above, and wrong once a check is left out."""
    program: Program = json.loads((FIXTURES / f"{name}.json").read_text())
    with mutated(name):
        failure = run(program)
    assert failure is not None
    assert isinstance(failure.error, Wrong), repr(failure.error)
