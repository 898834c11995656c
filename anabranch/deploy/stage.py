"""stage: build what is dirty beside production.

The deployment is written down first; every object is then a publish of its own.  So whoever runs the
command again after a crash goes on with the objects that are missing, and nobody else sees anything.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from anabranch import failpoints
from anabranch.catalog import deployments, stages, tables
from anabranch.catalog.deployment_state import Base, Notes
from anabranch.catalog.deployments import OPEN, Deployment, DeploymentStatus
from anabranch.deploy.abort import remove_left_overs
from anabranch.deploy.build import build, parts
from anabranch.deploy.conflicts import columns_now, id_of
from anabranch.deploy.plan import Plan
from anabranch.deploy.production import fingerprints
from anabranch.deploy.record import snapshot_of, snapshot_record
from anabranch.deploy.refusals import DROP_MOST, DROP_TABLES, SUSPEND_READERS, broken
from anabranch.deploy.snapshot import ObjectKey, Snapshot
from anabranch.deploy.staging import Staging
from anabranch.deploy.stand_ins import create_stand_ins
from anabranch.deploy.state import (
    DesiredState,
    PlannedDeployment,
    definition,
    find,
    plan_now,
    read_by,
    refuse_in_transaction,
    staging_of,
    who,
    wrong_status,
)
from anabranch.deploy.steps import Action
from anabranch.errors import Refused
from anabranch.names import TableName
from anabranch.refresh.observe import observe_now
from anabranch.refresh.parallel import side_by_side
from anabranch.runtime import Runtime


def stage(
    runtime: Runtime,
    desired: DesiredState,
    *,
    select: Sequence[str] = (),
    drop_tables: bool = False,
    drop_most: bool = False,
    suspend_readers: bool = False,
) -> str | None:
    """Build a deployment and return its id; None when there is nothing to deploy.

    `suspend_readers`: its promote suspends stream tables outside of the project that cannot follow.
    """
    refuse_in_transaction(runtime)
    planned = plan_now(runtime, desired, select)
    if planned.plan.empty:
        return None
    agreed = {
        DROP_TABLES: drop_tables,
        DROP_MOST: drop_most,
        SUSPEND_READERS: suspend_readers,
    }
    check(planned.plan, agreed)
    owner = stages.mine(uuid.uuid4().hex[:8])
    begun = begin(runtime, desired, planned, owner)
    with runtime.leases.keep_deployment(begun.id, owner, runtime.settings.lease_time):
        failpoints.hit(failpoints.BEGUN)
        if begun.status is DeploymentStatus.STAGING:
            finish(runtime, begun.id)
        agree(runtime, begun.id, [reader.name for reader in broken(planned.plan.readers)])
    return begun.id


def agree(runtime: Runtime, deployment_id: str, readers: Sequence[TableName]) -> None:
    """Note for promote which readers may be suspended: those, and no others."""
    with runtime.store.writing() as c:
        notes = replace(find(c, deployment_id).notes, suspend=tuple(readers))
        deployments.note(c, deployment_id, notes)


def check(plan: Plan, agreed: Mapping[str, bool]) -> None:
    """What must not be done is refused before anything is, unless somebody agreed by an option."""
    for refusal in plan.refused:
        if not agreed.get(refusal.unless or "", False):
            raise refusal.error


def begin(
    runtime: Runtime, desired: DesiredState, planned: PlannedDeployment, owner: stages.StageRow
) -> Deployment:
    """Write the deployment down, or take up the same one where an earlier run left it."""
    made = Deployment(
        id=owner.id,
        project=desired.name,
        status=DeploymentStatus.STAGING,
        created_by=who(),
        host=owner.host,
        pid=owner.pid,
        process_start=owner.process_start,
        plan=planned.plan.planned,
        wanted=snapshot_record(touched(planned.plan)),
        base=base_of(runtime, planned),
    )
    with runtime.store.writing() as c:
        known, now = deployments.listing(c), tables.now(c)
        left = (each for each in known if _left_behind(each, owner, now) and _same(each, made))
        begun = next(left, made)
        if begun is made:
            deployments.add(c, made)
        deployments.own(c, begun.id, owner, runtime.settings.lease_time)
    return begun


def _left_behind(each: Deployment, owner: stages.StageRow, now: datetime) -> bool:
    """Nobody works at it: its lease is over, or it is of this process, which failed and tries again."""
    again = each.owned_by(owner) and each.status is DeploymentStatus.STAGING
    return each.status in OPEN and (again or not each.alive(now))


def _same(each: Deployment, mine: Deployment) -> bool:
    """The same person wants the same objects upon the same base; estimates of rows may differ."""
    wanted = [json.dumps(one.wanted, sort_keys=True) for one in (each, mine)]
    about = [(one.project, one.created_by, one.base) for one in (each, mine)]
    return wanted[0] == wanted[1] and about[0] == about[1]


def touched(plan: Plan) -> Snapshot:
    """The objects of all steps as they are to be, and the clusters."""
    actions = [action for action in Action if action not in (Action.DROP, Action.END)]
    keys = {key for key in plan.keys(*actions) if key in plan.new.objects}
    clusters = {
        name: each for name, each in plan.new.clusters.items() if name in plan.clusters_changed
    }
    return Snapshot({key: plan.new.objects[key] for key in sorted(keys)}, clusters)


def base_of(runtime: Runtime, planned: PlannedDeployment) -> Base:
    """What must still hold when the deployment is promoted."""
    plan = planned.plan
    swapped = plan.keys(Action.SWAP, Action.DROP, Action.METADATA)
    places = {key.place for key in swapped} | set(plan.found.schemas)
    read = {key.place for key in read_by(plan, plan.keys(Action.BUILD))}
    return Base(
        schemas=tuple((*place, planned.versions.get(place, 0)) for place in sorted(places | read)),
        touched=tuple((*place,) for place in sorted(places)),
        definitions={key.table: definition(planned.seen, key) for key in sorted(swapped)},
        ids={
            key.table: id_of(runtime.lake, planned.seen, key.table)
            for key in sorted({*swapped, *plan.keys(Action.ALTER)})
        },
        columns={
            key.table: columns_now(runtime.lake, planned.seen, key.table)
            for key in sorted(plan.keys(Action.ALTER))
        },
    )


def finish(runtime: Runtime, deployment_id: str) -> None:
    """Do what is left to do of a deployment that was begun."""
    with runtime.store.reading() as c:
        deployment = find(c, deployment_id)
    snapshot, staging = snapshot_of(deployment.wanted), staging_of(deployment)
    create_stand_ins(runtime, staging, snapshot)
    build_all(runtime, deployment, staging, snapshot)
    notes = Notes(fingerprints=fingerprints(runtime, observe_now(runtime), staging, snapshot))
    with runtime.store.writing() as c:
        staged = DeploymentStatus.STAGED
        if not deployments.move(
            c, deployment.id, OPEN, staged, staged_at=tables.now(c), notes=notes.record()
        ):
            raise wrong_status(find(c, deployment.id), "staged")


def build_all(
    runtime: Runtime, deployment: Deployment, staging: Staging, snapshot: Snapshot
) -> None:
    """Every object in a publish of its own; those that do not read each other side by side."""
    todo = parts(snapshot, sorted(staging.keys))
    home = {key: part for part in todo for key in part}
    after = {
        part: {home[up] for key in part for up in snapshot.objects[key].reads if up in home}
        - {part}
        for part in todo
    }

    def work(part: tuple[ObjectKey, ...]) -> bool:
        facts = {"object": str(part[0]), "number": todo.index(part) + 1, "of": len(todo)}
        runtime.progress("building", facts)
        build(runtime, staging, snapshot, part)
        check_open(runtime, deployment)
        return True

    side_by_side(todo, after, work, runtime.workers.members)


def check_open(runtime: Runtime, deployment: Deployment) -> None:
    """Somebody may abort a deployment while it is being built: then nothing of it may stay.

    And a process that was silent for too long may find that another one has taken it over.
    """
    with runtime.store.reading() as c:
        now = find(c, deployment.id)
    if now.status not in OPEN:
        remove_left_overs(runtime, now)
        raise wrong_status(now, "staged")
    if not now.owned_by(stages.mine(deployment.id)):
        raise Refused(
            f"another process took {deployment.id} over: this one stopped responding for too long",
            hint=f"`anabranch wait {deployment.id}` shows its progress",
        )
