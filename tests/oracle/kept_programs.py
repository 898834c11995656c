"""Programs that failed once, as files: a test that fails writes one, which is replayed from then on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from tests.oracle.programs import Case, Row, Step

CYCLES = Path(__file__).parent.parent / "fixtures" / "cycles"


def keep(folder: Path, text: str) -> Path:
    """A program under a name of its own, until somebody says in the name what went wrong."""
    path = folder / f"found_{hashlib.sha256(text.encode()).hexdigest()[:8]}.json"
    path.write_text(text, encoding="utf-8")
    return path


def as_text(case: Case, *, careful: bool) -> str:
    return json.dumps({**asdict(case), "careful": careful}, indent=1) + "\n"


def from_text(text: str) -> tuple[Case, bool]:
    found = json.loads(text)
    members = {name: (how, tuple(each)) for name, (how, each) in found["members"].items()}
    start = {name: _rows(rows) for name, rows in found["start"].items()}
    changes = tuple(
        tuple(
            Step(
                step["source"],
                None if step["gone"] is None else _rows(step["gone"]),
                _rows(step["new"]),
            )
            for step in steps
        )
        for steps in found["changes"]
    )
    return Case(members, start, changes), found["careful"]


def _rows(found: list[list[int | None]]) -> tuple[Row, ...]:
    return tuple((x, y) for x, y in found)
