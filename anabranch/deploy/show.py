"""A plan as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.deploy.facts import Change
from anabranch.deploy.steps import Action

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.deploy.plan import Plan

SIGNS = {Change.ADDED: "+", Change.MODIFIED: "~", Change.DELETED: "-"}
NOTHING = "nothing to deploy: the project is what is deployed"


def plan_text(plan: Plan) -> str:
    if plan.empty:
        return NOTHING
    builds = len(plan.keys(Action.BUILD))
    last = f"{builds} to build, about {plan.rows:,} rows to process"
    parts = (
        _changed(plan),
        _dirty(plan),
        _steps(plan),
        _readers(plan),
        _by_hand(plan),
        _refused(plan),
    )
    blocks = ["\n".join(lines) for lines in parts]
    return "\n\n".join([*filter(None, blocks), last])


def _changed(plan: Plan) -> Iterator[str]:
    for each in plan.changed:
        yield f"{SIGNS[each.change]} {each.key} was {each.change.value}"
        yield from (f"    {line}" for line in each.diff.splitlines()[2:])  # without file names
    yield from (f"~ cluster {name} was changed" for name in plan.clusters_changed)


def _dirty(plan: Plan) -> Iterator[str]:
    found = plan.found
    others = sorted(found.dirty - found.changed.keys())
    if others:
        yield "dirty besides"
    width = max((len(str(key)) for key in others), default=0)
    for key in others:
        only = "" if key in found.propagating else " (its index only)"
        yield f"  {key!s:<{width}}  {found.why(key)[-1]}{only}"


def _readers(plan: Plan) -> Iterator[str]:
    if plan.readers:
        yield "readers outside the project"
    width = max((len(str(reader.name)) for reader in plan.readers), default=0)
    for reader in plan.readers:
        yield f"  {reader.name!s:<{width}}  {reader}"


def _by_hand(plan: Plan) -> Iterator[str]:
    if plan.by_hand:
        yield "set by hand"
    width = max((len(str(each.key)) for each in plan.by_hand), default=0)
    for each in plan.by_hand:
        yield f"  {each.key!s:<{width}}  {each}"


def _refused(plan: Plan) -> Iterator[str]:
    if plan.refused:
        yield "stage will refuse this"
    yield from (f"  {refusal}" for refusal in plan.refused)


def _steps(plan: Plan) -> Iterator[str]:
    if plan.steps:
        yield "steps"
    width = max((len(str(step.key)) for step in plan.steps), default=0)
    for step in plan.steps:
        rows = f"  about {step.rows:,} rows" if step.rows else ""
        yield f"  {step.action.value:<8} {step.key!s:<{width}}  {step.why}{rows}"
