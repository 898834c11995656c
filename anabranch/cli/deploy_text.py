"""Plans and deployments as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from anabranch.deploy.facts import Change
from anabranch.deploy.plan import Plan
from anabranch.deploy.steps import Action, Step

SIGNS = {Change.ADDED: "+", Change.MODIFIED: "~", Change.DELETED: "-"}
COLOURS = {"+": "green", "-": "red", "@": "cyan", "~": "yellow"}
NOTHING = "nothing to deploy: the project is what is deployed"


def plan_text(plan: Plan) -> str:
    if plan.empty:
        return NOTHING
    blocks = [_changed(plan), _dirty(plan), _steps(plan.steps)]
    builds = len(plan.keys(Action.BUILD))
    blocks.append(f"{builds} to build, about {plan.rows:,} rows to process")
    return "\n\n".join(block for block in blocks if block)


def _changed(plan: Plan) -> str:
    lines = []
    for each in plan.changed:
        lines.append(_coloured(f"{SIGNS[each.change]} {each.key} was {each.change.value}"))
        body = each.diff.splitlines()[2:]  # without the names of the two sides
        lines += [f"    {_coloured(line)}" for line in body]
    lines += [_coloured(f"~ cluster {name} was changed") for name in plan.clusters_changed]
    return "\n".join(lines)


def _coloured(line: str) -> str:
    return click.style(line, fg=COLOURS.get(line[:1]))


def _dirty(plan: Plan) -> str:
    found = plan.found
    others = sorted(found.dirty - found.changed.keys())
    if not others:
        return ""
    lines = ["dirty besides"]
    width = max(len(str(key)) for key in others)
    for key in others:
        only = "" if key in found.propagating else " (its index only)"
        lines.append(f"  {key!s:<{width}}  {found.why(key)[-1]}{only}")
    return "\n".join(lines)


def _steps(steps: Sequence[Step]) -> str:
    if not steps:
        return ""
    width = max(len(str(step.key)) for step in steps)
    lines = ["steps"]
    for step in steps:
        rows = f"  about {step.rows:,} rows" if step.rows else ""
        lines.append(f"  {step.action.value:<8} {step.key!s:<{width}}  {step.why}{rows}")
    return "\n".join(lines)


def steps_text(found: Mapping[str, Any]) -> str:
    """What a command that was only tried would do."""
    steps = found["steps"]
    lines = [f"  {step['action']:<8} {step['object']}" for step in steps]
    return "\n".join([f"deployment {found['id']}, nothing was done:", *lines])


def progress_text(found: Mapping[str, Any]) -> str:
    return f"{found['id']} {found['status'].lower()}: {found['built']} of {found['of']} built"
