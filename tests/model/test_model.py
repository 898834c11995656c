"""The whole system against a plain model: programs by chance, and programs that once failed.

`ANABRANCH_MODEL_PROGRAMS` says how many programs are tried.  One that fails is made small and printed
as a fixture: put it into tests/model/fixtures under a name that says what went wrong.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.chance import Programs
from tests.model.programs import run

FIXTURES = Path(__file__).parent / "fixtures"
PROGRAMS = int(os.environ.get("ANABRANCH_MODEL_PROGRAMS", "8"))
STEPS = 22
SETTINGS = settings(
    max_examples=PROGRAMS,
    stateful_step_count=STEPS,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.timeout(0)
def test_programs_by_chance() -> None:
    run_state_machine_as_test(Programs, settings=SETTINGS)


@pytest.mark.parametrize("name", sorted(path.stem for path in FIXTURES.glob("*.json")))
def test_programs_that_once_failed(name: str) -> None:
    failure = run(json.loads((FIXTURES / f"{name}.json").read_text()))
    if failure is not None:
        pytest.fail(f"{failure.error} after {failure.step}")
