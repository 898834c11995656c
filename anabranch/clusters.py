"""Clusters: make and drop them, and find the one that work belongs on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from anabranch.catalog import clusters, cuts
from anabranch.catalog.clusters import Cluster
from anabranch.catalog.store import Store
from anabranch.catalog.streams import StreamTable
from anabranch.errors import AlreadyExists, Refused, UnknownName
from anabranch.names import TableName, shown
from anabranch.runtime import Runtime, Transaction
from anabranch.spark.clusters import allocation_conf, at_home


def create(
    store: Store, cluster: Cluster, *, or_replace: bool = False, if_not_exists: bool = False
) -> None:
    """Weights and shares of pools count from the next start of Spark on."""
    with store.writing() as c:
        cuts.hold(c)  # one after the other with publishes, which check what they are kept on
        there = cluster.name in clusters.all_clusters(c)
        if there and not or_replace:
            if if_not_exists:
                return
            raise AlreadyExists(
                f"cluster {shown(cluster.name)} already exists",
                hint="CREATE OR REPLACE CLUSTER changes it",
            )
        clusters.put(c, cluster)


def drop(store: Store, name: str, *, if_exists: bool = False) -> None:
    with store.writing() as c:
        cuts.hold(c)
        found = clusters.all_clusters(c)
        if name not in found and if_exists:
            return
        check_known(name, found)
        users = clusters.users(c, name)
        if users:
            raise Refused(
                f"cluster {shown(name)} is used by {', '.join(users)}",
                hint="drop those, or CREATE OR REPLACE them without IN CLUSTER",
            )
        clusters.remove(c, name)


def known(store: Store, name: str | None) -> str | None:
    """The name, if there is such a cluster."""
    if name is not None:
        with store.reading() as c:
            check_known(name, clusters.all_clusters(c))
    return name


def kept_on(tx: Transaction, name: str | None) -> None:
    """The cluster must still be there when what is kept on it becomes visible."""
    if name is not None:
        tx.later(lambda c, _: check_known(name, clusters.all_clusters(c)))


def check_known(name: str, found: Mapping[str, Cluster]) -> None:
    if name not in found:
        raise UnknownName(f"there is no cluster {shown(name)}", name=name, known=list(found))


def cluster_of(runtime: Runtime, stream: StreamTable) -> Cluster | None:
    """Where a stream table is refreshed; None: anywhere."""
    if stream.cluster is None:
        return None
    with runtime.store.reading() as c:
        found = clusters.all_clusters(c)
    check_known(stream.cluster, found)
    return found[stream.cluster]


def cluster_there(runtime: Runtime, name: str | None) -> Cluster | None:
    """Where an index is kept; one whose cluster comes with the same publish may be kept anywhere."""
    if name is None:
        return None
    with runtime.store.reading() as c:
        return clusters.all_clusters(c).get(name)


def pool_of(runtime: Runtime, stream: StreamTable) -> str | None:
    """The scheduler pool of a stream table's cluster; None when it has none."""
    cluster = cluster_of(runtime, stream)
    return cluster.pool if cluster else None


@contextmanager
def on_cluster(
    runtime: Runtime, tx: Transaction, name: TableName, cluster: Cluster | None
) -> Iterator[tuple[Runtime, Transaction]]:
    """Runtime and transaction on the Spark of a table's cluster.

    Without a cluster every table has a scheduler pool of its own: pools share the cores fairly.
    """
    if cluster is None:
        with runtime.spark.pool(str(name)):
            yield runtime, tx
        return
    with at_home(runtime.spark, cluster.pool, cluster.address, cluster.settings) as spark:
        yield (
            (runtime, tx)
            if spark is runtime.spark
            else (replace(runtime, spark=spark), tx.on(spark))
        )


def pools_at_start(store: Store) -> dict[str, str]:
    """What a Spark that starts must be told of the pools."""
    with store.reading() as c:
        found = clusters.all_clusters(c)
    return allocation_conf({each.pool: each.settings for each in found.values() if each.pool})
