"""The model can fail: every check that is put out of force is missed, by a program that is kept and, in
the slow tests, by programs by chance alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy import Connection

from anabranch.catalog import cuts, groups, leases, read_leases, read_set
from anabranch.catalog.groups import Group
from anabranch.lake import publish
from anabranch.lake.stage import Staged
from anabranch.names import TableName
from anabranch.refresh.observe import CatalogState
from anabranch.refresh.waiting import Waiting
from anabranch.scheduler.due import Agenda
from tests.model.chance import Programs
from tests.model.checks import Wrong
from tests.model.programs import Program, run
from tests.model.test_model import FIXTURES, SETTINGS
from tests.standin.engine import swap

BUDGET = 150  # programs by chance within which a mutation is found


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


def swaps_anyway(c: Connection, catalog: str, changes: Mapping[TableName, Staged]) -> None:
    """A pointer is moved wherever it stands now."""
    now = cuts.pointers(c, catalog)
    moved = {
        name: staged if staged.base is None else replace(staged, base=now.get(name))
        for name, staged in changes.items()
    }
    SWAP(c, catalog, moved)


def nobody_reads(*_: object) -> list[int]:
    """Upkeep does not know of held cuts."""
    return []


def nobody_waits(*_: object) -> list[Any]:
    """A table does not look whether what it reads stands at the cut of the tick."""
    return []


def waits_for_all(self: Waiting, names: tuple[TableName, ...]) -> list[TableName]:
    """A table waits for everything above it, also for what stands at the cut."""
    return self.state.needed(names)


GROUPED, SWAP = groups.grouped, publish._swap
# What each puts out of force: functions, wherever they are used, or attributes of a class.
MUTATIONS: Mapping[str, Sequence[tuple[Any, Callable[..., Any]]]] = {
    "definitions": [(read_set._compare, compares_nothing)],
    "leases": [
        (leases._busy, nobody_holds),
        (leases.check, never_taken_over),
        (leases.end, never_taken_over),
    ],
    "groups": [(groups.grouped, everyone_alone)],
    "pointers": [(publish._swap, swaps_anyway)],
    "read_leases": [(read_leases.held_cuts, nobody_reads)],
    "upstreams": [((Agenda, "needs"), nobody_waits), ((CatalogState, "behind"), nobody_waits)],
    "lag": [((Waiting, "behind"), waits_for_all)],
}
# By the program that is kept for it.
KEPT = {
    "alter_during_a_refresh": ("definitions", "leases"),
    "view_during_a_refresh": ("definitions",),
    "two_refreshes": ("leases",),
    "diamond_in_a_tick": ("groups",),
    "two_writers": ("pointers",),
    "a_held_cut": ("read_leases",),
    "half_of_a_transaction": ("upstreams",),
    "a_suspended_table_that_need_not_move": ("lag",),
}


@contextmanager
def mutated(*names: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        undo = []
        for real, other in (pair for name in names for pair in MUTATIONS[name]):
            if isinstance(real, tuple):
                patch.setattr(*real, other)
            else:
                undo.append(swap(real, other))
        try:
            yield
        finally:
            for each in reversed(undo):
                each()


@pytest.mark.parametrize("name", KEPT)
def test_a_mutation_is_found(name: str) -> None:
    """The program of the same name goes well in `test_model`, and wrong once a check is left out."""
    program: Program = json.loads((FIXTURES / f"{name}.json").read_text())
    with mutated(*KEPT[name]):
        failure = run(program)
    assert failure is not None
    assert isinstance(failure.error, Wrong), repr(failure.error)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_found_by_chance(name: str) -> None:
    """No kept program is needed: the same programs that go well in `test_model` go wrong."""
    budget = settings(SETTINGS, max_examples=BUDGET, phases=(Phase.generate,))
    with mutated(name), pytest.raises(Wrong):
        run_state_machine_as_test(Programs, settings=budget)


def test_mutations_are_taken_back() -> None:
    """All of them: one that was left behind would change the tests that come after."""
    ours = [leases.check, leases.end, leases._busy, groups.grouped, read_set._compare]
    with mutated(*MUTATIONS):
        assert leases.check is not ours[0] and leases.end is not ours[1]
    assert ours == [leases.check, leases.end, leases._busy, groups.grouped, read_set._compare]
