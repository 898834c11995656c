"""What is deployed, and the plan from there: read from the catalog, there is no state file."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from anabranch.catalog import deployments
from anabranch.catalog.deployments import OPEN, Deployment, DeploymentStatus
from anabranch.catalog.indexes import all_indexes
from anabranch.catalog.store import Connection
from anabranch.deploy.build import view_query
from anabranch.deploy.by_hand import Production, set_by_hand
from anabranch.deploy.canonical import canonical_query, object_hash
from anabranch.deploy.cycles import Moving, deployed_cycles
from anabranch.deploy.outside import outside_readers
from anabranch.deploy.owners import owned, without_made_by_hand, without_others
from anabranch.deploy.plan import Plan, Refusal, make_plan, what_if_plan
from anabranch.deploy.refusals import dropping_most, refusals
from anabranch.deploy.select import chosen
from anabranch.deploy.snapshot import (
    ObjectKey,
    ObjectKind,
    SchemaKey,
    Snapshot,
    SnapshotObject,
)
from anabranch.deploy.source_tables import changes, lacks
from anabranch.deploy.staging import Staging
from anabranch.deploy.steps import Action
from anabranch.errors import AnabranchError, InvalidValue, Refused, UnknownName, UserError
from anabranch.lake.observe import observed
from anabranch.refresh.observe import CatalogState, observe, observe_now
from anabranch.runtime import Runtime

BY_HAND = "changed by hand"
TABLE = "table"  # the definition of every source table


@dataclass(frozen=True)
class DesiredState:
    """A project as somebody wants it deployed; `name` is what its objects are recorded under."""

    name: str
    snapshot: Snapshot


@dataclass(frozen=True)
class PlannedDeployment:
    """A plan, and the state of the catalog it was made in."""

    plan: Plan
    seen: CatalogState
    versions: dict[SchemaKey, int]


def definition(seen: CatalogState, key: ObjectKey) -> str | None:
    """What an object of production is; None when there is none."""
    name = key.table
    if name in seen.streams:
        return seen.streams[name].query
    if name in seen.views:
        return f"view {seen.views[name]}"
    return TABLE if name in seen.pointers else None


def wanted_definition(each: SnapshotObject) -> str:
    """What `definition` says once the object is in place."""
    if each.kind == "view":
        return f"view {view_query(each)}"
    return each.query.strip().rstrip(";") if each.kind == "stream table" else TABLE


def same_definition(one: str, other: str) -> bool:
    """Equal up to layout: what a deployment kept still has the text that it was built from."""
    if one == other:
        return True
    texts = [each.removeprefix("view ") for each in (one, other)]
    if TABLE in texts or one.startswith("view ") != other.startswith("view "):
        return False
    try:
        forms = [canonical_query(text) for text in texts]
    except AnabranchError:
        return False
    return forms[0] == forms[1]


def who() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def plan_now(
    runtime: Runtime, desired: DesiredState, select: Sequence[str] = ()
) -> PlannedDeployment:
    """The plan from what is deployed at this moment."""
    with observed(runtime.lake) as c:
        mine = owned(c, desired.name, desired.snapshot)
        seen, indexed = observe(c, runtime.lake), all_indexes(c)
        versions = {SchemaKey(*p): v.version for p, v in deployments.schema_versions(c).items()}
        staged = tuple(f"__{each}" for each in sorted(deployments.open_ids(c)))
    new = without_others(runtime, seen, desired.snapshot, mine.others)
    new = without_made_by_hand(runtime, seen, new, mine)
    deployed = as_found(runtime, seen, mine.snapshot)
    old = with_existing(runtime, seen, deployed, new)
    found = make_plan(old, new, select=select)
    refuse_another_project(desired.name, deployed, found)
    rows = row_counts(runtime, seen, tables_read(found))
    plan = make_plan(old, found.new, rows=rows)
    moved, altered = plan.keys(Action.SWAP, Action.DROP), plan.keys(Action.ALTER)
    moving = Moving(plan.keys(Action.SWAP), plan.keys(Action.DROP), altered)
    inside = {key.table for key in (*old.objects, *new.objects)}
    readers = outside_readers(runtime, seen, plan.new, moved, altered, inside, staged)
    plan = replace(plan, readers=readers)
    refused = (
        *dropping_most(desired.name, deployed, plan),
        *refusals(runtime, seen, plan),
        *map(Refusal, deployed_cycles(runtime, seen, plan.new, moving, staged)),
    )
    by_hand = tuple(set_by_hand(Production(seen, indexed, runtime.settings), plan))
    return PlannedDeployment(replace(plan, refused=refused, by_hand=by_hand), seen, versions)


def refuse_another_project(name: str, deployed: Snapshot, found: Plan) -> None:
    """Two repositories may have got one name: the one must not drop all that is the other's."""
    gone = deployed.objects.keys() & {*found.keys(Action.DROP)}
    if len(gone) > 1 and gone == deployed.objects.keys() and found.new.objects:
        raise Refused(
            f"nothing of this project is among the {len(gone)} objects deployed as {name}, "
            "and all of them would be dropped",
            hint="if that is another project, give this one another name in anabranch.toml; "
            "if not, deploy it without any object first",
        )


def what_if_now(runtime: Runtime, snapshot: Snapshot, names: Sequence[str]) -> Plan:
    """The plan if some objects of the project were edited."""
    seen = observe_now(runtime)
    keys = chosen([snapshot], names)
    found = what_if_plan(snapshot, keys)
    return what_if_plan(snapshot, keys, rows=row_counts(runtime, seen, tables_read(found)))


def tables_read(plan: Plan) -> set[ObjectKey]:
    """What the builds read, through views too."""
    objects = plan.new.objects
    found: set[ObjectKey] = set()
    waiting = [*read_by(plan, plan.keys(Action.BUILD))]
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            if key in objects and objects[key].kind == "view":
                waiting += objects[key].reads
    return found


def as_found(runtime: Runtime, seen: CatalogState, old: Snapshot) -> Snapshot:
    """What is deployed, without what somebody dropped by hand; what was altered by hand is changed."""
    objects = {}
    for key, each in old.objects.items():
        now = definition(seen, key)
        if now is not None:
            same = same_definition(now, wanted_definition(each))
            if same and now == TABLE:
                stored = runtime.lake.version(key.table, seen.pointers[key.table])
                same = not lacks(each, stored.columns)
            by_hand = replace(each, hash=BY_HAND, canonical=BY_HAND, sql=now.removeprefix("view "))
            objects[key] = each if same else by_hand
    return replace(old, objects=objects)


def with_existing(runtime: Runtime, seen: CatalogState, old: Snapshot, new: Snapshot) -> Snapshot:
    """What somebody made by hand counts as deployed: nothing of it is replaced without a word."""
    objects = dict(old.objects)
    for key, each in new.objects.items():
        found = definition(seen, key)
        if key in objects or found is None:
            continue
        if each.kind == "table" and found == TABLE:
            objects[key] = table_as_found(runtime, seen, each)
        else:
            objects[key] = other_as_found(seen, key, found)
    return replace(old, objects=objects)


def table_as_found(runtime: Runtime, seen: CatalogState, each: SnapshotObject) -> SnapshotObject:
    """A source table is taken with the columns and comments that it has."""
    name = each.key.table
    stored = runtime.lake.version(name, seen.pointers[name])
    form = each.canonical if not changes(each, stored.columns) else "as found"
    found = replace(each, indexes=(), canonical=form, hash=object_hash(form))
    same = not each.comments or each.comments == stored.comments
    return found if same else replace(found, metadata="")


def other_as_found(seen: CatalogState, key: ObjectKey, found: str) -> SnapshotObject:
    kind: ObjectKind = "table"
    if key.table in seen.streams:
        kind = "stream table"
    elif key.table in seen.views:
        kind = "view"
    return SnapshotObject(key, kind, BY_HAND, BY_HAND, sql=found.removeprefix("view "))


def read_by(plan: Plan, keys: Iterable[ObjectKey]) -> set[ObjectKey]:
    return {parent for key in keys for parent in plan.new.objects[key].reads}


def row_counts(
    runtime: Runtime, seen: CatalogState, keys: Iterable[ObjectKey]
) -> dict[ObjectKey, int]:
    """Rows of production tables, from their metadata."""
    return {
        key: runtime.lake.version(key.table, seen.pointers[key.table]).rows
        for key in keys
        if key.table in seen.pointers
    }


def refuse_in_transaction(runtime: Runtime) -> None:
    if runtime.transaction is not None:
        raise Refused(
            "a deployment cannot be changed inside a transaction", hint="do it before or after"
        )


def find(c: Connection, deployment_id: str) -> Deployment:
    if not isinstance(deployment_id, str):
        raise InvalidValue(
            f"{deployment_id!r} is not the id of a deployment",
            hint="stage returns one, or None when there is nothing to deploy",
        )
    found = deployments.get(c, deployment_id)
    if found is None:
        known = [each.id for each in deployments.listing(c)]
        raise UnknownName(
            f"there is no deployment {deployment_id}: `anabranch deployments` lists them",
            name=deployment_id,
            known=known,
        )
    return found


def newest(c: Connection, status: DeploymentStatus, project: str | None = None) -> Deployment:
    """The newest deployment of a status, for commands that name none: of a project, or the only one."""
    found = [each for each in deployments.listing(c) if each.status is status]
    found = [each for each in found if project in (None, each.project)]
    projects = sorted({each.project for each in found})
    if len(projects) > 1:
        raise Refused(
            f"several projects have deployments: {', '.join(projects)}",
            hint="name the deployment: `anabranch deployments` lists them",
        )
    if not found:
        words = status.value.lower().replace("_", " ")
        raise Refused(f"no deployment is {words}", hint="`anabranch stage` builds one")
    return max(found, key=lambda each: (each.cut_id or 0, each.finished_at or each.created_at))


def only_staged(c: Connection) -> Deployment:
    """The only staged deployment; with two of them somebody must say which."""
    found = [each.id for each in deployments.listing(c) if each.status is DeploymentStatus.STAGED]
    if len(found) > 1:
        raise Refused(
            f"{len(found)} deployments are staged: {', '.join(found)}",
            hint=f"name one, such as `anabranch promote {found[0]}`",
        )
    return newest(c, DeploymentStatus.STAGED)


def newest_open(c: Connection) -> Deployment:
    """The newest deployment that is being built or was, for whoever waits and names none."""
    for each in deployments.listing(c):
        if each.status in OPEN:
            return each
    raise UserError("no deployment is staged", hint="`anabranch stage` builds one")


def keys_of(deployment: Deployment, *actions: Action) -> list[ObjectKey]:
    """The objects of some steps of a deployment, in their order."""
    chosen = [action.value for action in actions]
    return [
        ObjectKey(*step.parts)
        for step in deployment.plan.with_actions(chosen)
        if len(step.parts) == 3
    ]


def staging_of(deployment: Deployment) -> Staging:
    built, altered = (keys_of(deployment, each) for each in (Action.BUILD, Action.ALTER))
    return Staging(deployment.id, frozenset(built), frozenset(altered))


NEXT = {
    DeploymentStatus.STAGING: "`anabranch stage` finishes it, `anabranch abort {id}` removes it",
    DeploymentStatus.STAGED: "`anabranch promote {id}` puts it in place",
    DeploymentStatus.PROMOTED: "`anabranch rollback {id}` takes it back",
    DeploymentStatus.ROLLED_BACK: "`anabranch stage` builds another one",
    DeploymentStatus.ABORTED: "`anabranch stage` builds another one",
}


def wrong_status(found: Deployment, verb: str) -> Refused:
    words = found.status.value.lower().replace("_", " ")
    return Refused(
        f"deployment {found.id} cannot be {verb}: it is {words}",
        hint=NEXT[found.status].format(id=found.id),
    )
