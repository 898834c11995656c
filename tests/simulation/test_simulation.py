"""Seeds of the simulation, in Python processes of their own: it replaces time and identity."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.simulation.mutations import MUTATIONS, line
from tests.simulation.plans import QUICK_RUN

ROOT = Path(__file__).parents[2]
SEEDS = int(os.environ.get("ANABRANCH_SIMULATION_SEEDS", QUICK_RUN))
PROCESSES = int(os.environ.get("ANABRANCH_SIMULATION_PROCESSES", "1"))
SLOW_SEEDS = 20  # with statements made by SQLAlchemy, and compared step by step
FIRST = int(os.environ.get("ANABRANCH_SIMULATION_FIRST", "0"))


def simulate(*given: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *given],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


@pytest.mark.timeout(0)
def test_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that must hold does, whatever happens to whom."""
    share = -(-SEEDS // PROCESSES)
    starts = range(FIRST, FIRST + SEEDS, share)

    def part(start: int) -> subprocess.CompletedProcess[str]:
        end = min(start + share, FIRST + SEEDS)
        return simulate("-m", "tests.simulation", str(start), str(end))

    with ThreadPoolExecutor(PROCESSES) as pool:
        for done in pool.map(part, starts):
            assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
            with capsys.disabled():
                print(f"\n{done.stdout.strip()}")


def test_kept_seeds_and_mutations() -> None:
    """Every mutation is found by the seed that is noted for it, which is one of the quick run and goes
    well without; the same seed gives the same run; and statements of SQLAlchemy and those made without
    it do the same."""
    done = simulate("-m", "tests.simulation.kept", str(SLOW_SEEDS))
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]


def test_the_table_of_mutations_is_what_is_noted() -> None:
    """Each bug, what is put back, the seeds until it is found, and whether a scene is set."""
    text = (Path(__file__).parent / "README.md").read_text()
    _, table = text.split("|---|---|---|---|\n")
    shown = table.partition("\n\n")[0].splitlines()
    assert shown == [line(name) for name in MUTATIONS]
    assert all(mutation.seed < QUICK_RUN for mutation in MUTATIONS.values())


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_mutations_are_found_by_chance(capsys: pytest.CaptureFixture[str]) -> None:
    """No noted seed is needed: the first of the quick run do."""
    done = simulate("-m", "tests.simulation", "mutations", str(QUICK_RUN))
    with capsys.disabled():
        print(f"\n{done.stdout.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr[-2_000:]
