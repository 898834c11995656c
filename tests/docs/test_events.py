"""Every kind of event is explained."""

from __future__ import annotations

import re
from pathlib import Path

from anabranch.catalog import events

PAGE = Path(__file__).parents[2] / "docs" / "scheduler.md"


def test_every_kind_of_event_is_documented() -> None:
    kinds = {value for name, value in vars(events).items() if name == value}
    section = PAGE.read_text().split("## Events")[1].split("\n## ")[0]
    explained = {
        kind
        for line in section.splitlines()
        if line.startswith("| `")
        for kind in re.findall(r"`([A-Z_]+)`", line.split("|")[1])
    }
    assert explained == kinds
