"""The shell: lines until `;`, errors that do not end it, completion."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from anabranch.cli.output import TextOutput
from anabranch.cli.progress import Progress
from anabranch.cli.session import CliSession
from anabranch.cli.shell import Shell, complete
from anabranch.cli.statements import Runner
from tests.unit.cli.conftest import FakeAnabranch

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def keyboard() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe:
        yield pipe


@pytest.fixture
def shell(ab: FakeAnabranch, keyboard: PipeInput) -> Shell:
    session = CliSession(progress=Progress(enabled=False))
    return Shell(Runner(session, TextOutput(), 100), input=keyboard, output=DummyOutput())


def test_a_statement_may_span_lines(ab: FakeAnabranch, shell: Shell, keyboard: PipeInput) -> None:
    keyboard.send_text("SELECT *\rFROM t;\r\\q\r")
    shell.run()
    assert ab.statements == ["SELECT *\nFROM t"]


def test_errors_do_not_end_the_shell(
    ab: FakeAnabranch, shell: Shell, keyboard: PipeInput, capsys: Capture
) -> None:
    keyboard.send_text("SELECT * FROM nowhere;\rSELECT 2;\r\x04")
    shell.run()
    assert ab.statements == ["SELECT * FROM nowhere", "SELECT 2"]
    assert "error: there is no table nowhere" in capsys.readouterr().err


def test_ctrl_c_drops_the_line(ab: FakeAnabranch, shell: Shell, keyboard: PipeInput) -> None:
    keyboard.send_text("SELECT oops\x03SELECT 1;\r\x04")
    shell.run()
    assert ab.statements == ["SELECT 1"]


def test_an_interrupted_statement_is_stopped(
    ab: FakeAnabranch, shell: Shell, keyboard: PipeInput, capsys: Capture
) -> None:
    ab.raises = KeyboardInterrupt()
    keyboard.send_text("SELECT 1;\r\x04")
    shell.run()
    assert "stopped" in capsys.readouterr().err


def test_backslash_commands(shell: Shell, keyboard: PipeInput, capsys: Capture) -> None:
    keyboard.send_text("\\d\r\\d shop.sales\r\\s shop.by_region\r\\r\r\\h\rquit;\r")
    shell.run()
    out, err = capsys.readouterr()
    assert "source table" in out
    assert "bigint" in out
    assert "plan of shop.by_region" in out
    assert "DIFFERENTIAL" in out
    assert "list the tables" in err


def test_unknown_tables_are_said(shell: Shell, keyboard: PipeInput, capsys: Capture) -> None:
    keyboard.send_text("\\d shop.sale\r\\q\r")
    shell.run()
    assert 'did you mean "shop.sales"?' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT ';", False),
        ("SELECT 1 /* ;", False),
        ("-- only a comment;", False),
        ("\\d", True),
        ("exit", True),
        (" quit ", True),
        ("exit all", False),
    ],
)
def test_when_a_text_is_complete(text: str, done: bool) -> None:
    assert complete(text) is done


@pytest.mark.parametrize(
    ("text", "offers"),
    [
        ("SEL", ["SELECT"]),
        ("sel", ["select"]),
        ("SELECT reg", ["region"]),
        ("SELECT * FROM shop.s", ["shop.sales"]),
        ("SELECT sum(reg", ["region"]),
        ("", []),
    ],
)
def test_completion(shell: Shell, text: str, offers: list[str]) -> None:
    found = shell.completer.get_completions(Document(text), CompleteEvent())
    assert [completion.text for completion in found] == offers
