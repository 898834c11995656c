"""The documentation says what the code says."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch.cli.main import cli
from anabranch.settings import TABLE

ROOT = Path(__file__).resolve().parents[2]
AT_THE_ROOT = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
PAGES = [*AT_THE_ROOT, *sorted((ROOT / "docs").glob("*.md"))]
TOOL: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "docs.py"))


def test_generated_pages_are_current() -> None:
    assert TOOL["stale"]() == [], "run `make docs`"


def test_every_setting_command_and_error_is_documented() -> None:
    settings, commands, errors = (
        (ROOT / "docs" / name).read_text("utf-8") for name in ("settings.md", "cli.md", "errors.md")
    )
    assert [each.name for each in TABLE.values() if f"| `{each.name}` |" not in settings] == []
    assert [name for name in cli.commands if f"## anabranch {name}" not in commands] == []
    assert [name for name in TOOL["error_classes"]() if f"| `{name}` |" not in errors] == []
    assert [name for name in TOOL["error_classes"]() if name not in errors.split("```")[1]] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text("utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


def commands_in(text: str) -> Iterator[list[str]]:
    """Words of every `anabranch …` call in code."""
    for code in re.findall(r"```sh\n(.*?)```|`(anabranch [^`]+)`", text, re.DOTALL):
        for line in "\n".join(code).splitlines():
            if line.startswith("anabranch "):
                yield line.split()[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    for words in commands_in(page.read_text("utf-8")):
        plain = [word for word in words if not word.startswith("-")]
        assert plain[0] in cli.commands, words


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for page in PAGES:
        for target in re.findall(r"(?m)(?:^|`)make ([a-z-]+)", page.read_text("utf-8")):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target} ({page.name})"


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


def test_python_in_the_pages_is_python() -> None:
    for page in PAGES:
        for block in python_blocks(page):
            compile(block, str(page), "exec")


@pytest.mark.extended
def test_the_readme_example_runs_and_others_can_read_its_tables(tmp_path: Path) -> None:
    (block,) = python_blocks(ROOT / "README.md")
    said = _run(block, tmp_path)
    assert "12.50" in said and "'equal': True" in said
    assert "revenue" in _run(python_blocks(ROOT / "docs" / "storage.md")[0], tmp_path)


def test_the_version_is_one() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'version = "{anabranch.__version__}"' in text
    assert f"## {anabranch.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda e: e.stem)
def test_examples_run(example: Path, tmp_path: Path) -> None:
    _run(example.read_text("utf-8"), tmp_path)


def _run(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
