"""The demo ends well, and the commands it recommends work as they are printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.demo.home import FOLDER, MARK, fresh
from anabranch.errors import Refused

ROOT = Path(__file__).resolve().parents[2]


STARTS_SPARK = (" explain ", " sql '")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("all_of_it", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.extended
def test_the_demo_and_what_it_recommends(tmp_path: Path, all_of_it: bool) -> None:
    environment = {**os.environ, "PYTHONUTF8": "1", "PYTHONPATH": str(ROOT)}
    environment.pop("ANABRANCH_HOME", None)

    def run(command: str) -> str:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    shown = run(f"{sys.executable} -m anabranch demo")
    assert "✗" not in shown
    assert shown.count("✓") == 5 + 3  # rounds, and stream tables verified
    assert "DIFFERENTIAL" in shown
    assert (tmp_path / FOLDER / MARK).exists()
    recommended = shown.rpartition("╯")[2].splitlines()
    commands = [line.strip() for line in recommended if line.strip()]
    assert len(commands) >= 5
    for command in commands:
        waits = command.endswith(" sql")  # the shell waits for a person
        late = not all_of_it and any(each in command for each in STARTS_SPARK)
        assert waits or late or run(command).strip()


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    with pytest.raises(Refused, match="was not made by the demo"):
        fresh(tmp_path / "mine")
    assert (tmp_path / "mine" / "file").exists()


def test_a_folder_of_the_demo_is_made_anew(tmp_path: Path) -> None:
    home = fresh(tmp_path / "demo")
    (home / "old").touch()
    assert not (fresh(home) / "old").exists()
