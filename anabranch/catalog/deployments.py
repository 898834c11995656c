"""Deployments, what is deployed, and how often each schema was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    Update,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from anabranch.catalog import cuts, stages, tables
from anabranch.catalog.deployment_state import (
    Base,
    Json,
    Notes,
    Planned,
    Row,
    SnapshotRecord,
    Undo,
)
from anabranch.catalog.deployment_state import Key as Key
from anabranch.catalog.remembered import known, once
from anabranch.catalog.tables import CHUNK

Place = tuple[str, str]  # database, schema
# The records are long, and many only ask whose an object is.
_OWNED = [column for column in tables.deployed.c if column.name != "record"]


class DeploymentStatus(str, Enum):
    STAGING = "STAGING"  # being built
    STAGED = "STAGED"  # built, kept fresh, invisible to production
    PROMOTED = "PROMOTED"
    ROLLED_BACK = "ROLLED_BACK"
    ABORTED = "ABORTED"


OPEN = (DeploymentStatus.STAGING, DeploymentStatus.STAGED)  # neither in place nor ended


@dataclass(frozen=True)
class Deployment:
    """`wanted` is the record of its objects, which the layer of deployments reads."""

    id: str
    project: str
    status: DeploymentStatus
    created_by: str
    host: str
    pid: int
    process_start: str
    plan: Planned
    wanted: SnapshotRecord = field(hash=False)
    base: Base
    notes: Notes = field(default_factory=Notes)
    undo: Undo | None = None
    created_at: datetime = field(default_factory=tables.now)
    staged_at: datetime | None = None
    finished_at: datetime | None = None
    cut_id: int | None = None
    expires_at: datetime | None = None

    def alive(self, now: datetime) -> bool:
        """Is a process at work that stages it?  It renews its lease, however long it takes."""
        owner = stages.StageRow(self.id, self.host, self.pid, self.process_start, now)
        return self.expires_at is not None and self.expires_at > now and stages.alive(owner, now)

    def owned_by(self, owner: stages.StageRow) -> bool:
        mine = (owner.host, owner.pid, owner.process_start)
        return (self.host, self.pid, self.process_start) == mine


@dataclass(frozen=True)
class SchemaVersion:
    """Who deployed to a schema last."""

    version: int
    deployment_id: str
    changed_by: str
    changed_at: datetime


@dataclass(frozen=True)
class Owner:
    """The project of an object; not `named`: the folder that it was deployed from."""

    project: str
    named: bool


def add(c: Connection, deployment: Deployment) -> None:
    values = {each.name: getattr(deployment, each.name) for each in fields(Deployment)}
    values |= {name: values[name].record() for name in ("plan", "base", "notes")}
    values["undo"] = None if deployment.undo is None else deployment.undo.record()
    values["created_at"] -= tables.ahead(c)  # by the clock that `finished_at` goes by
    c.execute(insert(tables.deployments).values(**values | {"status": deployment.status.value}))


def get(c: Connection, deployment_id: str) -> Deployment | None:
    table = tables.deployments
    row = c.execute(select(table).where(table.c.id == deployment_id)).mappings().one_or_none()
    return None if row is None else _deployment(row)


def listing(c: Connection) -> list[Deployment]:
    """Newest first."""
    table = tables.deployments
    rows = c.execute(select(table).order_by(table.c.created_at.desc(), table.c.id))
    return [_deployment(row) for row in rows.mappings()]


@once(tables.deployments)
def open_ids(c: Connection) -> frozenset[str]:
    """Deployments that are neither in place nor ended: their staging schemas are nobody's business."""
    table = tables.deployments
    rows = c.execute(select(table.c.id).where(table.c.status.in_([each.value for each in OPEN])))
    return frozenset(rows.scalars())


def move(
    c: Connection,
    deployment_id: str,
    before: Iterable[DeploymentStatus],
    after: DeploymentStatus,
    **values: Any,
) -> bool:
    """From one status to another; False when it is not where it should be."""
    table = tables.deployments
    here = (table.c.id == deployment_id) & table.c.status.in_([each.value for each in before])
    statement = update(table).where(here).values(status=after.value, **values)
    return c.execute(statement).rowcount == 1


def note(c: Connection, deployment_id: str, notes: Notes) -> None:
    table = tables.deployments
    c.execute(update(table).where(table.c.id == deployment_id).values(notes=notes.record()))


def own(c: Connection, deployment_id: str, owner: stages.StageRow, seconds: float) -> None:
    """A process stages it from now on, and holds its lease."""
    values = {"host": owner.host, "pid": owner.pid, "process_start": owner.process_start}
    table = tables.deployments
    until = tables.now(c) + timedelta(seconds=seconds)
    here = table.c.id == deployment_id
    c.execute(update(table).where(here).values(**values, expires_at=until))


def renew(c: Connection, deployment_id: str, owner: stages.StageRow, seconds: float) -> None:
    """Say that the owner lives; one that was given up for dead, and replaced, says nothing."""
    until = tables.now(c) + timedelta(seconds=seconds)
    c.execute(_owned(deployment_id, owner).values(expires_at=until))


def let_go(c: Connection, deployment_id: str, owner: stages.StageRow) -> None:
    """The owner is done, or has failed."""
    c.execute(_owned(deployment_id, owner).values(expires_at=None))


def _owned(deployment_id: str, owner: stages.StageRow) -> Update:
    table = tables.deployments
    return update(table).where(
        table.c.id == deployment_id,
        table.c.host == owner.host,
        table.c.pid == owner.pid,
        table.c.process_start == owner.process_start,
    )


@once(tables.deployed)
def _deployed(c: Connection) -> list[Row]:
    table = tables.deployed
    order = (table.c.database_name, table.c.schema_name, table.c.object_name)
    rows = c.execute(select(table).order_by(*order)).mappings()
    return [{str(key): value for key, value in row.items()} for row in rows]


def deployed(c: Connection) -> list[tuple[Key, str, Json]]:
    """Every deployed object: its key, its project and its record."""
    return [(key_of(row), row["project"], row["record"]) for row in _deployed(c)]


def owners(c: Connection) -> dict[Key, Owner]:
    """Whose every deployed object is."""
    rows = _short_records(c)
    return {key_of(row): Owner(row["project"], bool(row["named"])) for row in rows}


def deployed_by(c: Connection) -> dict[Key, str]:
    """Which deployment every object is from."""
    return {key_of(row): row["deployment_id"] for row in _short_records(c)}


def _short_records(c: Connection) -> Iterable[Mapping[Any, Any]]:
    found = known(c, _deployed)
    return _deployed_keys(c) if found is None else found


@once(tables.deployed)
def _deployed_keys(c: Connection) -> Sequence[Mapping[Any, Any]]:
    return c.execute(select(*_OWNED)).mappings().all()


def set_owner(c: Connection, keys: Iterable[Key], project: str) -> None:
    """Objects belong to a project from now on."""
    table = tables.deployed
    for database, schema, name in keys:
        here = (table.c.database_name == database) & (table.c.schema_name == schema)
        owned = {"project": project, "named": True}
        c.execute(update(table).where(here & (table.c.object_name == name)).values(**owned))


def rename_project(c: Connection, former: str, project: str) -> None:
    """Past deployments become those of the project: a roll-back returns objects to their owner."""
    table = tables.deployments
    c.execute(update(table).where(table.c.project == former).values(project=project))


def take_deployed(c: Connection, keys: Iterable[Key]) -> list[Row]:
    """The rows of some objects as they are."""
    wanted = set(keys)
    return [dict(row) for row in _deployed(c) if key_of(row) in wanted]


def put_deployed(c: Connection, keys: Iterable[Key], rows: Sequence[Row]) -> None:
    """Replace the rows of some objects."""
    table = tables.deployed
    gone = [{"b_database": key[0], "b_schema": key[1], "b_object": key[2]} for key in keys]
    if gone:
        here = _at_place(table) & (table.c.object_name == bindparam("b_object"))
        c.execute(delete(table).where(here), gone)
    if rows:
        c.execute(insert(table), [dict(row) for row in rows])


@once(tables.deployed_schemas)
def schema_versions(c: Connection) -> dict[Place, SchemaVersion]:
    rows = c.execute(select(tables.deployed_schemas))
    return {
        (row.database_name, row.schema_name): SchemaVersion(
            row.version, row.deployment_id, row.changed_by, row.changed_at
        )
        for row in rows
    }


def raise_versions(c: Connection, places: Iterable[Place], deployment_id: str, by: str) -> None:
    """Count the versions of schemas up, and say who did it."""
    hand_out_versions(c, dict.fromkeys(places, deployment_id), by)


def hand_out_versions(c: Connection, places: Mapping[Place, str], by: str) -> None:
    """Likewise, where they come from different deployments."""
    table, there = tables.deployed_schemas, schema_versions(c)
    facts = {"changed_by": by, "changed_at": tables.now()}
    raised = [
        {
            "b_database": place[0],
            "b_schema": place[1],
            "b_version": there[place].version + 1,
            "b_deployment": deployment_id,
        }
        for place, deployment_id in sorted(places.items())
        if place in there
    ]
    if raised:
        values: dict[str, Any] = {
            "version": bindparam("b_version"),
            "deployment_id": bindparam("b_deployment"),
        }
        c.execute(update(table).where(_at_place(table)).values(**values, **facts), raised)
    new = [
        {
            "database_name": place[0],
            "schema_name": place[1],
            "version": 1,
            "deployment_id": deployment_id,
            **facts,
        }
        for place, deployment_id in sorted(places.items())
        if place not in there
    ]
    if new:
        c.execute(insert(table), new)


def _at_place(table: Table) -> ColumnElement[bool]:
    return (table.c.database_name == bindparam("b_database")) & (
        table.c.schema_name == bindparam("b_schema")
    )


def forget_namespaces(c: Connection, catalog: str, namespaces: Iterable[str]) -> None:
    """Namespaces that hold no table any more end; their names are compared letter by letter."""
    table, spaces = tables.iceberg_tables, tables.iceberg_namespaces
    names = sorted(namespaces)
    held = select(table.c.table_name).where(
        table.c.catalog_name == catalog, table.c.table_namespace == spaces.c.namespace
    )
    for start in range(0, len(names), CHUNK):
        here = (spaces.c.catalog_name == catalog) & spaces.c.namespace.in_(
            names[start : start + CHUNK]
        )
        c.execute(delete(spaces).where(here, ~held.correlate(spaces).exists()))


def needed_snapshots(c: Connection) -> set[tuple[str, int]]:
    """(source, snapshot) that tables stand on which a roll-back may bring back."""
    return {
        (row["source"], row["snapshot_id"])
        for undo in _undos(c)
        for kind in ("inputs", "frontiers")
        for row in undo.rows[kind]
        if row["snapshot_id"]
    }


def kept_locations(c: Connection) -> set[str]:
    """Metadata files of tables that a roll-back may bring back."""
    return {at for undo in _undos(c) for at in undo.locations}


def undo_cuts(c: Connection) -> set[int]:
    """Cuts that show what a roll-back would bring back."""
    return cuts.last_shown(c, kept_locations(c))


def forget_undos(c: Connection) -> int:
    """Deployments that cannot be rolled back any more need not know how."""
    table = tables.deployments
    gone = [id_ for id_, _, whole in _promoted(c) if not whole]
    for id_ in gone:
        c.execute(update(table).where(table.c.id == id_).values(undo=None))
    return len(gone)


def forget(c: Connection, before: datetime) -> int:
    """Forget deployments that ended long ago, that nothing names and nobody can roll back."""
    table = tables.deployments
    named = {*c.execute(select(tables.deployed.c.deployment_id)).scalars()}
    named |= {*c.execute(select(tables.deployed_schemas.c.deployment_id)).scalars()}
    over = table.c.status.not_in([each.value for each in OPEN]) & (table.c.finished_at < before)
    rows = c.execute(select(table.c.id, table.c.undo).where(over))
    gone = [id_ for id_, undo in rows if not undo and id_ not in named]
    for id_ in gone:
        c.execute(delete(table).where(table.c.id == id_))
    return len(gone)


def _undos(c: Connection) -> Iterator[Undo]:
    return (undo for _, undo, whole in _promoted(c) if whole)


def _promoted(c: Connection) -> list[tuple[str, Undo, bool]]:
    """Id and undo of what is promoted, and whether some cut still shows all that a roll-back needs."""
    table = tables.deployments
    promoted = table.c.status == DeploymentStatus.PROMOTED.value
    known = set(c.execute(select(tables.versions.c.metadata_location)).scalars())
    rows = c.execute(select(table.c.id, table.c.undo).where(promoted, table.c.undo.is_not(None)))
    undos = [(id_, Undo.read(record)) for id_, record in rows if record]
    return [
        (id_, undo, all(at is None or at in known for at in undo.pointers.values()))
        for id_, undo in undos
    ]


def key_of(row: Mapping[Any, Any]) -> Key:
    return row["database_name"], row["schema_name"], row["object_name"]


def _deployment(row: Mapping[Any, Any]) -> Deployment:
    values = {str(key): value for key, value in row.items()}
    undo = values["undo"]
    return Deployment(
        **values
        | {
            "status": DeploymentStatus(values["status"]),
            "plan": Planned.read(values["plan"]),
            "base": Base.read(values["base"]),
            "notes": Notes.read(values["notes"]),
            "undo": Undo.read(undo) if undo else None,
        }
    )
