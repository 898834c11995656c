"""All deployments, from catalog rows alone: nothing that knows Spark or Iceberg is loaded."""

from __future__ import annotations

from typing import Any

from anabranch.catalog import deployments
from anabranch.catalog.deployments import Deployment
from anabranch.catalog.store import Store
from anabranch.deploy.snapshot import SchemaKey
from anabranch.deploy.steps import Action


def listing(store: Store) -> list[dict[str, Any]]:
    """All deployments, newest first."""
    with store.reading() as c:
        return [summary(each) for each in deployments.listing(c)]


def summary(each: Deployment) -> dict[str, Any]:
    actions = [step.action for step in each.plan.steps]
    return {
        "id": each.id,
        "project": each.project,
        "status": each.status.value,
        "created_by": each.created_by,
        "created_at": each.created_at,
        "staged_at": each.staged_at,
        "finished_at": each.finished_at,
        "cut_id": each.cut_id,
        "schemas": [str(SchemaKey(*parts)) for parts in each.base.touched],
        **{action.value: actions.count(action.value) for action in Action},
    }
