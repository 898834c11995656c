"""Fail points are out of reach of everything but code in the same process."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import anabranch
from anabranch import failpoints
from anabranch.failpoints import STAGED
from tests.failpoints import python

ROOT = Path(__file__).parents[2]
HIT = "import sys; from anabranch import failpoints; failpoints.hit('staged'); print('alive')"
VARIABLES = {f"ANABRANCH_{name}_AT": STAGED for name in ("KILL", "STOP", "FAIL")}


def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True
    )


def test_no_variable_of_the_environment_reaches_them() -> None:
    done = run([sys.executable, "-c", HIT], **VARIABLES)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_the_launcher_of_the_tests_does() -> None:
    assert run(python("-c", HIT, kill=STAGED)).returncode == -signal.SIGKILL
    assert run(python("-c", HIT, kill=f"{STAGED}:2")).stdout == "alive\n", "it came there once only"
    assert run(python("-c", HIT, kill="published")).stdout == "alive\n"
    assert python("-c", HIT) == [sys.executable, "-c", HIT]


def test_a_hook_is_told_the_point(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failpoints.hook is None
    met: list[str] = []
    monkeypatch.setattr(failpoints, "hook", met.append)
    failpoints.hit(STAGED)
    assert met == [STAGED]


def test_only_tests_set_the_hook() -> None:
    """And no name of a fail point's variable is left in what users run."""
    for path in Path(anabranch.__file__).parent.rglob("*.py"):
        text = path.read_text()
        assert not any(name in text for name in VARIABLES), path
        assigned = {
            target.attr
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Attribute)
        }
        assert "hook" not in assigned, path
