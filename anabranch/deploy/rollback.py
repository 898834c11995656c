"""rollback: the state before a deployment comes back in one publish.

Pointers return to the versions that older cuts still show, and with them definitions, inputs and
frontiers: the next refresh goes on from there.  Nothing is computed, unless tables that stay would not
fit those that return: these are refreshed along, in the same publish.  Source tables that the
deployment made stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from anabranch.catalog import cuts, definitions, deployments, events, streams, tables
from anabranch.catalog.deployments import Deployment, DeploymentStatus
from anabranch.catalog.events import Event
from anabranch.catalog.leases import Lease
from anabranch.catalog.store import Connection
from anabranch.deploy import clusters, refresh_groups
from anabranch.deploy.along import Along, Consent, Flip, take_in
from anabranch.deploy.conflicts import check_left, check_readers
from anabranch.deploy.indexes import indexes_of
from anabranch.deploy.snapshot import SchemaKey
from anabranch.deploy.state import find, newest, refuse_in_transaction, who, wrong_status
from anabranch.errors import Refused, Unreachable
from anabranch.lake.comments import TABLE, exactly
from anabranch.lake.observe import observed
from anabranch.model import RefreshMode, Status
from anabranch.names import TableName
from anabranch.refresh.look import Look, look, look_now
from anabranch.refresh.unit import world_of
from anabranch.runtime import Runtime, Transaction
from anabranch.sources.indexes import set_indexes

KIND = "rollback"
KEPT = (
    "keeps the columns that a deployment gave it, which was rolled back: rows were written since, or "
    "it was altered again; ALTER TABLE … DROP COLUMN takes them away"
)
CLUSTER_KEPT = (
    "cluster {name} stays as it is: it was changed since the deployment that was rolled back; "
    "CREATE OR REPLACE CLUSTER defines it anew"
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
    undo: Mapping[str, Any] = deployment.undo or {}
    before = {TableName.parse(name): at for name, at in undo["pointers"].items()}
    altered = {TableName.parse(name) for name in undo.get("altered", {})}
    kept_columns: list[TableName] = []
    flip = Flip(runtime, before, Consent(suspend_readers))

    def stage(tx: Transaction, along: Along) -> None:
        for name, location in before.items():
            if location is not None:
                tx.stage.adopt(name, location)
            elif name in tx.stage.base:
                tx.stage.drop(name)
        kept_columns[:] = restore_columns(runtime, tx, undo.get("altered", {}))
        for shown, recorded in undo["indexes"].items():
            table = TableName.parse(shown)
            if before.get(table, "") is not None:
                set_indexes(tx, table, indexes_of(table, recorded))
        for shown, said in undo.get("comments", {}).items():
            recomment(tx, TableName.parse(shown), said)
        tx.later(lambda c, cut_id: _rows(c, cut_id, deployment, before, along))

    def attempt(lease: Lease) -> int | None:
        seen = look_now(runtime)
        tx = Transaction(world_of(runtime, seen))
        try:
            tx.used.hold(lease)
            tx.used.add(seen.used(before))
            along = flip.along(tx, KIND, seen, deployment.project, {*before, *altered})
            try:
                stage(tx, along)
            except Unreachable:  # upkeep may have taken away what was there at first
                with runtime.store.reading() as c:
                    check_kept(c, deployment, cuts.current(c) + 1)
                raise
            along.stage()
            tx.later(lambda c, _: stay_suspended(c, stopped_by_hand(seen, before)))
            flip.check_leased(lease, along.written)
            return tx.publish(KIND)
        except BaseException:
            tx.abandon()
            raise

    cut_id = flip.run(attempt)
    runtime.progress("published", {"cut_id": cut_id})
    with runtime.store.reading() as c:
        shown = cuts.current(c)
    return {
        "id": deployment.id,
        "status": "ROLLED_BACK",
        "cut_id": cut_id or shown,
        "suspended": sorted(map(str, flip.suspended)),
        "kept_columns": sorted(map(str, kept_columns)),
    }


def stopped_by_hand(seen: Look, names: Iterable[TableName]) -> list[TableName]:
    """Tables that somebody has suspended since the promote; those that gave up have an error."""
    known = (seen.streams.get(name) for name in names)
    return [
        each.name
        for each in known
        if each is not None and each.status is Status.SUSPENDED and each.last_error is None
    ]


def stay_suspended(c: Connection, names: Iterable[TableName]) -> None:
    """The last thing of a roll-back: before, they are refreshed with their groups."""
    for name in names:
        if streams.get(c, name) is not None:
            streams.change(c, name, status=Status.SUSPENDED)


def restore_columns(
    runtime: Runtime, tx: Transaction, altered: Mapping[str, list[str]]
) -> list[TableName]:
    """Source tables lose the columns that the deployment gave them, if nobody touched them since.

    Those that were written to, or altered once more, keep them: they may hold rows by now.
    """
    with runtime.store.reading() as c:
        kept = cuts.locations_before(c, cuts.current(c) + 1)
    left = []
    for shown, (old, new) in altered.items():
        name = TableName.parse(shown)
        if tx.stage.base.get(name) == new and old in kept:
            tx.stage.adopt(name, old)
        elif tx.stage.exists(name):
            left.append(name)
    said = [Event(name, events.COLUMNS_KEPT, KEPT) for name in left]
    tx.later(lambda c, cut_id: events.add(c, said))
    return left


def recomment(tx: Transaction, table: TableName, said: Mapping[str, str]) -> None:
    """The comments of a table that stays, as far as it still has the columns."""
    if tx.stage.exists(table):
        version = tx.stage.version(table)
        known = {TABLE, *(column.name for column in version.columns)}
        kept = {name: text for name, text in said.items() if name in known}
        tx.stage.comment(table, exactly(kept, version.comments))


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
        check_left(c, look(c, runtime.lake), found)
    return found


def check_newest(c: Connection, deployment: Deployment) -> None:
    versions = deployments.schema_versions(c)
    for database, schema in deployment.base["touched"]:
        now = versions.get((database, schema))
        if now is None or now.deployment_id != deployment.id:
            place = SchemaKey(database, schema)
            later = now.deployment_id if now else "nothing"
            raise Refused(
                f"{later} was deployed to schema {place} after {deployment.id}",
                hint=f"`anabranch rollback {later}` first",
            )


def check_kept(c: Connection, deployment: Deployment, before_cut: int) -> None:
    """The versions must be shown by a recorded cut: others may be gone from the warehouse."""
    undo = deployment.undo
    needed = {at for at in undo["pointers"].values() if at is not None} if undo else set()
    if undo is None or needed - cuts.locations_before(c, before_cut):
        raise Refused(
            f"what {deployment.id} replaced is not kept any more",
            hint="check the older SQL out and `anabranch stage` it; snapshot_retention keeps more",
        )


def _rows(
    c: Connection,
    cut_id: int | None,
    deployment: Deployment,
    before: Mapping[TableName, str | None],
    along: Along,
) -> None:
    undo: Mapping[str, Any] = deployment.undo or {}
    check_newest(c, deployment)
    check_left(c, along.before, deployment)
    check_kept(c, deployment, cut_id or cuts.current(c) + 1)
    facts = {"finished_at": tables.now(), "undo": None}
    if not deployments.move(c, deployment.id, PROMOTED, DeploymentStatus.ROLLED_BACK, **facts):
        raise wrong_status(find(c, deployment.id), "rolled back")
    epochs = {name: each.epoch or 0 for name, each in streams.all_streams(c).items()}
    definitions.put(c, before, undo["rows"], along.tokens)
    back = {name: each.epoch or 0 for name, each in streams.all_streams(c).items()}
    streams.set_epochs(
        c, {n: max(back[n], epochs.get(n, 0)) + 1 for n in before if n in back}
    )  # the roll-back is a publish too
    gone = [name for name, at in before.items() if at is None and not _is_view(undo, name)]
    check_readers(c, deployment, gone, along.suspended)
    take_in(c, undo.get("readers", ()), along)
    refresh_groups.leave(c, [name for name in epochs if name not in back])
    refresh_groups.rejoin(c, undo.get("groups", ()))
    for shown, values in undo["metadata"].items():
        mode = RefreshMode(values["refresh_mode"])
        named = {**values, "refresh_mode": mode, "definition": along.tokens[shown]}
        streams.change(c, TableName.parse(shown), **named)
    kept = clusters.restore(c, undo["clusters"], undo.get("clusters_left", {}))
    events.add(c, [Event(None, events.CLUSTER_KEPT, CLUSTER_KEPT.format(name=n)) for n in kept])
    staying = {("", "", name) for name in kept}  # and whose they are
    own = {"project": find(c, deployment.id).project, "named": True}
    records = [
        {**row, **own}
        for row in undo["deployed"]
        if (row["database_name"], row["schema_name"], row["object_name"]) not in staying
    ]
    keys = {(a, b, n) for a, b, n in undo["keys"]} - staying
    deployments.put_deployed(c, sorted(keys), records)
    by = f"{who()} (roll-back of {deployment.id})"
    for database, schema, owner in undo["schemas"]:
        deployments.raise_versions(c, [(database, schema)], owner, by)


def _is_view(undo: Mapping[str, Any], name: TableName) -> bool:
    return any(row["name"] == str(name) for row in undo["rows"]["views"])
