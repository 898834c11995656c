"""A test that leaves something in the root of the tree makes the run fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("made", "code"), [("home", 1), ("tmp_path / 'home'", 0)])
def test_what_tests_leave_is_told(tmp_path: Path, made: str, code: int) -> None:
    path = made if code == 0 else f"Path({made!r})"
    (tmp_path / "test_it.py").write_text(
        f"from pathlib import Path\ndef test_it(tmp_path):\n    ({path}).mkdir()\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.leftovers", "--rootdir", tmp_path, "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert ("left in the root: ['home']" in done.stdout) is bool(code)
