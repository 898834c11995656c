"""rollback: the state before a deployment comes back in one publish.

Pointers return to the versions that older cuts still show, and with them definitions, inputs and
frontiers: the next refresh goes on from there.  Nothing is computed, unless tables that stay would not
fit those that return: these are refreshed along, in the same publish.  Source tables that the
deployment made stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from anabranch.catalog import cuts, definitions, deployments, events, streams, tables
from anabranch.catalog.deployment_state import Undo
from anabranch.catalog.deployments import Deployment, DeploymentStatus, Key
from anabranch.catalog.events import Event
from anabranch.catalog.indexes import all_indexes
from anabranch.catalog.leases import Lease
from anabranch.catalog.store import Connection
from anabranch.deploy import clusters, refresh_groups
from anabranch.deploy.along import Along, Consent, Cures, Flip, Found, take_in, whose
from anabranch.deploy.conflicts import check_left, check_readers
from anabranch.deploy.outside import readers_after_rollback
from anabranch.deploy.record import snapshot_of
from anabranch.deploy.snapshot import ObjectKey
from anabranch.deploy.state import (
    find,
    keys_of,
    newest,
    refuse_in_transaction,
    who,
    wrong_status,
)
from anabranch.deploy.steps import Action
from anabranch.deploy.undo import by_hand, hand_over, indexes_back, put_back, set_options
from anabranch.errors import Refused, Unreachable
from anabranch.lake.comments import TABLE, exactly
from anabranch.lake.observe import observed, shown
from anabranch.names import TableName
from anabranch.refresh.observe import observe
from anabranch.runtime import Runtime, Transaction
from anabranch.tables.comments import say
from anabranch.tables.indexes import set_indexes

KIND = "rollback"
KEPT = (
    "keeps the columns that the rolled-back deployment added: rows were written since, or it was "
    "altered again; ALTER TABLE … DROP COLUMN removes them"
)
CLUSTER_KEPT = (
    "cluster {name} stays as it is: it was changed since the deployment that was rolled back; "
    "CREATE OR REPLACE CLUSTER redefines it"
)
PROMOTED = (DeploymentStatus.PROMOTED,)


def rollback(
    runtime: Runtime,
    deployment_id: str | None = None,
    *,
    suspend_readers: bool = False,
    project: str | None = None,
) -> dict[str, Any]:
    """Take the newest deployment (of a project) back, or the given one if none was deployed over it.

    `suspend_readers`: stream tables outside of the project that cannot follow are suspended.
    """
    refuse_in_transaction(runtime)
    deployment = to_roll_back(runtime, deployment_id, project)
    undo = deployment.undo or Undo()
    before = undo.pointers
    kept_columns: list[TableName] = []
    flip = Flip(
        runtime,
        before,
        cures(deployment, before, suspend_readers),
        lambda: look(runtime, deployment),
        Consent(suspend_readers),
    )

    def stage(tx: Transaction, along: Along, found: Found) -> None:
        for name, location in before.items():
            if location is not None:
                tx.stage.adopt(name, location)
            elif name in tx.stage.base:
                tx.stage.drop(name)
        kept_columns[:] = restore_columns(runtime, tx, undo.altered)
        tx.used.indexes |= {table: found.indexed.get(table, ()) for table in undo.indexes}
        for table in undo.indexes:
            if tx.stage.exists(table) and (table in before or is_left(tx, undo, table)):
                columns, now = tx.stage.version(table).columns, found.indexed.get(table, ())
                set_indexes(tx, table, indexes_back(table, undo, now, columns))
        for table in undo.comments:
            if tx.stage.exists(table) and is_left(tx, undo, table):
                recomment(tx, table, undo)
        tx.later(lambda c, cut_id: _rows(c, cut_id, deployment, before, along))

    def attempt(tx: Transaction, lease: Lease, found: Found) -> int | None:
        seen, own = found.seen, found.after
        tx.used.add(seen.used(before))
        readers = readers_after_rollback(runtime, seen, undo, own.own, own.staged)
        flip.break_views(tx, seen, readers)
        along = flip.along(tx, KIND, seen, deployment.project, {*before, *undo.altered})
        try:
            stage(tx, along, found)
            return flip.publish(along, lease)
        except Unreachable:  # upkeep may have taken away what was there at first
            with runtime.store.reading() as c:
                check_kept(c, deployment, cuts.current(c) + 1)
            raise

    cut_id = flip.run(attempt)
    runtime.progress("published", {"cut_id": cut_id})
    if cut_id is None:
        with runtime.store.reading() as c:
            cut_id = cuts.current(c)
    return {
        "id": deployment.id,
        "status": "ROLLED_BACK",
        "cut_id": cut_id,
        "suspended": sorted(map(str, flip.suspended)),
        "broken_views": sorted(map(str, flip.broken_views)),
        "kept_columns": sorted(map(str, kept_columns)),
    }


def look(runtime: Runtime, deployment: Deployment) -> Found:
    with shown(runtime.lake) as (c, cut):
        seen = observe(c, runtime.lake, cut)
        return Found(whose(c, seen, deployment.project), all_indexes(c))


def cures(deployment: Deployment, before: Iterable[TableName], suspend_readers: bool) -> Cures:
    """What comes back has the query that it had: altering it now would be in the way."""
    flag = " --suspend-readers" if suspend_readers else ""
    again = f"`anabranch rollback {deployment.id}{flag}`"
    instead = "keep the deployment, change {name} in the project and `anabranch stage` it"
    return Cures(again, again, instead, frozenset(before))


def restore_columns(
    runtime: Runtime, tx: Transaction, altered: Mapping[TableName, tuple[str, str]]
) -> list[TableName]:
    """Source tables lose the columns that the deployment gave them, if nobody touched them since.

    Those that were written to, or altered once more, keep them: they may hold rows by now.
    """
    if not altered:
        return []
    with runtime.store.reading() as c:
        kept = cuts.locations_before(c, cuts.current(c) + 1)
    left = []
    for name, (old, new) in altered.items():
        if tx.stage.base.get(name) == new and old in kept:
            tx.stage.adopt(name, old)
        elif tx.stage.exists(name):
            left.append(name)
    said = [Event(name, events.COLUMNS_KEPT, KEPT) for name in left]
    tx.later(lambda c, cut_id: events.add(c, said))
    return left


def is_left(tx: Transaction, undo: Undo, table: TableName) -> bool:
    """Is it the very table that the deployment left under this name?"""
    left = undo.ids.get(table)
    return left in (None, str(tx.stage.version(table).metadata.table_uuid))


def recomment(tx: Transaction, table: TableName, undo: Undo) -> None:
    """The comments of a table that stays, as far as it still has the columns."""
    version = tx.stage.version(table)
    left = undo.comments_left.get(table, version.comments)
    said, _ = put_back(undo.comments[table], left, version.comments)
    known = {TABLE, *(column.name for column in version.columns)}
    kept = {name: text for name, text in said.items() if name in known}
    say(tx, table, exactly(kept, version.comments))


def to_roll_back(
    runtime: Runtime, deployment_id: str | None, project: str | None = None
) -> Deployment:
    """The deployment, after all checks that can be made before."""
    promoted = DeploymentStatus.PROMOTED
    with observed(runtime.lake) as c:
        found = find(c, deployment_id) if deployment_id else newest(c, promoted, project)
        if found.status not in PROMOTED:
            raise wrong_status(found, "rolled back")
        check_newest(c, found)
        check_kept(c, found, cuts.current(c) + 1)
        check_left(c, runtime.lake, observe(c, runtime.lake), found)
    return found


def check_newest(c: Connection, deployment: Deployment) -> None:
    """Refuse when something of it was deployed once more; other objects of its schemas do not count."""
    now = deployments.deployed_by(c)
    for key, left in left_in_place(deployment).items():
        later = now.get(key)
        if later != left and (later := later or _dropped_by(c, deployment, key)):
            what = ObjectKey(*key) if key[0] else f"cluster {key[2]}"
            raise Refused(
                f"{later} deployed {what} after {deployment.id}",
                hint=f"`anabranch rollback {later}` first",
            )


def left_in_place(deployment: Deployment) -> dict[Key, str | None]:
    """All that a deployment changed: it is from this deployment since, or gone."""
    changing = [action for action in Action if action is not Action.KEEP]
    touched = {(*key,): deployment.id for key in keys_of(deployment, *changing)}
    gone = {(*key,): None for key in keys_of(deployment, Action.DROP)}
    wanted = snapshot_of(deployment.wanted).clusters
    changed = deployment.plan.clusters_changed
    clusters = {("", "", name): deployment.id if name in wanted else None for name in changed}
    return {**touched, **gone, **clusters}


def _recorded_since(c: Connection, deployment: Deployment) -> set[Key]:
    """What the deployment only kept, and a later one has changed."""
    now = deployments.deployed_by(c)
    kept: set[Key] = {(*key,) for key in keys_of(deployment, Action.KEEP)}
    return {key for key in kept if now.get(key) != deployment.id} - left_in_place(deployment).keys()


def _dropped_by(c: Connection, deployment: Deployment, key: Key) -> str | None:
    """The deployment that dropped an object of another one."""
    found = [
        each
        for each in deployments.listing(c)
        if each.status in PROMOTED and each.id != deployment.id and key in left_in_place(each)
    ]
    newer = [each for each in found if _moment(each) >= _moment(deployment)]
    return max(newer, key=_moment).id if newer else None


def _moment(deployment: Deployment) -> datetime:
    return deployment.finished_at or deployment.created_at


def check_kept(c: Connection, deployment: Deployment, before_cut: int) -> None:
    """The versions must be shown by a recorded cut: others may be gone from the warehouse."""
    undo = deployment.undo
    needed = {at for at in undo.pointers.values() if at is not None} if undo else set()
    if undo is None or needed - cuts.locations_before(c, before_cut):
        raise Refused(
            f"what {deployment.id} replaced is no longer kept",
            hint="check the older SQL out and `anabranch stage` it; snapshot_retention keeps more",
        )


def _rows(
    c: Connection,
    cut_id: int | None,
    deployment: Deployment,
    before: Mapping[TableName, str | None],
    along: Along,
) -> None:
    undo = deployment.undo or Undo()
    check_newest(c, deployment)
    check_left(c, along.runtime.lake, along.before, deployment)
    check_kept(c, deployment, cut_id or cuts.current(c) + 1)
    facts = {"finished_at": tables.now(c), "undo": None}
    if not deployments.move(c, deployment.id, PROMOTED, DeploymentStatus.ROLLED_BACK, **facts):
        raise wrong_status(find(c, deployment.id), "rolled back")
    epochs = {name: each.epoch or 0 for name, each in streams.all_streams(c).items()}
    along.keep_suspended(c, before)
    changed = by_hand(c, undo, before)
    definitions.put(c, before, dict(undo.rows), along.tokens)
    said = hand_over(c, changed, along.tokens)
    back = {name: each.epoch or 0 for name, each in streams.all_streams(c).items()}
    streams.set_epochs(
        c, {n: max(back[n], epochs.get(n, 0)) + 1 for n in before if n in back}
    )  # the roll-back is a publish too
    gone = [name for name, at in before.items() if at is None and name not in undo.views]
    check_readers(c, deployment, gone, along.suspended, along.let_go, rolling_back=True)
    take_in(c, undo.readers, along)
    refresh_groups.leave(c, [name for name in epochs if name not in back])
    refresh_groups.rejoin(c, undo.groups)
    said += set_options(c, undo, along.tokens)
    kept = clusters.restore(c, undo.clusters, undo.clusters_left)
    said += [Event(None, events.CLUSTER_KEPT, CLUSTER_KEPT.format(name=n)) for n in kept]
    events.add(c, said)
    staying: set[Key] = {("", "", name) for name in kept}  # and whose they are
    staying |= _recorded_since(c, deployment)
    own = {"project": find(c, deployment.id).project, "named": True}
    records = [
        {**row, **own}
        for row in undo.deployed
        if (row["database_name"], row["schema_name"], row["object_name"]) not in staying
    ]
    keys = {*undo.keys} - staying
    deployments.put_deployed(c, sorted(keys), records)
    by = f"{who()} (roll-back of {deployment.id})"
    versions = deployments.schema_versions(c)
    places: dict[deployments.Place, str] = {}
    for database, schema, owner in undo.schemas:
        place = (database, schema)
        there = versions[place].deployment_id if place in versions else deployment.id
        places[place] = owner if there == deployment.id else there
    deployments.hand_out_versions(c, places, by)
