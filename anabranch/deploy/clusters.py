"""Clusters of a deployment: new ones are needed to build, others change with the promote."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.catalog import clusters, deployments
from anabranch.catalog.clusters import Cluster
from anabranch.catalog.deployments import OPEN, Deployment
from anabranch.catalog.store import Connection, Store
from anabranch.deploy.snapshot import ClusterFact, Snapshot

Kept = dict[str, Any]  # what a cluster was; None when there was none


def cluster_of(fact: ClusterFact) -> Cluster:
    given = {name: value for name, value in fact.options.items() if value is not None}
    pool, address = given.pop("pool", None), given.pop("address", None)
    return Cluster(fact.name, pool, address, given)


def add_missing(store: Store, snapshot: Snapshot) -> None:
    with store.writing() as c:
        there = clusters.all_clusters(c)
        for name, fact in sorted(snapshot.clusters.items()):
            if name not in there:
                clusters.put(c, cluster_of(fact))


def swap(c: Connection, names: Iterable[str], snapshot: Snapshot) -> Kept:
    """Clusters become what the project says; one that is still used stays."""
    there = clusters.all_clusters(c)
    before: Kept = {}
    for name in names:
        before[name] = vars(there[name]) if name in there else None
        if name in snapshot.clusters:
            clusters.put(c, cluster_of(snapshot.clusters[name]))
        elif not clusters.users(c, name):
            clusters.remove(c, name)
    return before


def restore(c: Connection, before: Kept) -> None:
    for name, known in before.items():
        if known is not None:
            clusters.put(c, Cluster(**known))
        elif not clusters.users(c, name):
            clusters.remove(c, name)


def remove_unused(c: Connection, deployment: Deployment) -> None:
    """After an abort: clusters that only this deployment needed."""
    deployed = {key[2] for key, _, _ in deployments.deployed(c) if not key[0]}
    open_ones = {
        name
        for each in deployments.listing(c)
        if each.id != deployment.id and each.status in OPEN
        for name in each.wanted["clusters"]
    }
    for name in deployment.wanted["clusters"]:
        if name not in deployed | open_ones and not clusters.users(c, name):
            clusters.remove(c, name)
