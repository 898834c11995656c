"""promote: all objects of a deployment take their places in one publish.

Nothing is computed and nothing is written but rows of the catalog: the pointer of a staged table
becomes the pointer of the table in production.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.catalog.deployments import Deployment, DeploymentStatus
from anabranch.catalog.indexes import all_indexes
from anabranch.deploy.conflicts import check_base
from anabranch.deploy.production import Fingerprints, fingerprints, renaming
from anabranch.deploy.record import snapshot_of
from anabranch.deploy.staging import Staging
from anabranch.deploy.state import find, refuse_in_transaction, staging_of, wrong_status
from anabranch.deploy.swap import Swap
from anabranch.errors import PublishConflict
from anabranch.lake.observe import observed
from anabranch.names import TableName
from anabranch.refresh.look import Look, look, look_now
from anabranch.refresh.run import refresh
from anabranch.refresh.unit import world_of
from anabranch.runtime import Runtime, Transaction

ATTEMPTS = 10  # times the staged tables are brought up to date when production moves meanwhile


def promote(runtime: Runtime, deployment_id: str, *, catch_up: bool = True) -> dict[str, Any]:
    """Bring the staged tables up to date, then swap; both anew when somebody came between."""
    refuse_in_transaction(runtime)
    with runtime.store.reading() as c:
        deployment = find(c, deployment_id)
    if deployment.status is not DeploymentStatus.STAGED:
        raise wrong_status(deployment, "promoted")
    for attempt in range(ATTEMPTS):
        try:
            cut_id = _attempt(runtime, deployment, catch_up)
        except PublishConflict:
            if attempt == ATTEMPTS - 1:
                raise
            continue
        runtime.progress("published", {"cut_id": cut_id})
        with runtime.store.reading() as c:
            done = find(c, deployment_id)
        return {"id": done.id, "status": "PROMOTED", "cut_id": done.cut_id}
    raise AssertionError("unreachable")


def _attempt(runtime: Runtime, deployment: Deployment, catch_up: bool) -> int | None:
    check_now(runtime, deployment)
    snapshot, staging = snapshot_of(deployment.wanted), staging_of(deployment)
    staged = [staging.name(key) for key in sorted(staging.keys)]
    if catch_up:
        known = look_now(runtime).streams
        if wanted := [name for name in staged if name in known]:
            refresh(runtime, wanted, "promote")
    prints = fingerprints(runtime, staging, snapshot, deployment.notes.get("fingerprints"))
    with observed(runtime.lake) as c:
        seen, indexed = look(c, runtime.lake), all_indexes(c)
    check_one_world(seen, staged)
    check_prints(seen, staging, prints)
    tx = Transaction(world_of(runtime, seen))
    try:
        swap = Swap(
            runtime.settings,
            deployment,
            snapshot,
            staging,
            seen,
            indexed,
            renaming(runtime, seen, staging, snapshot, prints),
        )
        swap.stage(tx)
        tx.used.add(seen.used([*staged, *swap.replaced]))
        tx.later(swap.rows)
        return tx.publish("promote")
    except BaseException:
        tx.abandon()
        raise


def check_now(runtime: Runtime, deployment: Deployment) -> None:
    """Refuse at once what the publish would refuse at its end."""
    with observed(runtime.lake) as c:
        check_base(c, look(c, runtime.lake), deployment)


def check_one_world(seen: Look, staged: Iterable[TableName]) -> None:
    """Staged tables must stand on the very versions of stream tables that will be seen with them."""
    for name in staged:
        for source, read in seen.inputs.get(name, {}).items():
            if source == name or source not in seen.streams:
                continue
            if read.metadata_location != seen.pointers.get(source):
                raise PublishConflict(
                    f"{name} has not seen the newest {source}", hint="`anabranch promote` again"
                )


def check_prints(seen: Look, staging: Staging, prints: Fingerprints) -> None:
    """Fingerprints are found out before the look; a refresh may have come between."""
    for key in staging.keys:
        stream = seen.streams.get(staging.name(key))
        if stream is not None and prints[str(key.table)][0] != stream.fingerprint:
            raise PublishConflict(
                f"{stream.name} was refreshed meanwhile", hint="`anabranch promote` again"
            )
