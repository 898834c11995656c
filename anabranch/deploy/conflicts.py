"""What may have happened to production since a deployment was staged: checked where it flips."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from anabranch.catalog import cuts, deployments, streams
from anabranch.catalog import views as view_rows
from anabranch.catalog.deployment_state import ColumnRecord, Undo
from anabranch.catalog.deployments import Deployment, SchemaVersion
from anabranch.catalog.store import Connection
from anabranch.deploy.outside import reads_of
from anabranch.deploy.record import snapshot_of
from anabranch.deploy.refusals import alike
from anabranch.deploy.snapshot import ObjectKey, SchemaKey
from anabranch.deploy.state import TABLE, definition, keys_of
from anabranch.deploy.steps import Action
from anabranch.errors import Refused
from anabranch.lake.lake import Lake
from anabranch.names import TableName
from anabranch.refresh.observe import CatalogState


def check_base(c: Connection, lake: Lake, seen: CatalogState, deployment: Deployment) -> None:
    """Refuse when production is not what the deployment was staged upon.

    `seen` is from before the flip: inside its transaction the pointers have moved already.
    """
    versions = deployments.schema_versions(c)
    again = f"`anabranch abort {deployment.id}`, then `anabranch stage` again"
    for database, schema, version in deployment.base.schemas:
        now = versions.get((database, schema))
        if (now.version if now else 0) != version:
            raise Refused(_moved(deployment, SchemaKey(database, schema), now), hint=again)
    now_seen = replace(seen, streams=streams.all_streams(c), views=view_rows.all_views(c))
    for name, before in deployment.base.definitions.items():
        if definition(now_seen, ObjectKey.of(name)) != before:
            raise Refused(
                f"{name} was changed by hand since {deployment.id} was staged", hint=again
            )
    for name, known in deployment.base.ids.items():
        if id_of(lake, seen, name) != known:
            raise Refused(
                f"{name} was dropped and recreated since {deployment.id} was staged", hint=again
            )
    for name, columns in deployment.base.columns.items():
        if columns_now(lake, seen, name) != columns:
            raise Refused(f"{name} was altered since {deployment.id} was staged", hint=again)
    coming = {key.table for key in keys_of(deployment, Action.SWAP)}
    going = {key.table for key in keys_of(deployment, Action.DROP)}
    _check_alike(c, coming, going)


def _check_alike(
    c: Connection, coming: Collection[TableName], going: Collection[TableName]
) -> None:
    """Refuse names that only case tells from one that stays: before the flip and inside of it."""
    known = {*cuts.newest(c), *view_rows.all_views(c)}
    for refused in alike(coming, known.difference(going)):
        raise refused


def columns_now(lake: Lake, seen: CatalogState, name: TableName) -> tuple[ColumnRecord, ...] | None:
    """The columns of a source table, with their ids: one dropped and added again is another."""
    if name not in seen.pointers:
        return None
    found = lake.version(name, seen.pointers[name]).columns
    return tuple((each.field_id, each.name, each.type, each.nullable) for each in found)


def id_of(lake: Lake, seen: CatalogState, name: TableName) -> str | None:
    """Which table stands under a name: one that was dropped and recreated is another one."""
    location = seen.pointers.get(name)
    return None if location is None else str(lake.version(name, location).metadata.table_uuid)


def check_left(c: Connection, lake: Lake, seen: CatalogState, deployment: Deployment) -> None:
    """Refuse to roll back over what somebody made or changed since the promote.

    Nothing is lost where somebody has dropped what the deployment left.
    """
    now_seen = replace(seen, streams=streams.all_streams(c), views=view_rows.all_views(c))
    undo = deployment.undo or Undo()
    for name, left in left_by(deployment, now_seen).items():
        now = definition(now_seen, ObjectKey.of(name))
        if now is None:
            continue
        again = now == left and undo.ids.get(name) not in (None, id_of(lake, seen, name))
        if now == left and not again:
            if left == TABLE:
                _check_empty(lake, seen, deployment, name)
            continue
        done = "made" if left is None else "dropped and recreated" if again else "changed"
        raise Refused(
            f"{name} was {done} by hand since {deployment.id} was promoted",
            hint=f"drop {name} first, or check the older SQL out and `anabranch stage` it",
        )
    coming = {name for name, location in undo.pointers.items() if location is not None}
    coming |= undo.views.keys()
    _check_alike(c, coming, undo.pointers.keys() - coming)


def _check_empty(lake: Lake, seen: CatalogState, deployment: Deployment, name: TableName) -> None:
    """A source table took the place of something else: its rows are nobody's but the user's."""
    if lake.version(name, seen.pointers[name]).rows:
        raise Refused(
            f"{name} has been a source table since {deployment.id} and holds rows, "
            "which its roll-back would drop",
            hint=f"copy them elsewhere, DROP TABLE {name}, then `anabranch rollback {deployment.id}`",
        )


def left_by(deployment: Deployment, seen: CatalogState) -> Mapping[TableName, str | None]:
    """What a promote made of each name; older ones noted nothing, but made few source tables."""
    undo = deployment.undo or Undo()
    if undo.left is not None:
        return undo.left
    made = snapshot_of(deployment.wanted).objects
    return {
        key.table: None
        for key in keys_of(deployment, Action.SWAP, Action.DROP)
        if key.table in undo.pointers
        and not (key in made and made[key].kind == "table")
        and definition(seen, key) == TABLE
    }


def _moved(deployment: Deployment, place: SchemaKey, now: SchemaVersion | None) -> str:
    if now is None:
        return f"schema {place} is no longer deployed"
    when = now.changed_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return (
        f"schema {place} moved since {deployment.id} was staged: {now.changed_by} deployed "
        f"{now.deployment_id or 'its previous state'} to it at {when}"
    )


def check_readers(
    c: Connection,
    deployment: Deployment,
    gone: Collection[TableName],
    suspended: Collection[TableName],
    suspend: Callable[[Connection, TableName, str], bool],
    *,
    rolling_back: bool = False,
) -> None:
    """What goes may not be read by anything that goes on; other deployments see to themselves.

    `suspend` lets a reader outside of the project be suspended, if somebody agreed to it.
    """
    missing = set(gone)
    suffixes = [f"__{each}" for each in deployments.open_ids(c)]
    for reader, reads in sorted(streams.dependencies(c).items()):
        staged = any(reader.namespace[-1].endswith(suffix) for suffix in suffixes)
        if reader in missing or staged or reader in suspended or not missing.intersection(reads):
            continue
        read = sorted(missing.intersection(reads))[0]
        if not _replaced(deployment, reader) and not suspend(
            c, reader, f"there is no table {read}"
        ):
            raise Refused(
                f"{reader} reads {read}, which {deployment.id} made and its roll-back drops"
                if rolling_back
                else f"{reader} reads {read}, which {deployment.id} drops",
                hint=f"DROP STREAM TABLE {reader}, or let it be suspended with --suspend-readers",
            )


def _replaced(deployment: Deployment, name: TableName) -> bool:
    """Does the deployment give the reader another definition?"""
    return any(step.action == "swap" and step.parts == name.parts for step in deployment.plan.steps)


def refuse_staged_readers(c: Connection, staged: Collection[TableName]) -> None:
    """Somebody may have made a stream table or a view over a staged one, which goes or is renamed."""
    gone = set(staged)
    for reader, reads in sorted(streams.dependencies(c).items()):
        _refuse_reader(reader, gone, reads, "STREAM TABLE")
    views = view_rows.all_views(c)
    there = {*cuts.newest(c), *views, *gone}  # inside the flip the pointers of those have gone
    for view, text in views.items():
        _refuse_reader(view, gone, reads_of(text, there), "VIEW")


def _refuse_reader(
    reader: TableName, gone: Collection[TableName], reads: Iterable[TableName], kind: str
) -> None:
    read = sorted(each for each in reads if each in gone)
    if read and reader not in gone:
        raise Refused(
            f"{reader} reads {read[0]}, which would be dropped", hint=f"DROP {kind} {reader}"
        )
