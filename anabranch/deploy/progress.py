"""wait: how far a deployment is, from catalog rows alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from anabranch.catalog.deployments import Deployment, DeploymentStatus
from anabranch.catalog.store import Store
from anabranch.deploy.record import snapshot_of
from anabranch.deploy.snapshot import ObjectKey
from anabranch.deploy.staging import Staging
from anabranch.deploy.state import find, staging_of
from anabranch.lake.lake import Lake
from anabranch.model import Status
from anabranch.refresh.observe import CatalogState, observe

POLL_SECONDS = 0.5


def progress(store: Store, lake: Lake, deployment_id: str) -> dict[str, Any]:
    """Where each staged object stands."""
    with store.reading() as c:
        deployment = find(c, deployment_id)
        seen = observe(c, lake)
    staging, snapshot = staging_of(deployment), snapshot_of(deployment.wanted)
    objects = [
        {
            "object": str(key),
            "kind": snapshot.objects[key].kind,
            "staged_as": str(staging.name(key)),
            "state": state(deployment, staging, seen, key),
            "error": seen.streams[staging.name(key)].last_error
            if staging.name(key) in seen.streams
            else None,
        }
        for key in sorted(staging.keys)
    ]
    built = sum(each["state"] not in ("WAITING", "ERROR") for each in objects)
    return {
        "id": deployment.id,
        "status": deployment.status.value,
        "built": built,
        "of": len(objects),
        "ready": deployment.status is DeploymentStatus.STAGED and built == len(objects),
        "stuck": deployment.status is DeploymentStatus.STAGING
        and not deployment.alive(seen.moment),
        "objects": objects,
    }


def state(deployment: Deployment, staging: Staging, seen: CatalogState, key: ObjectKey) -> str:
    """WAITING to be built, FRESH, BEHIND its sources, or in ERROR; PROMOTED once it is in place."""
    name = staging.name(key)
    if deployment.status is DeploymentStatus.PROMOTED:
        return "PROMOTED"
    if name not in seen.pointers and name not in seen.views:
        return "WAITING"
    stream = seen.streams.get(name)
    if stream is not None and stream.status is Status.ERROR:
        return "ERROR"
    return "BEHIND" if stream is not None and seen.stale([name]) else "FRESH"


def wait(
    store: Store,
    lake: Lake,
    deployment_id: str,
    *,
    timeout: float | None = None,
    watch: Callable[[dict[str, Any]], None] = lambda state: None,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Until the deployment is ready, has ended, or can get no further; `watch` sees every look."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        state = progress(store, lake, deployment_id)
        watch(state)
        moving = state["status"] == DeploymentStatus.STAGING.value and not state["stuck"]
        if not moving or (end is not None and time.monotonic() >= end):
            return state
        sleep(POLL_SECONDS)
