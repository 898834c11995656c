"""What becomes of a stream table outside of a project that reads what a deployment moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anabranch.catalog.deployment_state import PlannedReader
from anabranch.names import TableName

REBUILT = "rebuilt"  # it reads what is built: all its rows are computed again
REFRESHED = "refreshed"  # it reads what is rebuilt or refreshed outside
FAILS = "fails"  # its query does not fit any more
WAITS = "waits"  # it reads one that fails
STOPPED = "suspended"  # it was so before, or in error: it stays as it is
FOLLOWS = "follows"  # a view, or a reader of a source table that only gets other columns
BROKEN = "broken"  # a view that does not work as things are
WORDS = {
    REBUILT: "rebuilt along",
    REFRESHED: "refreshed along",
    FAILS: "would fail",
    WAITS: "would wait",
    STOPPED: "stays suspended or in error",
    FOLLOWS: "follows by itself",
    BROKEN: "does not work anyway",
}


@dataclass(frozen=True)
class Reader:
    """`reads` is what it reads that moves, or that moves along."""

    name: TableName
    reads: tuple[TableName, ...]
    outcome: str
    error: str | None = None
    kind: str = "stream table"

    @property
    def planned(self) -> PlannedReader:
        reads = tuple(str(each) for each in self.reads)
        return PlannedReader(str(self.name), self.kind, reads, self.outcome, self.error)

    def as_dict(self) -> dict[str, Any]:
        return self.planned.as_dict()

    def __str__(self) -> str:
        what = "a view, " if self.kind == "view" else ""
        why = f": {self.error}" if self.error else f", reads {', '.join(map(str, self.reads))}"
        return f"{what}{WORDS[self.outcome]}{why}"
