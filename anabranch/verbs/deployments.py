"""Verbs of deployments: plan, stage, wait, promote, abort, roll back, claim.

With `dry_run` a verb makes its checks, says what it would do, and does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.catalog.deployment_state import Undo
from anabranch.deploy import abort as aborting
from anabranch.deploy import owners
from anabranch.deploy import promote as promoting
from anabranch.deploy import rollback as rolling_back
from anabranch.deploy.along import look_after
from anabranch.deploy.conflicts import refuse_staged_readers
from anabranch.deploy.cycles import check_rollback
from anabranch.deploy.listing import summary
from anabranch.deploy.outside import readers_after_rollback
from anabranch.deploy.plan import Plan
from anabranch.deploy.progress import wait as wait_for
from anabranch.deploy.select import matches
from anabranch.deploy.snapshot import ObjectKey
from anabranch.deploy.stage import check
from anabranch.deploy.stage import stage as build
from anabranch.deploy.state import (
    DesiredState,
    find,
    newest_open,
    only_staged,
    plan_now,
    what_if_now,
    wrong_status,
)
from anabranch.deploy.steps import STAGED
from anabranch.errors import InvalidValue
from anabranch.project.external import check_lock
from anabranch.project.project import Project
from anabranch.runtime import Runtime
from anabranch.session import Session
from anabranch.verbs.projects import Place, loaded

Done = dict[str, Any]


def _desired(project: Project) -> DesiredState:
    return DesiredState(project.required_name(), project.snapshot())


def plan(
    session: Session,
    project: Place = ".",
    *,
    profile: str | None = None,
    select: Sequence[str] = (),
    what_if: Sequence[str] = (),
) -> Plan:
    """`select` takes only some of the changes; `what_if` plans as if objects had been edited."""
    if select and what_if:
        raise InvalidValue("give select or what_if, not both")
    found = loaded(project, profile)
    check_lock(session.runtime, found.files)
    if what_if:
        return what_if_now(session.runtime, found.snapshot(), what_if)
    return plan_now(session.runtime, _desired(found), select).plan


def why(found: Plan, name: str) -> tuple[ObjectKey, list[str]]:
    """The dirty object of that name, or with that end of one, and the chain of reasons for it."""
    keys = [key for key in sorted(found.found.dirty) if matches(key, name)]
    if len(keys) != 1:
        what = f"{name} is not dirty" if not keys else f"{name} is {' and '.join(map(str, keys))}"
        hint = "`anabranch plan` lists what is dirty" if not keys else "write more of the name"
        raise InvalidValue(what, hint=hint)
    return keys[0], list(found.found.why(keys[0]))


def stage(
    session: Session,
    project: Place = ".",
    *,
    profile: str | None = None,
    select: Sequence[str] = (),
    **agreed: bool,
) -> str | None:
    """The deployment's id, or None if nothing differs; `agreed`: what somebody lets happen."""
    found = loaded(project, profile)
    check_lock(session.runtime, found.files)
    return build(session.runtime, _desired(found), select=select, **agreed)


def stage_dry(
    session: Session,
    project: Place = ".",
    *,
    profile: str | None = None,
    select: Sequence[str] = (),
    **agreed: bool,
) -> Plan:
    """The plan, after the checks that stage makes."""
    files = loaded(project, profile)
    check_lock(session.runtime, files.files)
    found = plan_now(session.runtime, _desired(files), select).plan
    check(found, agreed)
    return found


def open_id(session: Session) -> str:
    """The newest deployment that is not in place, for whoever names none."""
    with session.store.reading() as c:
        return newest_open(c).id


def staged_id(session: Session) -> str:
    """The only deployment that is staged, for whoever names none."""
    with session.store.reading() as c:
        return only_staged(c).id


def wait(
    session: Session,
    deployment_id: str,
    timeout: float | None = None,
    *,
    watch: Callable[[Done], None] | None = None,
) -> Done:
    """`watch` sees every look at the deployment."""
    return wait_for(
        session.store,
        session.runtime.lake,
        deployment_id,
        timeout=timeout,
        watch=watch or (lambda found: None),
    )


def promote(
    session: Session,
    deployment_id: str,
    *,
    refresh: bool = True,
    suspend_readers: bool = False,
    dry_run: bool = False,
) -> Done:
    """`refresh` brings the staged tables up to date first."""
    if dry_run:
        return promote_dry(session.runtime, deployment_id)
    return promoting.promote(
        session.runtime, deployment_id, catch_up=refresh, suspend_readers=suspend_readers
    )


def promote_dry(runtime: Runtime, deployment_id: str) -> Done:
    """What promote would do, after its checks; the readers are those that there are now."""
    found = promoting.look(runtime, deployment_id)
    deployment = found.deployment
    staged = [action.value for action in STAGED]
    steps = [step.as_dict() for step in deployment.plan.steps if step.action not in staged]
    readers = promoting.readers_of(runtime, found)
    return {**summary(deployment), "steps": steps, "readers": [each.as_dict() for each in readers]}


def rollback(
    session: Session,
    deployment_id: str | None = None,
    *,
    suspend_readers: bool = False,
    project: str | None = None,
    dry_run: bool = False,
) -> Done:
    """The given deployment, or the newest of the project of that name, or of the only project."""
    if dry_run:
        return rollback_dry(session.runtime, deployment_id, project)
    return rolling_back.rollback(
        session.runtime, deployment_id, suspend_readers=suspend_readers, project=project
    )


def rollback_dry(runtime: Runtime, deployment_id: str | None, project: str | None = None) -> Done:
    """What a roll-back would bring back, after its checks."""
    deployment = rolling_back.to_roll_back(runtime, deployment_id, project)
    undo = deployment.undo or Undo()
    steps = [
        {"action": "restore" if location else "drop", "object": str(name)}
        for name, location in sorted(undo.pointers.items())
        if location or name not in undo.views
    ]
    steps += [{"action": "restore", "object": str(name)} for name in undo.views]
    steps += [{"action": "metadata", "object": str(name)} for name in sorted(undo.metadata)]
    with runtime.store.reading() as c:
        after = look_after(c, runtime, deployment.project)
    check_rollback(runtime.settings, after.seen, undo, after.staged)
    found = readers_after_rollback(runtime, after.seen, undo, after.own, after.staged)
    return {**summary(deployment), "steps": steps, "readers": [each.as_dict() for each in found]}


def abort(session: Session, deployment_id: str, *, dry_run: bool = False) -> Done:
    if dry_run:
        return abort_dry(session.runtime, deployment_id)
    return aborting.abort(session.runtime, deployment_id)


def abort_dry(runtime: Runtime, deployment_id: str) -> Done:
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


def claim(
    session: Session,
    former: str,
    project: Place = ".",
    *,
    profile: str | None = None,
    dry_run: bool = False,
) -> Done:
    """Everything that was deployed under a former name becomes the project's."""
    name = loaded(project, profile).required_name()
    return owners.claim(session.runtime, name, former, dry_run=dry_run)
