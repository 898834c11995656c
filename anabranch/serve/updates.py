"""Iceberg's updates of a table, as its REST protocol sends them: requirements, and what follows.

PyIceberg applies an update to metadata; what a client could not know is settled before: an id that
somebody else has taken meanwhile, `-1` for "the one that I have just added", and what is there already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar
from uuid import uuid4

from pydantic import Field
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, TableIdentifier
from pyiceberg.table.metadata import (
    TableMetadata,
    TableMetadataV1,
    TableMetadataV3,
    new_table_metadata,
)
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
    update_table_metadata,
)
from pyiceberg.typedef import IcebergBaseModel

from anabranch.lake.checksums import SEAL
from anabranch.names import TableName
from anabranch.serve.problems import (
    bad_request,
    commit_failed,
    no_table,
    of_the_request,
    plain,
    taken,
)
from anabranch.serve.routes import table_name

LAST_ADDED = -1
FORMAT_VERSION = "format-version"
T = TypeVar("T", Schema, PartitionSpec, SortOrder)


class NewTable(CreateTableRequest):
    """What the protocol lets a client leave out."""

    location: str | None = None
    partition_spec: PartitionSpec | None = Field(alias="partition-spec", default=None)
    write_order: SortOrder | None = Field(alias="write-order", default=None)


class Commit(CommitTableRequest):
    """The path names the table as well."""

    identifier: TableIdentifier | None = None  # type: ignore[assignment]


class Commits(IcebergBaseModel):
    table_changes: list[Commit] = Field(alias="table-changes")


class Rename(IcebergBaseModel):
    source: TableIdentifier
    destination: TableIdentifier


class Registration(IcebergBaseModel):
    name: str
    metadata_location: str = Field(alias="metadata-location")
    overwrite: bool = False


def named(identifier: TableIdentifier) -> TableName:
    return table_name(tuple(identifier.namespace.root), identifier.name)


def created(request: NewTable, location: str) -> TableMetadata:
    """The metadata of a new table; ids are given anew."""
    with of_the_request("this table cannot be made"):
        made = new_table_metadata(
            request.table_schema,
            request.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            request.write_order or UNSORTED_SORT_ORDER,
            location,
            dict(request.properties),
            uuid4(),
        )
        return _with_row_ids(_with_defaults(made, request.table_schema), None)


def applied(
    name: TableName,
    base: TableMetadata | None,
    requirements: Sequence[TableRequirement],
    updates: Sequence[TableUpdate],
) -> TableMetadata:
    """The metadata after a commit; refused if it was made for another version of the table."""
    creates = any(isinstance(each, AssertCreate) for each in requirements)
    if base is not None and creates:
        raise taken(f"Requirement failed: table already exists: {plain(name)}")
    if base is None and not creates:
        raise no_table(name)
    if base is not None:
        for each in requirements:
            _check(each, base)
    nothing = TableMetadataV1.model_construct(last_column_id=-1, schema=Schema())
    with of_the_request(f"{name} cannot be updated like this"):
        start, updates = _upgraded(base if base is not None else nothing, updates)
        made = update_table_metadata(
            start, tuple(_settled(start, updates)), enforce_validation=base is None
        )
        return _with_row_ids(made, base)


def _upgraded(
    base: TableMetadata, updates: Sequence[TableUpdate]
) -> tuple[TableMetadata, Sequence[TableUpdate]]:
    """An upgrade to version 3, which PyIceberg does not do by an update."""
    wanted = max(
        (each.format_version for each in updates if isinstance(each, UpgradeFormatVersionUpdate)),
        default=0,
    )
    if wanted != 3 or base.format_version == 3:
        return base, updates
    left = [each for each in updates if not isinstance(each, UpgradeFormatVersionUpdate)]
    facts = {**dict(base), "format_version": 3}
    return TableMetadataV3.model_construct(**facts), left


def _with_defaults(made: TableMetadata, wanted: Schema) -> TableMetadata:
    """Default values of columns, which PyIceberg leaves behind when it gives new ids."""
    (schema,) = made.schemas
    fields = [
        new.model_copy(
            update={"initial_default": old.initial_default, "write_default": old.write_default}
        )
        for new, old in zip(schema.fields, wanted.fields, strict=True)
    ]
    if tuple(fields) == tuple(schema.fields):
        return made
    given = Schema(
        *fields,
        schema_id=schema.schema_id,
        identifier_field_ids=schema.identifier_field_ids,
    )
    return made.model_copy(update={"schemas": [given]})


def _with_row_ids(made: TableMetadata, base: TableMetadata | None) -> TableMetadata:
    """Version 3 counts rows from 0; a snapshot that adds none leaves the count as it is."""
    if made.format_version < 3 or getattr(made, "next_row_id", None) is not None:
        return made
    return made.model_copy(update={"next_row_id": getattr(base, "next_row_id", None) or 0})


# -- requirements ------------------------------------------------------------------------------


def _check(requirement: TableRequirement, base: TableMetadata) -> None:
    """In the words of Iceberg's own server, which its clients show."""
    match requirement:
        case AssertTableUUID():
            _same("UUID does not match", requirement.uuid, base.table_uuid)
        case AssertRefSnapshotId():
            _check_ref(requirement, base)
        case AssertLastAssignedFieldId():
            wanted = requirement.last_assigned_field_id
            _same("last assigned field id changed", wanted, base.last_column_id)
        case AssertCurrentSchemaId():
            _same("current schema changed", requirement.current_schema_id, base.current_schema_id)
        case AssertLastAssignedPartitionId():
            wanted_id = requirement.last_assigned_partition_id
            _same("last assigned partition id changed", wanted_id, base.last_partition_id)
        case AssertDefaultSpecId():
            wanted = requirement.default_spec_id
            _same("default partition spec changed", wanted, base.default_spec_id)
        case AssertDefaultSortOrderId():
            wanted = requirement.default_sort_order_id
            _same("default sort order changed", wanted, base.default_sort_order_id)


def _same(said: str, wanted: object, found: object) -> None:
    if wanted != found:
        raise commit_failed(f"Requirement failed: {said}: expected id {wanted} != {found}")


def _check_ref(requirement: AssertRefSnapshotId, base: TableMetadata) -> None:
    ref, wanted = base.refs.get(requirement.ref), requirement.snapshot_id
    if ref is None:
        if wanted is not None:
            raise commit_failed(
                f"Requirement failed: branch or tag {requirement.ref} is missing, expected {wanted}"
            )
        return
    kind = ref.snapshot_ref_type.value
    if wanted is None:
        raise commit_failed(
            f"Requirement failed: {kind} {requirement.ref} was created concurrently"
        )
    if wanted != ref.snapshot_id:
        raise commit_failed(
            f"Requirement failed: {kind} {requirement.ref} has changed: "
            f"expected id {wanted} != {ref.snapshot_id}"
        )


# -- updates -----------------------------------------------------------------------------------


def _settled(base: TableMetadata, updates: Sequence[TableUpdate]) -> list[TableUpdate]:
    """The updates with the ids that they have here, and without what is so already."""
    schemas = _Ids({each.schema_id: each for each in base.schemas}, _schema_key, first=0)
    specs = _Ids({each.spec_id: each for each in base.partition_specs}, _spec_key, first=0)
    orders = _Ids({each.order_id: each for each in base.sort_orders}, _order_key, first=1)
    properties = {*base.properties}
    found: list[TableUpdate] = []
    for update in updates:
        match update:
            case AddSchemaUpdate(schema_=schema):
                if (made := schemas.add(schema, schema.schema_id)) is not None:
                    given = schema.model_copy(update={"schema_id": made})
                    found.append(update.model_copy(update={"schema_": given}))
            case SetCurrentSchemaUpdate(schema_id=id_):
                chosen = schemas.resolve(id_, "schema")
                found.append(update.model_copy(update={"schema_id": chosen}))
            case AddPartitionSpecUpdate(spec=spec):
                if (made := specs.add(spec, spec.spec_id)) is not None:
                    found.append(AddPartitionSpecUpdate(spec=_numbered(base, spec, made)))
            case SetDefaultSpecUpdate(spec_id=id_):
                chosen = specs.resolve(id_, "partition spec")
                found.append(update.model_copy(update={"spec_id": chosen}))
            case AddSortOrderUpdate(sort_order=order):
                unsorted = not order.fields
                if (made := orders.add(order, 0 if unsorted else order.order_id)) is not None:
                    given_order = SortOrder(order_id=made, fields=list(order.fields))
                    found.append(update.model_copy(update={"sort_order": given_order}))
            case SetDefaultSortOrderUpdate(sort_order_id=id_):
                chosen = orders.resolve(id_, "sort order")
                found.append(update.model_copy(update={"sort_order_id": chosen}))
            case RemovePropertiesUpdate(removals=keys):
                there = [key for key in keys if key in properties and key != SEAL]
                properties.difference_update(there)
                found.append(RemovePropertiesUpdate(removals=there))
            case SetPropertiesUpdate(updates=values):
                given_values = {k: v for k, v in values.items() if k not in (SEAL, FORMAT_VERSION)}
                properties.update(given_values)
                found.append(SetPropertiesUpdate(updates=given_values))
            case RemoveSnapshotsUpdate(snapshot_ids=ids):
                listed = {each.snapshot_id for each in base.snapshots}
                chosen_ids = [each for each in ids if each in listed]
                found.append(update.model_copy(update={"snapshot_ids": chosen_ids}))
            case AddSnapshotUpdate():
                _check_sequence(update, base)
                found.append(update)
            case SetLocationUpdate(location=location):
                found.append(SetLocationUpdate(location=location.rstrip("/")))
            case _:
                found.append(update)
    return found


class _Ids:
    """Schemas, specs or sort orders by id: those that are there and those that a client adds."""

    def __init__(self, known: Mapping[int, T], key: object, *, first: int) -> None:
        self._key = key
        self._known = {id_: key(each) for id_, each in known.items()}  # type: ignore[operator]
        self._first = first
        self._last: int | None = None
        self._given: dict[int, int] = {}  # by the id that the client thinks it has

    def add(self, thing: T, wanted: int) -> int | None:
        """The id for a new one; None if an equal one is there."""
        key = self._key(thing)  # type: ignore[operator]
        same = next((id_ for id_, each in self._known.items() if each == key), None)
        made = same
        if made is None:
            free = wanted not in self._known and wanted >= 0
            made = wanted if free else max((*self._known, self._first - 1)) + 1
            self._known[made] = key
        self._last = self._given[wanted] = made
        return None if same is not None else made

    def resolve(self, id_: int, what: str) -> int:
        if id_ == LAST_ADDED:
            if self._last is None:
                raise bad_request(f"Cannot set last added {what}: no {what} has been added")
            return self._last
        return self._given.get(id_, id_)


def _schema_key(schema: Schema) -> object:
    return schema.as_struct(), tuple(schema.identifier_field_ids)


def _spec_key(spec: PartitionSpec) -> object:
    return tuple((each.source_id, str(each.transform), each.name) for each in spec.fields)


def _order_key(order: SortOrder) -> object:
    return tuple(
        (each.source_id, str(each.transform), each.direction, each.null_order)
        for each in order.fields
    )


def _numbered(base: TableMetadata, spec: PartitionSpec, spec_id: int) -> PartitionSpec:
    """A field that an older spec has keeps its id, and no id stands for two fields."""
    known = {
        (each.source_id, str(each.transform)): each.field_id
        for older in base.partition_specs
        for each in older.fields
    }
    used, last = set(known.values()), max((base.last_partition_id or 999, *known.values()))
    fields = []
    for each in spec.fields:
        id_ = known.get((each.source_id, str(each.transform)), each.field_id)
        if (
            id_ == each.field_id
            and id_ in used
            and (each.source_id, str(each.transform)) not in known
        ):
            last += 1
            id_ = last
        used.add(id_)
        fields.append(each.model_copy(update={"field_id": id_}))
    return PartitionSpec(*fields, spec_id=spec_id)


def _check_sequence(update: AddSnapshotUpdate, base: TableMetadata) -> None:
    """Somebody has committed to another branch meanwhile: the client must build its snapshot again."""
    snapshot = update.snapshot
    last = getattr(base, "last_sequence_number", None)  # version 1 has none
    if last is None or snapshot.sequence_number is None:
        return
    if snapshot.parent_snapshot_id is not None and snapshot.sequence_number <= last:
        raise commit_failed(
            f"Cannot add snapshot with sequence number {snapshot.sequence_number} older than last "
            f"sequence number {last}"
        )
    first, next_row = snapshot.first_row_id, getattr(base, "next_row_id", None)
    if first is not None and next_row is not None and first < next_row:
        raise commit_failed(
            f"Cannot add a snapshot with first-row-id {first} behind next-row-id {next_row}"
        )
