"""The consistency groups and components of the stream tables in the catalog.

They follow from what tables read and declare, so they are not stored; only epochs are, table by table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection

from anabranch.cache import cached
from anabranch.catalog import refresh_groups, streams
from anabranch.catalog.refresh_groups import RefreshGroup
from anabranch.catalog.streams import StreamTable
from anabranch.graph.components import Component, components
from anabranch.graph.groups import ConsistencyGroup, consistency_groups
from anabranch.graph.policies import DiamondConsistency
from anabranch.names import TableName

Reads = Mapping[TableName, tuple[TableName, ...]]
Group = ConsistencyGroup[TableName]
Edges = tuple[tuple[TableName, tuple[TableName, ...]], ...]


def all_groups(c: Connection, known: Mapping[TableName, StreamTable]) -> list[Group]:
    """The groups with their epochs, upstreams first."""
    nothing: dict[TableName, tuple[TableName, ...]] = dict.fromkeys(known, ())
    reads = nothing | streams.dependencies(c)
    found = grouped(reads, known, refresh_groups.all_groups(c))
    return [replace(each, epoch=max(known[m].epoch or 0 for m in each.members)) for each in found]


def grouped(
    reads: Reads, known: Mapping[TableName, StreamTable], declared: Mapping[str, RefreshGroup]
) -> list[Group]:
    """The consistency groups of a graph; kept until the graph changes."""
    opted_out = frozenset(
        name
        for name, stream in known.items()
        if stream.diamond_consistency == DiamondConsistency.NONE.value
    )
    members = tuple((name, group.members) for name, group in declared.items())
    return list(_groups(tuple(reads.items()), members, opted_out))


@cached(4)
def _groups(
    reads: Edges,
    declared: tuple[tuple[str, tuple[TableName, ...]], ...],
    opted_out: frozenset[TableName],
) -> tuple[Group, ...]:
    return tuple(consistency_groups(dict(reads), dict(declared), opted_out))


@cached(4)
def kept_components(reads: Edges) -> tuple[Component[TableName], ...]:
    return tuple(components(dict(reads)))


@cached(4)
def homes(reads: Edges) -> Mapping[TableName, Component[TableName]]:
    """The component of every stream table."""
    return {name: part for part in kept_components(reads) for name in part.members}
