"""Reads the text files of tests/fixtures/traps.

A trap is a set of tables, the queries over them, and windows of statements: what happens before
one refresh.  Every section starts with a line `== kind name`:

tables       the statements that make and fill the source tables
query        a stream table st.<name>, kept in refresh mode DIFFERENTIAL
recomputed   a stream table in refresh mode AUTO: right, but not from changes
refused      a query that must not become a stream table, with its error and words of the message
window       statements before the next refresh
transaction  the same, in one transaction
rows         the rows of st.<name> after the window (or tables) above, as VALUES gives them
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).parents[1]
FOLDER = TESTS / "fixtures" / "traps"
LATER = {"later: components", "later: scheduler"}  # what a trap may wait for


@dataclass
class Window:
    """What happens before one refresh, and the rows of some tables after it."""

    title: str
    statements: str
    whole: bool = False  # in one transaction
    rows: dict[str, str] = field(default_factory=dict)


@dataclass
class Refusal:
    query: str
    error: str
    words: tuple[str, ...]


@dataclass
class Trap:
    title: str
    queries: dict[str, str] = field(default_factory=dict)
    recomputed: dict[str, str] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)
    windows: list[Window] = field(default_factory=list)  # the first makes the tables

    @property
    def names(self) -> list[str]:
        return [*self.queries, *self.recomputed, *self.refused]

    def add(self, kind: str, rest: str, body: str) -> None:
        name, *words = rest.split() or [""]
        match kind:
            case "tables":
                self.windows.append(Window("the tables", body))
            case "query":
                self.queries[name] = body
            case "recomputed":
                self.recomputed[name] = body
            case "refused":
                self.refused[name] = Refusal(body, words[0], tuple(words[1:]))
            case "window" | "transaction":
                self.windows.append(Window(rest, body, whole=kind == "transaction"))
            case "rows" if name in self.queries or name in self.recomputed:
                self.windows[-1].rows[name] = body
            case _:
                raise ValueError(f"there is no place for == {kind} {rest}")


def load(name: str) -> Trap:
    title, *sections = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").split("\n== ")
    trap = Trap(title.strip())
    for section in sections:
        head, _, body = section.partition("\n")
        kind, _, rest = head.partition(" ")
        trap.add(kind, rest.strip(), body.strip())
    return trap


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.txt") if path.stem != "index")


def index() -> dict[str, list[str]]:
    """Every known trap and the cases that set it: lines below it, indented.

    A case is a query of a file here, `joins::pairs`, a test, `tests/e2e/test_reading.py::test_views`,
    or what has to be built first.
    """
    found: dict[str, list[str]] = {}
    trap = ""
    for line in (FOLDER / "index.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("- "):
            trap = line.removeprefix("- ")
            found[trap] = []
        elif line.startswith("    "):
            found[trap].append(line.strip())
    return found


def cases() -> Iterator[str]:
    """Every query of every file."""
    for name in names():
        yield from (f"{name}::{query}" for query in load(name).names)


def exists(case: str) -> bool:
    if case in LATER or case in set(cases()):
        return True
    path, _, test = case.partition("::")
    file = TESTS.parent / path
    if not path.endswith(".py") or not file.is_file():
        return False
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef) and node.name == test for node in tree.body)
