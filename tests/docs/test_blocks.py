"""Code in the pages: SQL parses, Python calls what there is, settings are settings, options exist."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from anabranch import Anabranch, listing
from anabranch.cli.main import cli
from anabranch.cut_view import CutView
from anabranch.settings import Settings
from anabranch.sql.statements.read import parse_statement
from anabranch.sql.text.parse import split
from anabranch.verbs.table import PROCEDURES
from tests.docs.test_docs import PAGES, ROOT, commands_in

GRAMMAR = re.compile(r"…|\[|\bname\b|\btable\b")  # a form to be filled in, not a statement
VERBS = {"ab": Anabranch, "world": CutView}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


def statements() -> Iterator[str]:
    for page in PAGES:
        for block in blocks(page, "sql"):
            yield from (piece.text for piece in split(block) if not GRAMMAR.search(piece.text))


def test_sql_in_the_pages_is_sql() -> None:
    found = list(statements())
    assert len(found) >= 25, "the pages show SQL"
    for text in found:
        parse_statement(text.replace("(:regions)", "('eu')"))


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Every `ab.verb(…)` and `world.verb(…)` in the Python of the pages and in their inline code."""
    for page in PAGES:
        inline = re.findall(r"`((?:ab|world)\.\w+\([^`…]*\))`", page.read_text("utf-8"))
        for block in (*blocks(page, "python"), *inline):
            for node in ast.walk(ast.parse(block)):
                match node:
                    case ast.Call(func=ast.Attribute(ast.Name(owner), verb)) if owner in VERBS:
                        yield owner, verb, node


def test_python_in_the_pages_calls_what_there_is() -> None:
    found = list(calls())
    assert len(found) >= 25, "the pages show Python"
    for owner, verb, call in found:
        named = {each.arg: None for each in call.keywords if each.arg}
        inspect.signature(getattr(VERBS[owner], verb)).bind_partial(None, *call.args, **named)


@pytest.mark.parametrize("page", ["operations.md", "projects.md", "settings.md"])
def test_settings_in_the_pages_are_read(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_PASSWORD", "secret")
    (block,) = blocks(ROOT / "docs" / page, "toml")
    (tmp_path / "anabranch.toml").write_text(block, "utf-8")
    loaded = Settings.load(tmp_path / "anabranch.toml")
    assert loaded.origins, "the file sets something"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_of_commands_exist(page: Path) -> None:
    for words in commands_in(page.read_text("utf-8")):
        said = [word for word in words if not word.startswith("-")]
        command = cli.commands[said[0]]
        if isinstance(command, click.Group) and {*said[1:2]} & {*command.commands}:
            command = command.commands[said[1]]
        known = {name for each in (*command.params, *cli.params) for name in each.opts}
        known |= set(command.get_help_option_names(click.Context(command)))
        given = {word.split("=")[0] for word in words if word.startswith("--")}
        assert given <= known, words


def test_system_views_in_the_pages_exist() -> None:
    named = {
        name for page in PAGES for name in re.findall(r"\bsystem\.(\w+)", page.read_text("utf-8"))
    }
    assert named <= {*listing.COLUMNS, *PROCEDURES, "view", "name"}
    listed = (ROOT / "docs" / "sql.md").read_text("utf-8")
    assert [name for name in listing.COLUMNS if f"| `system.{name}` |" not in listed] == []
