"""Clusters: named Spark resources that stream tables and indexes are kept on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, insert, select

from anabranch.catalog import tables
from anabranch.catalog.remembered import once


@dataclass(frozen=True)
class Cluster:
    """A scheduler pool of the session at hand, or the address of a Spark Connect server."""

    name: str
    pool: str | None = None
    address: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)


def put(c: Connection, cluster: Cluster) -> None:
    """Add a cluster, or replace the one of its name."""
    remove(c, cluster.name)
    c.execute(
        insert(tables.clusters).values(
            name=cluster.name,
            pool=cluster.pool,
            address=cluster.address,
            settings=dict(cluster.settings),
            created_at=tables.now(),
        )
    )


def remove(c: Connection, name: str) -> bool:
    return c.execute(delete(tables.clusters).where(tables.clusters.c.name == name)).rowcount == 1


@once(tables.clusters)
def all_clusters(c: Connection) -> dict[str, Cluster]:
    rows = c.execute(select(tables.clusters).order_by(tables.clusters.c.name))
    return {row.name: Cluster(row.name, row.pool, row.address, dict(row.settings)) for row in rows}


def users(c: Connection, name: str) -> list[str]:
    """The stream tables and indexes that are kept on a cluster."""
    streams, indexes = tables.stream_tables, tables.indexes
    found = c.execute(select(streams.c.name).where(streams.c.cluster == name)).scalars().all()
    rows = c.execute(select(indexes).where(indexes.c.cluster == name))
    return sorted(found) + sorted(f"index {row.name} of {row.table_name}" for row in rows)
