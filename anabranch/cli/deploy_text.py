"""Plans and deployments as text for people, coloured on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.cli.output import coloured
from anabranch.deploy.plan import Plan
from anabranch.deploy.readers import WORDS

COLOURS = {"+": "green", "-": "red", "@": "cyan", "~": "yellow"}


def plan_text(plan: Plan) -> str:
    return "\n".join(map(_coloured, str(plan).splitlines()))


def _coloured(line: str) -> str:
    """Changed objects and lines of their SQL by their signs."""
    return coloured(line, fg=COLOURS.get(line.removeprefix("    ")[:1]))


def steps_text(found: Mapping[str, Any]) -> str:
    """What a command that was only tried would do."""
    lines = [f"  {step['action']:<8} {step['object']}" for step in found["steps"]]
    lines += [
        f"  reader   {row['reader']}  {WORDS[row['outcome']]}"
        + (f": {row['error']}" if row["error"] else "")
        for row in found.get("readers", ())
    ]
    return "\n".join([f"deployment {found['id']}, nothing was done:", *lines])


def progress_text(found: Mapping[str, Any]) -> str:
    return f"{found['id']} {found['status'].lower()}: {found['built']} of {found['of']} built"
