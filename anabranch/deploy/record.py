"""Objects of a snapshot as JSON, and back: this is how the catalog keeps what is deployed."""

from __future__ import annotations

from anabranch.catalog.deployment_state import (
    ClusterRecord,
    IndexRecord,
    Json,
    ObjectRecord,
    SnapshotRecord,
)
from anabranch.deploy.snapshot import ClusterFact, IndexFact, ObjectKey, Snapshot, SnapshotObject


def object_record(each: SnapshotObject) -> ObjectRecord:
    return {
        "kind": each.kind,
        "hash": each.hash,
        "canonical": each.canonical,
        "cluster": each.cluster,
        "indexes": [_index_record(index) for index in each.indexes],
        "reads": [list(key) for key in sorted(each.reads)],
        "metadata": each.metadata,
        "options": dict(each.options),
        "sql": each.sql,
        "query": each.query,
        "columns": [list(column) for column in each.columns],
        "comments": dict(each.comments),
    }


def _index_record(each: IndexFact) -> IndexRecord:
    return {
        "name": each.name,
        "cluster": each.cluster,
        "canonical": each.canonical,
        "columns": list(each.columns),
    }


def object_of(key: ObjectKey, record: Json) -> SnapshotObject:
    return SnapshotObject(
        key=key,
        kind=record["kind"],
        hash=record["hash"],
        canonical=record["canonical"],
        cluster=record["cluster"],
        indexes=tuple(
            IndexFact(**{**index, "columns": tuple(index["columns"])})
            for index in record["indexes"]
        ),
        reads=frozenset(ObjectKey(*parts) for parts in record["reads"]),
        metadata=record["metadata"],
        options=record["options"],
        sql=record["sql"],
        query=record["query"],
        columns=tuple((name, type_) for name, type_ in record["columns"]),
        comments=record.get("comments", {}),  # older catalogs have none
    )


def cluster_record(each: ClusterFact) -> ClusterRecord:
    return {"hash": each.hash, "canonical": each.canonical, "options": dict(each.options)}


def cluster_of(name: str, record: Json) -> ClusterFact:
    return ClusterFact(name, record["hash"], record["canonical"], record["options"])


def snapshot_record(snapshot: Snapshot) -> SnapshotRecord:
    return {
        "objects": [
            {"parts": list(key), **object_record(each)}
            for key, each in sorted(snapshot.objects.items())
        ],
        "clusters": {
            name: cluster_record(each) for name, each in sorted(snapshot.clusters.items())
        },
    }


def snapshot_of(record: SnapshotRecord) -> Snapshot:
    objects = [object_of(ObjectKey(*each["parts"]), each) for each in record["objects"]]
    return Snapshot(
        {each.key: each for each in objects},
        {name: cluster_of(name, each) for name, each in record["clusters"].items()},
    )
