"""Deployments as verbs: what `ab.plan()`, `ab.stage()` and the command line call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.catalog.deployments import DeploymentStatus
from anabranch.deploy import abort as aborting
from anabranch.deploy import owners
from anabranch.deploy import promote as promoting
from anabranch.deploy import rollback as rolling_back
from anabranch.deploy.along import look_after
from anabranch.deploy.circles import check_rollback
from anabranch.deploy.conflicts import refuse_staged_readers
from anabranch.deploy.listing import summary
from anabranch.deploy.outside import readers_after_rollback
from anabranch.deploy.plan import Plan
from anabranch.deploy.record import snapshot_of
from anabranch.deploy.select import matches
from anabranch.deploy.snapshot import ObjectKey
from anabranch.deploy.stage import check, stage
from anabranch.deploy.state import (
    Wanted,
    find,
    only_staged,
    plan_now,
    what_if_now,
    wrong_status,
)
from anabranch.deploy.steps import STAGED
from anabranch.errors import InvalidValue
from anabranch.project.project import Project
from anabranch.refresh.observe import observe_now
from anabranch.runtime import Runtime


def wanted(project: Project) -> Wanted:
    return Wanted(project.required_name(), project.snapshot())


def plan(
    runtime: Runtime, project: Project, *, select: Sequence[str] = (), what_if: Sequence[str] = ()
) -> Plan:
    if what_if:
        return what_if_now(runtime, project.snapshot(), what_if)
    return plan_now(runtime, wanted(project), select).plan


def stage_project(
    runtime: Runtime,
    project: Project,
    *,
    select: Sequence[str] = (),
    **agreed: bool,
) -> str | None:
    """`agreed`: what somebody lets happen, such as `drop_tables`."""
    return stage(runtime, wanted(project), select=select, **agreed)


def stage_dry(
    runtime: Runtime,
    project: Project,
    *,
    select: Sequence[str] = (),
    **agreed: bool,
) -> Plan:
    """The plan, after the checks that stage makes."""
    found = plan_now(runtime, wanted(project), select)
    check(found.plan, agreed)
    return found.plan


def claim(
    runtime: Runtime, project: Project, former: str, *, dry_run: bool = False
) -> dict[str, Any]:
    """Everything that was deployed under a former name becomes the project's."""
    return owners.claim(runtime, project.required_name(), former, dry_run=dry_run)


def staged_id(runtime: Runtime, deployment_id: str | None) -> str:
    """The given deployment, or the only one that is staged."""
    with runtime.store.reading() as c:
        return (find(c, deployment_id) if deployment_id else only_staged(c)).id


def promote_dry(runtime: Runtime, deployment_id: str) -> dict[str, Any]:
    """What promote would do, after its checks; the readers are those that there are now."""
    with runtime.store.reading() as c:
        deployment = find(c, deployment_id)
    if deployment.status is not DeploymentStatus.STAGED:
        raise wrong_status(deployment, "promoted")
    promoting.check_now(runtime, deployment)
    staged = [action.value for action in STAGED]
    steps = [step for step in deployment.plan["steps"] if step["action"] not in staged]
    snapshot = snapshot_of(deployment.wanted)
    found = promoting.readers_of(runtime, observe_now(runtime), deployment, snapshot)
    return {**summary(deployment), "steps": steps, "readers": [each.as_dict() for each in found]}


def rollback_dry(
    runtime: Runtime, deployment_id: str | None, project: str | None = None
) -> dict[str, Any]:
    """What a roll-back would bring back, after its checks."""
    deployment = rolling_back.to_roll_back(runtime, deployment_id, project)
    undo = deployment.undo or {}
    steps = [
        {"action": "restore" if location else "drop", "object": name}
        for name, location in sorted(undo["pointers"].items())
        if location or not any(row["name"] == name for row in undo["rows"]["views"])
    ]
    steps += [{"action": "restore", "object": row["name"]} for row in undo["rows"]["views"]]
    steps += [{"action": "metadata", "object": name} for name in sorted(undo["metadata"])]
    with runtime.store.reading() as c:
        after = look_after(c, runtime, deployment.project)
    check_rollback(runtime.settings, after.seen, undo, after.staged)
    found = readers_after_rollback(runtime, after.seen, undo, after.own, after.staged)
    return {**summary(deployment), "steps": steps, "readers": [each.as_dict() for each in found]}


def abort_dry(runtime: Runtime, deployment_id: str) -> dict[str, Any]:
    """What an abort would remove, after its checks."""
    with runtime.store.reading() as c:
        deployment = find(c, deployment_id)
    if deployment.status not in aborting.CAN_END:
        raise wrong_status(deployment, "aborted")
    names = aborting.staged_names(runtime.world(), deployment)
    with runtime.store.reading() as c:
        refuse_staged_readers(c, names)
    steps = [{"action": "drop", "object": str(name)} for name in names]
    return {**summary(deployment), "steps": steps}


def key_named(plan: Plan, name: str) -> ObjectKey:
    """The dirty object that somebody asks about, by its name or the end of it."""
    found = [key for key in sorted(plan.found.dirty) if matches(key, name)]
    if len(found) != 1:
        what = f"{name} is not dirty" if not found else f"{name} is {' and '.join(map(str, found))}"
        hint = "`anabranch plan` lists what is dirty" if not found else "write more of the name"
        raise InvalidValue(what, hint=hint)
    return found[0]
