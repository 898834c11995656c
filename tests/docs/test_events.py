"""Every kind of event is explained, and every code of a group that waits."""

from __future__ import annotations

import re
from pathlib import Path

from anabranch.catalog import events
from anabranch.model import WaitCode

PAGE = Path(__file__).parents[2] / "docs" / "scheduler.md"


def test_every_kind_of_event_is_documented() -> None:
    kinds = {value for name, value in vars(events).items() if name == value}
    assert explained("Events") == kinds


def test_every_code_of_a_group_that_waits_is_documented() -> None:
    assert explained("Ticks") - {"SKIPPED"} == {each.value for each in WaitCode}


def explained(heading: str) -> set[str]:
    """What the first columns of the tables below a heading have."""
    section = PAGE.read_text().split(f"## {heading}")[1].split("\n## ")[0]
    return {
        kind
        for line in section.splitlines()
        if line.startswith("| `")
        for kind in re.findall(r"`([A-Z_]+)`", line.split("|")[1])
    }
