"""Every name in the table of statements, methods and commands is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import anabranch
from anabranch.cli.main import cli
from anabranch.sql.statements.read import READERS

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
HEAD = "| | SQL | Python | command line |"
ROWS = PAGE.read_text().split(HEAD)[1].split("\n\n")[0].splitlines()[2:]
LOOKED_AFTER = {"check", "backup", "restore", "recover", "adopt", "grants", "maintain"}


@pytest.mark.parametrize("row", ROWS)
def test_every_skin_has_what_the_page_says(row: str) -> None:
    _, _, sql, python, line, _ = (re.findall(r"`([^`]+)`", cell) for cell in row.split("|"))
    for statement in sql:
        assert statement.split()[0] in READERS
    for name in python:
        owner, method = name.split(".")
        assert callable(getattr(anabranch if owner == "anabranch" else anabranch.Anabranch, method))
    for command in line:
        assert command.split()[1] in cli.commands
    assert python and line


def test_upkeep_is_on_the_page() -> None:
    said = "\n".join(ROWS)
    assert all(f"anabranch {verb}`" in said and f".{verb}`" in said for verb in LOOKED_AFTER)
