"""abort: remove a staged deployment, and nothing else."""

from __future__ import annotations

from typing import Any

from anabranch.catalog import definitions, deployments, tables
from anabranch.catalog.deployments import Deployment, DeploymentStatus
from anabranch.catalog.store import Connection
from anabranch.cut_view import CutView
from anabranch.deploy import refresh_groups
from anabranch.deploy.conflicts import refuse_staged_readers
from anabranch.deploy.staging import Staging
from anabranch.deploy.state import find, refuse_in_transaction, wrong_status
from anabranch.names import TableName
from anabranch.refresh.observe import CatalogState
from anabranch.runtime import Runtime, Transaction
from anabranch.tables.writing import write_tables

CAN_END = (DeploymentStatus.STAGING, DeploymentStatus.STAGED, DeploymentStatus.ABORTED)


def abort(runtime: Runtime, deployment_id: str) -> dict[str, Any]:
    """One publish: staged tables, their rows and the deployment's status."""
    refuse_in_transaction(runtime)
    with runtime.store.reading() as c:
        deployment = find(c, deployment_id)
    if deployment.status not in CAN_END:
        raise wrong_status(deployment, "aborted")
    removed = remove_all(runtime, deployment)
    return {"id": deployment.id, "status": DeploymentStatus.ABORTED.value, "removed": removed}


def remove_left_overs(runtime: Runtime, deployment: Deployment) -> None:
    """What a stage made that did not notice the abort in time."""
    if deployment.status is DeploymentStatus.ABORTED:
        remove_all(runtime, deployment)


def remove_all(runtime: Runtime, deployment: Deployment) -> list[str]:
    """Under the lease of what goes, so that nobody refreshes it meanwhile."""
    removed: list[TableName] = []

    def act(tx: Transaction, seen: CatalogState) -> list[TableName]:
        removed[:] = _remove(tx, deployment)
        return removed

    write_tables(runtime, "abort", act)
    return [str(name) for name in removed]


def _remove(tx: Transaction, deployment: Deployment) -> list[TableName]:
    found = staged_names(tx.world, deployment)
    for name in found:
        if name in tx.stage.base:
            tx.stage.drop(name)

    def rows(c: Connection, cut_id: int | None) -> None:
        ended = {"finished_at": deployment.finished_at or tables.now(c)}
        aborted = DeploymentStatus.ABORTED
        if not deployments.move(c, deployment.id, CAN_END, aborted, **ended):
            raise wrong_status(find(c, deployment.id), "aborted")
        refuse_staged_readers(c, found)
        definitions.put(c, found, {})
        definitions.forget_history(c, found)
        refresh_groups.leave(c, found)
        namespaces = {name.schema for name in found}
        deployments.forget_namespaces(c, tx.world.lake.catalog_name, namespaces)

    tx.later(rows)
    return found


def staged_names(world: CutView, deployment: Deployment) -> list[TableName]:
    """Everything in the staging schemas of the deployment."""
    staging = Staging(deployment.id, frozenset())
    return sorted(name for name in world.names() if staging.key(name) is not None)
