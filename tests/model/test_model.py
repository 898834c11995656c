"""The whole system against a plain model: programs by chance, and programs that once failed.

`ANABRANCH_MODEL_PROGRAMS` says how many programs are tried; they are the same ones every time, but with
`ANABRANCH_RANDOM`.  One that fails is made small and kept in
tests/model/fixtures, from where it is replayed: give it a name that says what went wrong.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.chance import Programs
from tests.model.programs import run, shown
from tests.oracle.kept_programs import keep

FIXTURES = Path(__file__).parent / "fixtures"
PROGRAMS = int(os.environ.get("ANABRANCH_MODEL_PROGRAMS", "30"))
STEPS = 22
SETTINGS = settings(
    max_examples=PROGRAMS,
    stateful_step_count=STEPS,
    derandomize="ANABRANCH_RANDOM" not in os.environ,
    database=None,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.timeout(0)
def test_programs_by_chance() -> None:
    by_chance(Programs)


def by_chance(programs: type[Programs], folder: Path = FIXTURES) -> None:
    """The last program that hypothesis runs is the smallest that fails: it is kept."""
    Programs.failed = None
    try:
        run_state_machine_as_test(programs, settings=SETTINGS)
    except Exception as error:
        if Programs.failed is None:
            raise
        path = keep(folder, Programs.failed)
        raise AssertionError(f"{error}\nkept as {path}") from error


def test_a_program_that_fails_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(programs: type[Programs], **_: object) -> None:
        programs.failed = shown([["tick", 1]])
        raise AssertionError("wrong")

    monkeypatch.setattr(sys.modules[__name__], "run_state_machine_as_test", run)
    with pytest.raises(AssertionError, match="wrong") as caught:
        by_chance(Programs, tmp_path)
    (path,) = tmp_path.iterdir()
    assert json.loads(path.read_text()) == [["tick", 1]]
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", sorted(path.stem for path in FIXTURES.glob("*.json")))
def test_programs_that_once_failed(name: str) -> None:
    failure = run(json.loads((FIXTURES / f"{name}.json").read_text()))
    if failure is not None:
        pytest.fail(f"{failure.error} after {failure.step}")
