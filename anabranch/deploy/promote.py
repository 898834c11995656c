"""promote: all objects of a deployment take their places in one publish.

The pointer of a staged table becomes the pointer of the table in production.  Nothing is computed,
unless tables that stay would not fit those that move: these are refreshed along, in the same publish.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from anabranch.catalog import deployments
from anabranch.catalog.deployments import Deployment, DeploymentStatus
from anabranch.catalog.indexes import all_indexes
from anabranch.catalog.leases import Lease
from anabranch.catalog.store import Connection
from anabranch.deploy.along import (
    OF_THE_TABLE,
    Along,
    Broken,
    Consent,
    Cures,
    Flip,
    Found,
    whose,
)
from anabranch.deploy.by_hand import Records, made_by_hand
from anabranch.deploy.conflicts import check_base, refuse_staged_readers
from anabranch.deploy.cycles import Moving, deployed_cycles
from anabranch.deploy.outside import outside_readers
from anabranch.deploy.production import fingerprints, renaming
from anabranch.deploy.readers import Reader
from anabranch.deploy.record import snapshot_of
from anabranch.deploy.snapshot import ObjectKey
from anabranch.deploy.state import find, keys_of, refuse_in_transaction, staging_of, wrong_status
from anabranch.deploy.steps import Action
from anabranch.deploy.swap import Swap
from anabranch.errors import AnabranchError, PublishConflict, Refused
from anabranch.lake.observe import shown
from anabranch.names import TableName
from anabranch.refresh.observe import CatalogState, observe, observe_everything
from anabranch.refresh.run import refresh_upon
from anabranch.runtime import Runtime, Transaction

KIND = "promote"


@dataclass(frozen=True)
class Staged(Found):
    """What was found, with the deployment itself and what is deployed."""

    deployment: Deployment
    records: Records


def promote(
    runtime: Runtime, deployment_id: str, *, catch_up: bool = True, suspend_readers: bool = False
) -> dict[str, Any]:
    """Bring the staged tables up to date, then swap; both again when somebody came between.

    `suspend_readers`: stream tables outside of the project that cannot follow are suspended.
    """
    refuse_in_transaction(runtime)
    first = look(runtime, deployment_id)  # for the first attempt, too
    deployment, looked = first.deployment, [first]
    consent = Consent(suspend_readers, {*deployment.notes.suspend})
    staging = staging_of(deployment)
    staged = [staging.name(key) for key in sorted(staging.keys)]
    put: list[Swap] = []

    def prepare() -> Staged:
        found = looked.pop() if looked else look(runtime, deployment_id)
        wanted = [name for name in staged if name in found.seen.streams] if catch_up else []
        return bring_up_to_date(flip, found, wanted) if wanted else found

    flip = Flip(
        runtime,
        [*staged, *moved_by(deployment)],
        cures(deployment, catch_up=catch_up, suspend_readers=suspend_readers),
        lambda: look(runtime, deployment_id),
        consent,
        prepare,
    )

    def attempt(tx: Transaction, lease: Lease, found: Staged) -> int | None:
        along, swap = _staged(flip, tx, found, catch_up=catch_up)
        put[:] = [swap]
        return flip.publish(along, lease)

    cut_id = flip.run(attempt)
    runtime.progress("published", {"cut_id": cut_id})
    return {
        "id": deployment_id,
        "status": "PROMOTED",
        "cut_id": put[0].shown,
        "suspended": sorted(map(str, flip.suspended)),
        "broken_views": sorted(map(str, flip.broken_views)),
    }


def look(runtime: Runtime, deployment_id: str) -> Staged:
    """The deployment, and the catalog that it is to be put into; refused at once is what the publish
    would refuse at its end."""
    with shown(runtime.lake) as (c, cut):
        deployment = find(c, deployment_id)
        if deployment.status is not DeploymentStatus.STAGED:
            raise wrong_status(deployment, "promoted")
        records = {ObjectKey(*key): record for key, _, record in deployments.deployed(c) if key[0]}
        seen = observe(c, runtime.lake, cut)
        whole = whose(c, seen, deployment.project), all_indexes(c)
        found = Staged(*whole, deployment, records)
        check_now(c, runtime, found)
    return found


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


def bring_up_to_date(flip: Flip[Staged], found: Staged, staged: list[TableName]) -> Staged:
    """Refresh what is staged, with what it reads in production, which may fail."""
    runtime = flip.runtime
    runtime.lake.fence.refuse_copies()
    state = found.seen
    if state.foreign:  # these may have moved since they were last observed
        state = observe_everything(runtime, asked_for=True)
    try:
        _, now = refresh_upon(runtime, state, staged, KIND)
    except AnabranchError as error:
        if error.kind in OF_THE_TABLE:
            error.hint = _what_helps(flip, found.deployment, error)
        raise
    if now is None or state is not found.seen:
        return flip.look()
    return replace(found, after=replace(found.after, seen=now))


def _what_helps(flip: Flip[Staged], deployment: Deployment, error: AnabranchError) -> str | None:
    """The hint of a refresh is for tables of production; one that is staged is not to be altered."""
    staging, cures = staging_of(deployment), flip.cures
    found = [error.hint] if error.hint else []
    if error.table is not None:
        home = {str(staging.name(key)): key.table for key in staging.keys}
        name = home.get(error.table) or TableName.parse(error.table)
        if not found or ("ALTER STREAM TABLE" in found[0] and name in cures.fixed):
            found = [cures.of(name, error)]
    if _could_be_put(flip):
        words = cures.again.strip("`")
        found.append(f"`{words} --no-refresh` promotes what was staged")
    return "; or ".join(found) or None


def _could_be_put(flip: Flip[Staged]) -> bool:
    """Try the swap with what was staged, up to its publish: tables that stay may need what failed."""
    trial = Flip(flip.runtime, (), flip.cures, flip.look, flip.consent)
    try:
        found = trial.look()
        tx = trial.begin(found)
        try:
            along, _ = _staged(trial, tx, found, catch_up=False)
            along.stage()
        finally:
            tx.abandon()
    except (AnabranchError, Broken):
        return False
    return True


def _staged(
    flip: Flip[Staged], tx: Transaction, found: Staged, *, catch_up: bool
) -> tuple[Along, Swap]:
    """The swap, ready to be published but for what has to move along."""
    runtime, deployment, seen = flip.runtime, found.deployment, found.seen
    snapshot, staging = snapshot_of(deployment.wanted), staging_of(deployment)
    staged = [staging.name(key) for key in sorted(staging.keys)]
    prints = fingerprints(runtime, seen, staging, snapshot, deployment.notes.fingerprints)
    try:
        check_one_world(seen, staged)
    except PublishConflict as late:
        if catch_up:
            raise
        hint = f"`anabranch promote {deployment.id}` brings it up to date first"
        raise Refused(late.message, hint=hint) from None  # nobody else would
    flip.break_views(tx, seen, readers_of(runtime, found))
    altered = [key.table for key in sorted(staging.altered)]
    along = flip.along(tx, KIND, seen, deployment.project, moved_by(deployment), altered)
    swap = Swap(
        runtime.settings,
        deployment,
        snapshot,
        staging,
        seen,
        found.indexed,
        made_by_hand(found.records, found.indexed, snapshot),
        renaming(runtime, seen, staging, snapshot, prints),
        {staging.name(key): prints[key.table][0] for key in staging.keys if key.table in prints},
        along,
    )
    swap.stage(tx)
    tx.used.add(seen.used([*staged, *swap.replaced]))
    tx.later(swap.rows)
    return along, swap


def readers_of(runtime: Runtime, found: Staged) -> tuple[Reader, ...]:
    """Readers outside of the project, as they are now."""
    deployment, snapshot = found.deployment, snapshot_of(found.deployment.wanted)
    moved = keys_of(deployment, Action.SWAP, Action.DROP)
    inside = {*found.after.own, *(key.table for key in snapshot.objects)}
    altered = keys_of(deployment, Action.ALTER)
    return outside_readers(
        runtime, found.seen, snapshot, moved, altered, inside, found.after.staged
    )


def moved_by(deployment: Deployment) -> list[TableName]:
    """The names of production that become something else."""
    return [key.table for key in keys_of(deployment, Action.SWAP, Action.DROP)]


def check_now(c: Connection, runtime: Runtime, found: Staged) -> None:
    """What may have happened to production since the deployment was staged."""
    deployment, seen = found.deployment, found.seen
    check_base(c, runtime.lake, seen, deployment)
    staging = staging_of(deployment)
    refuse_staged_readers(c, [*staging.names, *staging.stand_ins])
    actions = (Action.SWAP, Action.DROP, Action.ALTER)
    moving = Moving(*(keys_of(deployment, each) for each in actions))
    snapshot = snapshot_of(deployment.wanted)
    for error in deployed_cycles(runtime, seen, snapshot, moving, found.after.staged):
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
