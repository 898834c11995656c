"""What is wrong with a project: every mistake with its place and a cure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from anabranch.errors import NotCompiled, caret


@dataclass(frozen=True, order=True)
class Problem:
    """A mistake in a file; `line` and `column` count from 1, `text` is the whole line."""

    file: str
    line: int
    column: int
    message: str
    hint: str | None = field(default=None, compare=False)
    text: str = field(default="", compare=False)

    def __str__(self) -> str:
        lines = [f"{self.file}:{self.line}:{self.column}: {self.message}"]
        if self.text.strip():
            lines.append(caret(self.text, 1, self.column))
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def row(self) -> dict[str, Any]:
        names = ("file", "line", "column", "message", "hint")
        return {name: getattr(self, name) for name in names}


def refuse(problems: Iterable[Problem]) -> None:
    """Raise one error that holds all problems, if there are any."""
    found = sorted(set(problems))
    if found:
        count = "1 mistake" if len(found) == 1 else f"{len(found)} mistakes"
        texts = "\n\n".join(map(str, found))
        raise NotCompiled(f"{count} in the project\n\n{texts}", problems=found)
