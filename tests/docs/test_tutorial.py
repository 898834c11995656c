"""The tutorial does what it says: every command is run, and every answer compared."""

from __future__ import annotations

import logging
import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli.main import run
from anabranch.spark.session import Spark

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w+)(?: title=\"(.+?)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# What is different each time: times, ids, ages, cuts, and the width of columns that show them.
VARIES = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<time>"),
    (r"\d\d:\d\d:\d\d", "<clock>"),
    (r"\b(\d+[smh] old|fresh) +", "<age> "),
    (r"\b[0-9a-f]{8}\b", "<id>"),
    (r"\d+\.\d+ s\)", "<seconds>)"),
    (r"passed +\d+\.\d+", "passed <seconds>"),
    (r"(COMPLETED +\d+ +\d+) +\d+( +\d+(?= ))?", r"\1 <milliseconds>"),
    (r"\bnotice: \S+: behind schedule.*\n", ""),  # a busy machine
    (r"─+", "─"),
    (r" +", " "),
    (r" $", ""),
)


def steady(text: str) -> list[str]:
    for pattern, by in VARIES:
        text = re.sub(pattern, by, text, flags=re.MULTILINE)
    return text.strip().splitlines()


class Reader:
    """Somebody who does what the page says, in one process and thus with one Spark."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}

    def sh(self, line: str) -> None:
        if line.startswith("anabranch run"):
            time.sleep(2)  # the schedule of the page: a reader is not as fast as that
        assigned = re.fullmatch(r"(\w+)=\$\((.+)\)", line)
        words = shlex.split(assigned[2] if assigned else line)
        words = [re.sub(r"\$(\w+)", lambda found: self.variables[found[1]], word) for word in words]
        if words[0] == "cd":
            os.chdir(words[1])
        elif assigned:
            with redirect_stdout(StringIO()) as said:
                self.anabranch(words)
            self.variables[assigned[1]] = said.getvalue().strip()
        else:
            self.anabranch(words)

    def anabranch(self, words: list[str]) -> None:
        assert words[0] == "anabranch", words
        assert run(words[1:]) == 0, words

    def do(self, language: str, file: str | None, code: str) -> None:
        if file is not None:
            assert Path(file).exists(), f"the page replaces {file}"
            Path(file).write_text(code, "utf-8")
        elif language == "sql":
            self.anabranch(["anabranch", "sql", code])
        else:
            for line in code.splitlines():
                self.sh(line)


@pytest.fixture
def one_spark(spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands run in an empty folder, as guests of the session of all tests."""
    start = Spark.__init__

    def shared(self: Spark, settings: Any, session: Any = None) -> None:
        start(self, settings, session or spark.session)

    log = logging.getLogger("anabranch")
    before = log.handlers, log.propagate
    monkeypatch.setattr(Spark, "__init__", shared)
    monkeypatch.chdir(tmp_path)
    yield
    log.handlers, log.propagate = before


@pytest.mark.extended
@pytest.mark.usefixtures("one_spark")
def test_the_tutorial_does_what_it_says() -> None:
    reader, said, answers, wrong = Reader(), "", 0, []
    _, _, steps = PAGE.read_text("utf-8").partition("Create a project.")
    for language, file, code in BLOCK.findall(steps):
        if language == "text":
            answers += 1
            if steady(said) != steady(code):
                wrong.append(f"the page says\n{code}\nit was\n{said}")
            continue
        terminal = TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True)
        with redirect_stdout(terminal), redirect_stderr(terminal):
            reader.do(language, file or None, code)
        said = terminal.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert not wrong, "\n".join(wrong)
    assert answers >= 15
