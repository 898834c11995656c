"""promote: all objects of a deployment take their places in one publish.

The pointer of a staged table becomes the pointer of the table in production.  Nothing is computed,
unless tables that stay would not fit those that move: these are refreshed along, in the same publish.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.catalog.deployments import Deployment, DeploymentStatus
from anabranch.catalog.indexes import all_indexes
from anabranch.catalog.leases import Lease
from anabranch.deploy.along import OF_THE_TABLE, Broken, Consent, Cures, Flip, whose
from anabranch.deploy.by_hand import made_by_hand
from anabranch.deploy.conflicts import check_base, refuse_staged_readers
from anabranch.deploy.cycles import Moving, deployed_cycles
from anabranch.deploy.outside import outside_readers
from anabranch.deploy.production import Fingerprints, fingerprints, renaming
from anabranch.deploy.readers import Reader
from anabranch.deploy.record import snapshot_of
from anabranch.deploy.snapshot import Snapshot
from anabranch.deploy.staging import Staging
from anabranch.deploy.state import find, keys_of, refuse_in_transaction, staging_of, wrong_status
from anabranch.deploy.steps import Action
from anabranch.deploy.swap import Swap
from anabranch.errors import AnabranchError, PublishConflict, Refused
from anabranch.lake.observe import observed
from anabranch.names import TableName
from anabranch.refresh.observe import CatalogState, observe, observe_now
from anabranch.refresh.publish_sets import world_of
from anabranch.refresh.run import refresh
from anabranch.runtime import Runtime

KIND = "promote"


def promote(
    runtime: Runtime, deployment_id: str, *, catch_up: bool = True, suspend_readers: bool = False
) -> dict[str, Any]:
    """Bring the staged tables up to date, then swap; both again when somebody came between.

    `suspend_readers`: stream tables outside of the project that cannot follow are suspended.
    """
    refuse_in_transaction(runtime)
    with runtime.store.reading() as c:
        deployment = find(c, deployment_id)
    if deployment.status is not DeploymentStatus.STAGED:
        raise wrong_status(deployment, "promoted")
    agreed = {*deployment.notes.suspend}
    consent = Consent(suspend_readers, agreed)
    staging = staging_of(deployment)
    staged = [staging.name(key) for key in sorted(staging.keys)]

    def prepare() -> None:
        check_now(runtime, deployment)
        known = observe_now(runtime).streams
        if catch_up and (wanted := [name for name in staged if name in known]):
            bring_up_to_date(flip, deployment, wanted)

    known = cures(deployment, catch_up=catch_up, suspend_readers=suspend_readers)
    flip = Flip(runtime, [*staged, *moved_by(deployment)], known, consent, prepare)
    cut_id = flip.run(lambda lease: _attempt(runtime, deployment, flip, lease, catch_up=catch_up))
    runtime.progress("published", {"cut_id": cut_id})
    with runtime.store.reading() as c:
        done = find(c, deployment_id)
    return {
        "id": done.id,
        "status": "PROMOTED",
        "cut_id": done.cut_id,
        "suspended": sorted(map(str, flip.suspended)),
        "broken_views": sorted(map(str, flip.broken_views)),
    }


def cures(deployment: Deployment, *, catch_up: bool, suspend_readers: bool) -> Cures:
    """A table that was staged has the query of the project: altering it would end the deployment."""
    words = f"anabranch promote {deployment.id}{' --suspend-readers' if suspend_readers else ''}"
    abort = f"`anabranch abort {deployment.id}`"
    return Cures(
        again=f"`{words}`",
        as_it_is=f"`{words}`" if catch_up else f"`{words} --no-refresh`",
        instead=f"{abort}, change {{name}} in the project and `anabranch stage` it",
        fixed=frozenset(deployment.base.definitions),
    )


def bring_up_to_date(flip: Flip, deployment: Deployment, staged: list[TableName]) -> None:
    """Refresh what is staged, with what it reads in production, which may fail."""
    try:
        refresh(flip.runtime, staged, KIND)
    except AnabranchError as error:
        if error.kind in OF_THE_TABLE:
            error.hint = _what_helps(flip, deployment, error)
        raise


def _what_helps(flip: Flip, deployment: Deployment, error: AnabranchError) -> str | None:
    """The hint of a refresh is for tables of production; one that is staged is not to be altered."""
    staging, cures = staging_of(deployment), flip.cures
    found = [error.hint] if error.hint else []
    if error.table is not None:
        home = {str(staging.name(key)): key.table for key in staging.keys}
        name = home.get(error.table) or TableName.parse(error.table)
        if not found or ("ALTER STREAM TABLE" in found[0] and name in cures.fixed):
            found = [cures.of(name, error)]
    if _could_be_put(flip, deployment):
        words = cures.again.strip("`")
        found.append(f"`{words} --no-refresh` promotes what was staged")
    return "; or ".join(found) or None


def _could_be_put(flip: Flip, deployment: Deployment) -> bool:
    """Try the swap with what was staged, up to its publish: tables that stay may need what failed."""
    trial = Flip(flip.runtime, (), flip.cures, flip.consent)
    try:
        _attempt(flip.runtime, deployment, trial, None, catch_up=False)
    except (AnabranchError, Broken):
        return False
    return True


def _attempt(
    runtime: Runtime, deployment: Deployment, flip: Flip, lease: Lease | None, *, catch_up: bool
) -> int | None:
    """Swap and publish; without a lease nothing is published."""
    with runtime.store.reading() as c:
        now = find(c, deployment.id)
    if now.status is not DeploymentStatus.STAGED:  # somebody else was faster
        raise wrong_status(now, "promoted")
    snapshot, staging = snapshot_of(deployment.wanted), staging_of(deployment)
    staged = [staging.name(key) for key in sorted(staging.keys)]
    prints = fingerprints(runtime, staging, snapshot, deployment.notes.fingerprints)
    with observed(runtime.lake) as c:
        seen, indexed = observe(c, runtime.lake), all_indexes(c)
        by_hand = made_by_hand(c, indexed, snapshot)
    try:
        check_one_world(seen, staged)
    except PublishConflict as late:
        if catch_up:
            raise
        hint = f"`anabranch promote {deployment.id}` brings it up to date first"
        raise Refused(late.message, hint=hint) from None  # nobody else would
    check_prints(seen, staging, prints)
    tx = runtime.begin(world_of(runtime, seen))
    try:
        flip.break_views(tx, seen, readers_of(runtime, seen, deployment, snapshot))
        altered = [key.table for key in sorted(staging.altered)]
        moved = moved_by(deployment)
        along = flip.along(tx, KIND, seen, deployment.project, moved, altered)
        swap = Swap(
            runtime.settings,
            deployment,
            snapshot,
            staging,
            seen,
            indexed,
            by_hand,
            renaming(runtime, seen, staging, snapshot, prints),
            along,
        )
        swap.stage(tx)
        tx.used.add(seen.used([*staged, *swap.replaced]))
        tx.later(swap.rows)
        along.stage()
        if lease is None:
            tx.abandon()
            return None
        tx.used.hold(lease)
        flip.check_leased(lease, along.written)
        return tx.publish(KIND)
    except BaseException:
        tx.abandon()
        raise


def readers_of(
    runtime: Runtime, seen: CatalogState, deployment: Deployment, snapshot: Snapshot
) -> tuple[Reader, ...]:
    """Readers outside of the project, as they are now."""
    with runtime.store.reading() as c:
        found = whose(c, seen, deployment.project)
    moved = keys_of(deployment, Action.SWAP, Action.DROP)
    inside = {*found.own, *(key.table for key in snapshot.objects)}
    altered = keys_of(deployment, Action.ALTER)
    return outside_readers(runtime, seen, snapshot, moved, altered, inside, found.staged)


def moved_by(deployment: Deployment) -> list[TableName]:
    """The names of production that become something else."""
    return [key.table for key in keys_of(deployment, Action.SWAP, Action.DROP)]


def check_now(runtime: Runtime, deployment: Deployment) -> None:
    """Refuse at once what the publish would refuse at its end."""
    with observed(runtime.lake) as c:
        seen = observe(c, runtime.lake)
        check_base(c, runtime.lake, seen, deployment)
        staging = staging_of(deployment)
        refuse_staged_readers(c, [*staging.names, *staging.stand_ins])
        staged = whose(c, seen, deployment.project).staged
    actions = (Action.SWAP, Action.DROP, Action.ALTER)
    moving = Moving(*(keys_of(deployment, each) for each in actions))
    snapshot = snapshot_of(deployment.wanted)
    for error in deployed_cycles(runtime, seen, snapshot, moving, staged):
        raise error


def check_one_world(seen: CatalogState, staged: Iterable[TableName]) -> None:
    """Staged tables must stand on the very versions of stream tables that will be seen with them."""
    for name in staged:
        for source, read in seen.inputs.get(name, {}).items():
            if source == name or source not in seen.streams:
                continue
            if read.metadata_location != seen.pointers.get(source):
                raise PublishConflict(
                    f"{name} has not seen the newest {source}", hint="run it again"
                )


def check_prints(seen: CatalogState, staging: Staging, prints: Fingerprints) -> None:
    """Fingerprints are found out before the look; a refresh may have come between."""
    for key in staging.keys:
        stream = seen.streams.get(staging.name(key))
        if stream is not None and prints[key.table][0] != stream.fingerprint:
            raise PublishConflict(f"{stream.name} was refreshed meanwhile", hint="run it again")
