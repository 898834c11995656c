"""Clusters of a deployment: they come, change and go with the promote."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.catalog import clusters
from anabranch.catalog.clusters import Cluster
from anabranch.catalog.deployment_state import Clusters
from anabranch.catalog.store import Connection
from anabranch.deploy.snapshot import ClusterFact, Snapshot
from anabranch.deploy.undo import put_back


def cluster_of(fact: ClusterFact) -> Cluster:
    given = {name: value for name, value in fact.options.items() if value is not None}
    pool, address = given.pop("pool", None), given.pop("address", None)
    return Cluster(fact.name, pool, address, given)


def swap(c: Connection, names: Iterable[str], snapshot: Snapshot) -> dict[str, Cluster | None]:
    """Clusters become what the project says; one that is still used stays."""
    before = as_they_are(c, names)
    for name in before:
        if name in snapshot.clusters:
            clusters.put(c, cluster_of(snapshot.clusters[name]))
        elif not clusters.users(c, name):
            clusters.remove(c, name)
    return before


def as_they_are(c: Connection, names: Iterable[str]) -> dict[str, Cluster | None]:
    if not (wanted := list(names)):
        return {}
    there = clusters.all_clusters(c)
    return {name: there.get(name) for name in wanted}


def restore(c: Connection, before: Clusters, left: Clusters) -> list[str]:
    """Clusters become what they were; the names of those that changed since `left`, which stay."""
    wanted, changed = put_back(before, left or as_they_are(c, before), as_they_are(c, before))
    for name, known in wanted.items():
        if name in changed:
            continue
        if known is not None:
            clusters.put(c, known)
        elif not clusters.users(c, name):
            clusters.remove(c, name)
    return changed
