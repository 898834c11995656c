"""Reads the text files of tests/fixtures/traps: title, tables, queries, windows of statements."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "fixtures" / "traps"


@dataclass
class Window:
    """What happens before one refresh."""

    title: str
    statements: str


@dataclass
class Trap:
    title: str
    tables: str = ""
    queries: dict[str, str] = field(default_factory=dict)
    windows: list[Window] = field(default_factory=list)


def load(name: str) -> Trap:
    """`== tables`, `== query name` and `== window [title]` start the sections of a file."""
    title, *sections = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").split("\n== ")
    trap = Trap(title.strip())
    for section in sections:
        head, _, body = section.partition("\n")
        kind, _, rest = head.partition(" ")
        if kind == "tables":
            trap.tables = body.strip()
        elif kind == "query":
            trap.queries[rest.strip()] = body.strip()
        elif kind == "window":
            trap.windows.append(Window(rest.strip(), body.strip()))
        else:
            raise ValueError(f"{name}.txt: there is no section {kind!r}")
    return trap


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.txt"))
