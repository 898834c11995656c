"""Tests leave nothing in the root of the tree: what one makes there may be committed, and be a secret.

A plugin: `conftest.py` takes the two hooks over.
"""

from __future__ import annotations

from pathlib import Path

import pytest

# What tools make: pytest, ruff, mypy, hypothesis and `make`.
OF_TOOLS = {"__pycache__", "build", "dist"}
OF_TOOLS |= {f".{name}_cache" for name in ("pytest", "ruff", "mypy")} | {".hypothesis", ".coverage"}
BEFORE = pytest.StashKey[set[str]]()


def in_root(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()} - OF_TOOLS


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[BEFORE] = in_root(session.config.rootpath)


def pytest_sessionfinish(session: pytest.Session) -> None:
    left = in_root(session.config.rootpath) - session.config.stash[BEFORE]
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:  # a worker of xdist has none
            reporter.write_line(f"\ntests have left in the root: {sorted(left)}", red=True)
