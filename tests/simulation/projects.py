"""A small project and its versions, as the records that deployments are made from.

Two stream tables, one of which reads the other; `s.o`, outside of the project, reads both.
"""

from __future__ import annotations

from anabranch.deploy.snapshot import ObjectKey, Snapshot, SnapshotObject
from anabranch.deploy.state import DesiredState
from tests.simulation.light import sources_of
from tests.simulation.plans import QUERIES

NAME = "shop"
B, C = ObjectKey("d", "m", "b"), ObjectKey("d", "m", "c")


def version(factor: int) -> DesiredState:
    """The project with another factor in the query of its first table."""
    queries = {B: f"scale {factor} s.a", C: QUERIES[str(C)]}
    return DesiredState(
        NAME, Snapshot({key: _object(key, query) for key, query in queries.items()})
    )


def _object(key: ObjectKey, query: str) -> SnapshotObject:
    return SnapshotObject(
        key,
        "stream table",
        query,
        query,
        reads=frozenset(ObjectKey.of(each) for each in sources_of(query) if len(each.parts) == 3),
        options={"schedule": "1s"},
        sql=query,
        query=query,
    )
