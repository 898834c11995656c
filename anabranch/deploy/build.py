"""Build the objects of a deployment in its staging schemas, upstreams first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anabranch.catalog.clusters import all_clusters
from anabranch.deploy.snapshot import ObjectKey, Snapshot, SnapshotObject
from anabranch.deploy.source_tables import declared_columns
from anabranch.deploy.staging import Staging
from anabranch.graph.components import components
from anabranch.runtime import Runtime
from anabranch.settings import Settings
from anabranch.sql.statements.read import parse_statement
from anabranch.sql.statements.records import CreateIndex, CreateView
from anabranch.sql.text.column_names import with_column_names
from anabranch.tables import stream_tables as declare
from anabranch.tables.comments import comment_on
from anabranch.tables.indexes import create_index
from anabranch.tables.options import with_defaults
from anabranch.tables.source_tables import create_table, create_view
from anabranch.tables.stream_tables import Declaration

NO_GROUP = "none"  # a staged table must never hold a group of production back


def parts(snapshot: Snapshot, keys: Sequence[ObjectKey]) -> list[tuple[ObjectKey, ...]]:
    """The objects in order; those that read each other together."""
    reads = {key: sorted(snapshot.objects[key].reads & set(keys)) for key in keys}
    return [part.members for part in components(reads)]


def build(
    runtime: Runtime, staging: Staging, snapshot: Snapshot, part: Sequence[ObjectKey]
) -> None:
    """One object, or several that read each other: there afterwards, whatever was there before."""
    world = runtime.world()
    missing = [snapshot.objects[key] for key in part if world.find(staging.name(key)) is None]
    streams = [each for each in missing if each.kind == "stream table"]
    for each in missing:
        name = staging.name(each.key)
        if each.kind == "table":
            create_table(runtime, name, declared_columns(each), if_not_exists=True)
        elif each.kind == "view":
            query = staging.query(view_query(each))
            create_view(runtime, name, query, if_not_exists=True)
    if streams:
        declare.create_all(
            runtime, [staged_declaration(each, staging, runtime) for each in streams]
        )
    for key in part:
        if snapshot.objects[key].kind != "view" and snapshot.objects[key].comments:
            comment_on(runtime, staging.name(key), snapshot.objects[key].comments)
        for index in snapshot.objects[key].indexes:
            table = staging.name(key)
            cluster = there_already(runtime, index.cluster)
            made = CreateIndex(index.name, table, index.columns, cluster, if_not_exists=True)
            create_index(runtime, made)


def view_query(each: SnapshotObject) -> str:
    """The query of a view with the names that the view gives its columns."""
    statement = parse_statement(each.sql)
    named = statement.columns if isinstance(statement, CreateView) else None
    return with_column_names(each.query, named) if named else each.query


def staged_declaration(each: SnapshotObject, staging: Staging, runtime: Runtime) -> Declaration:
    return replace(
        declaration(each, runtime.settings),
        name=staging.name(each.key),
        query=staging.query(each.query),
        diamond_consistency=NO_GROUP,
        cluster=there_already(runtime, each.cluster),
    )


def there_already(runtime: Runtime, cluster: str | None) -> str | None:
    """A cluster that is new comes with the promote: until then its tables are built anywhere."""
    with runtime.store.reading() as c:
        return cluster if cluster in all_clusters(c) else None


def declaration(each: SnapshotObject, settings: Settings) -> Declaration:
    """The stream table as the project declares it."""
    given = {name: value for name, value in dict(each.options).items() if value is not None}
    said = with_defaults({"schedule": None, **given, "cluster": each.cluster}, settings)
    return Declaration(each.key.table, each.query.strip().rstrip(";"), **said)
