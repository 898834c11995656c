"""A compiled project as the plain records that change sets and deployments are computed from."""

from __future__ import annotations

import json

from anabranch.deploy.canonical import canonical, hash_of, metadata, object_hash
from anabranch.deploy.snapshot import ClusterFact, IndexFact, Snapshot, SnapshotObject
from anabranch.names import quote
from anabranch.project.compile import Compiled, CompiledObject
from anabranch.project.records import Cluster, Index, Model
from anabranch.sql.statements.records import CreateStreamTable, CreateTable, CreateView


def snapshot(compiled: Compiled) -> Snapshot:
    return Snapshot(
        {key: snapshot_object(found) for key, found in compiled.objects.items()},
        {name: cluster_fact(each) for name, each in compiled.files.clusters.items()},
    )


def snapshot_object(found: CompiledObject) -> SnapshotObject:
    model, statement = found.model, found.model.with_query(found.query)
    form = canonical(statement)
    indexes = tuple(index_fact(each) for each in model.indexes)
    stream = statement if isinstance(statement, CreateStreamTable) else None
    table = statement if isinstance(statement, CreateTable) else None
    return SnapshotObject(
        key=model.key,
        kind=model.kind,
        hash=object_hash(form, indexes),
        canonical=form,
        cluster=stream.cluster if stream else None,
        indexes=indexes,
        reads=found.reads,
        metadata=remarks(model),
        options=options(stream) if stream else {},
        sql=model.at.passage.text,
        query=found.query,
        columns=tuple((each.name, each.type) for each in table.columns) if table else (),
        comments=comments(model),
    )


def options(statement: CreateStreamTable) -> dict[str, str | None]:
    return {
        "schedule": statement.schedule,
        "refresh_mode": statement.refresh_mode.value,
        **statement.options,
    }


def remarks(model: Model) -> str:
    """What CREATE says beyond its canonical form, then the comments; the last one on a thing holds."""
    said = {each.statement.column: each.statement.text for each in model.comments}
    lines = [
        f"COMMENT ON {f'COLUMN {quote(column)}' if column else 'TABLE'} = "
        f"{json.dumps(text, ensure_ascii=False)}"
        for column, text in sorted(said.items(), key=lambda each: each[0] or "")
    ]
    return "\n".join([line for line in (metadata(model.statement), *lines) if line])


def comments(model: Model) -> dict[str, str]:
    """What holds of all that is said: COMMENT ON comes after CREATE, and NULL takes away."""
    said: dict[str, str | None] = {}
    if isinstance(model.statement, CreateTable):
        said |= model.statement.comments
    elif isinstance(model.statement, CreateView):
        said[""] = model.statement.comment
    known = {name.lower(): name for name in said}
    for each in model.comments:
        name = each.statement.column or ""
        said[known.setdefault(name.lower(), name)] = each.statement.text
    return {name: text for name, text in said.items() if text}


def index_fact(index: Index) -> IndexFact:
    statement = index.statement
    columns = ", ".join(quote(name.lower()) for name in statement.columns)
    return IndexFact(
        statement.name, statement.cluster, f"INDEX ({columns})", tuple(statement.columns)
    )


def cluster_fact(cluster: Cluster) -> ClusterFact:
    statement = cluster.statement
    settings = {"pool": statement.pool, "address": statement.address, **statement.settings}
    said = {name: value for name, value in sorted(settings.items()) if value is not None}
    form = f"CLUSTER {json.dumps(said, ensure_ascii=False)}"
    return ClusterFact(statement.name, hash_of(form), form, said)
