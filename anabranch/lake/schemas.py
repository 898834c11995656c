"""Schemas: from columns, and how they may change."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate, update_table_metadata
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)

from anabranch.errors import AlreadyExists, InvalidValue, UnknownName, Unsupported
from anabranch.lake.types import field_of, to_iceberg, to_text
from anabranch.model import FILE_PATH_ID, POSITION_ID, Column, Columns
from anabranch.names import RESERVED_PREFIX, TableName, fold, shown

NAME_MAPPING = "schema.name-mapping.default"


@dataclass(frozen=True)
class AddColumn:
    column: Column
    comment: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropColumn:
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    name: str
    to: str


@dataclass(frozen=True)
class WidenColumn:
    """int to bigint, float to double, a decimal of more digits; also inside arrays, maps and structs,
    where a struct may have more fields too."""

    name: str
    type: str


@dataclass(frozen=True)
class AllowNull:
    name: str


MARKS = {"file_path": FILE_PATH_ID, "pos": POSITION_ID}  # columns of position delete files

SchemaChange = AddColumn | DropColumn | RenameColumn | WidenColumn | AllowNull


def schema_of(columns: Columns) -> Schema:
    """A schema for a new table."""
    check_names([column.name for column in columns])
    ids = itertools.count(1)
    return _schema([field_of(column, ids) for column in columns], 0, [])


def _schema(fields: Sequence[NestedField], schema_id: int, identifiers: list[int]) -> Schema:
    try:
        return Schema(*fields, schema_id=schema_id, identifier_field_ids=identifiers)
    except ValueError as error:  # a column `a.b` beside a struct `a` with a field `b`
        raise InvalidValue(str(error), hint="give one of the columns another name") from error


def check_names(names: Sequence[str]) -> None:
    if not names:
        raise InvalidValue("a table needs at least one column")
    seen: set[str] = set()
    for name in names:
        if not name:
            raise InvalidValue("a column has no name", hint="give it one with AS")
        if name.lower().startswith(RESERVED_PREFIX):
            raise InvalidValue(
                f"column {shown(name)}: names that start with {RESERVED_PREFIX} are reserved",
                hint="give it another name with AS",
            )
        if fold(name) in seen:
            raise InvalidValue(
                f"there are two columns {shown(name)}", hint="give one another name with AS"
            )
        seen.add(fold(name))


def altered(
    metadata: TableMetadata, table: TableName, changes: Iterable[SchemaChange]
) -> TableMetadata:
    """Metadata with a changed schema; files stay as they are, fields are found by id."""
    fields = list(metadata.schema().fields)
    ids = itertools.count(metadata.last_column_id + 1)
    empty = metadata.current_snapshot_id is None
    for change in changes:
        if _is_done(fields, change):
            continue
        if isinstance(change, AddColumn):
            fields.append(_added(table, fields, change, ids, empty))
        else:
            at = find_field(table, fields, change.name)
            fields[at : at + 1] = _changed(table, fields, fields[at], change, ids)
    if fields == list(metadata.schema().fields):
        return metadata
    check_names([each.name for each in fields])
    updated = with_fields(metadata, fields)
    if not empty and has_nested(updated.schema()):
        _check_names_are_unique_in_time(updated, table)
    return updated


def _is_done(fields: Sequence[NestedField], change: SchemaChange) -> bool:
    """Whether IF [NOT] EXISTS leaves nothing to do."""
    names = {each.name.lower() for each in fields}
    if isinstance(change, AddColumn):
        return change.if_not_exists and change.column.name.lower() in names
    return isinstance(change, DropColumn) and change.if_exists and change.name.lower() not in names


def with_columns(metadata: TableMetadata, columns: Columns) -> TableMetadata:
    """Metadata with other columns altogether; those of the same name and type, or of a type that is
    only wider, keep their ids, and all of the same name their comments."""
    check_names([column.name for column in columns])
    known = {each.name.lower(): each for each in metadata.schema().fields}
    ids = itertools.count(metadata.last_column_id + 1)
    fields = []
    for column in columns:
        old = known.get(column.name.lower())
        wide = widened(old.field_type, to_iceberg(column.type), ids) if old is not None else None
        if old is not None and wide is not None:
            changed = {
                "name": column.name,
                "required": not column.nullable,
                "field_type": wide,
            }
            fields.append(old.model_copy(update=changed))
        else:
            made = field_of(column, ids)
            fields.append(made.model_copy(update={"doc": old.doc}) if old else made)
    return with_fields(metadata, fields)


def with_fields(metadata: TableMetadata, fields: Sequence[NestedField]) -> TableMetadata:
    kept = {each.field_id for each in fields}
    identifiers = [each for each in metadata.schema().identifier_field_ids if each in kept]
    next_id = max(each.schema_id for each in metadata.schemas) + 1
    new = _schema(fields, next_id, identifiers)
    return update_table_metadata(metadata, (AddSchemaUpdate(schema=new), SetCurrentSchemaUpdate()))


def _added(
    table: TableName,
    fields: Sequence[NestedField],
    change: AddColumn,
    ids: Iterable[int],
    empty: bool,
) -> NestedField:
    column = change.column
    if any(each.name.lower() == column.name.lower() for each in fields):
        raise AlreadyExists(f"table {table} already has a column {shown(column.name)}")
    if not column.nullable and not empty:
        raise InvalidValue(
            f"column {shown(column.name)} cannot be NOT NULL: table {table} already has rows",
            hint="add it as nullable",
        )
    return field_of(column, iter(ids)).model_copy(update={"doc": change.comment})


def _changed(
    table: TableName,
    fields: Sequence[NestedField],
    field: NestedField,
    change: SchemaChange,
    ids: Iterator[int],
) -> list[NestedField]:
    if isinstance(change, DropColumn):
        if len(fields) == 1:
            raise InvalidValue(f"{shown(field.name)} is the only column of table {table}")
        return []
    if isinstance(change, RenameColumn):
        taken = (each for each in fields if each.field_id != field.field_id)
        if any(each.name.lower() == change.to.lower() for each in taken):
            raise AlreadyExists(f"table {table} already has a column {shown(change.to)}")
        return [field.model_copy(update={"name": change.to})]
    if isinstance(change, WidenColumn):
        wide = widened(field.field_type, to_iceberg(change.type, field.name), ids)
        if wide is None:
            raise Unsupported(
                f"column {shown(field.name)} of {table} cannot change from "
                f"{to_text(field.field_type)} to {change.type}",
                hint="int may become bigint, float double, a decimal more digits, also inside "
                "arrays, maps and structs; otherwise add a column",
            )
        return [field.model_copy(update={"field_type": wide})]
    return [field.model_copy(update={"required": False})]


def widened(old: IcebergType, new: IcebergType, ids: Iterator[int]) -> IcebergType | None:
    """The new type with the ids of the old one, if files of the old one can be read as it.

    Fields that a struct has not had get ids from `ids`; in the key of a map there may be none.
    """
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return new if old.scale == new.scale and old.precision <= new.precision else None
    if isinstance(old, ListType) and isinstance(new, ListType):
        element = widened(old.element_type, new.element_type, ids)
        return element and ListType(old.element_id, element, element_required=old.element_required)
    if isinstance(old, MapType) and isinstance(new, MapType):
        key = widened(old.key_type, new.key_type, iter(()))
        value = widened(old.value_type, new.value_type, ids)
        if key is None or value is None:
            return None
        return MapType(old.key_id, key, old.value_id, value, value_required=old.value_required)
    if isinstance(old, StructType) and isinstance(new, StructType):
        return _widened_struct(old, new, ids)
    pairs = ((IntegerType, LongType), (FloatType, DoubleType))
    wider = any(isinstance(old, a) and isinstance(new, b) for a, b in pairs)
    return new if wider or to_text(old) == to_text(new) else None


def _widened_struct(old: StructType, new: StructType, ids: Iterator[int]) -> StructType | None:
    known = {each.name.lower(): each for each in old.fields}
    fields: list[NestedField] = []
    for each in new.fields:
        before = known.pop(each.name.lower(), None)
        if before is None:
            field_id = next(ids, None)
            if field_id is None:
                return None
            kind = to_iceberg(to_text(each.field_type), each.name, ids)
            fields.append(NestedField(field_id, each.name, kind, required=False))
            continue
        wide = widened(before.field_type, each.field_type, ids)
        if wide is None:
            return None
        fields.append(before.model_copy(update={"name": each.name, "field_type": wide}))
    return None if known else StructType(*fields)


def find_field(table: TableName, fields: Sequence[NestedField], name: str) -> int:
    exact = [at for at, each in enumerate(fields) if each.name == name]
    alike = [at for at, each in enumerate(fields) if each.name.lower() == name.lower()]
    found = exact or alike
    if len(found) != 1:
        names = [each.name for each in fields]
        raise UnknownName(f"table {table} has no column {shown(name)}", name=name, known=names)
    return found[0]


def has_nested(schema: Schema) -> bool:
    return any(
        isinstance(each.field_type, (ListType, MapType, StructType)) for each in schema.fields
    )


def name_mapping(metadata: TableMetadata, hidden: Columns) -> str | None:
    """Names of all fields that files may hold, for tables with nested columns.

    Spark gives no ids to elements, keys and values, and a reader that misses one id in a file goes
    by names for the whole of it, hidden columns included.
    """
    if not has_nested(metadata.schema()) and not any("<" in each.type for each in hidden):
        return None
    history = [*metadata.schemas, metadata.schema()]  # old files hold old names
    owners = {each.name: each.field_id for schema in history for each in schema.fields}
    mapped: dict[int, MappedField] = {}
    for schema in history:
        for each in schema.fields:
            names = [_in_files(name) for name, owner in owners.items() if owner == each.field_id]
            if not names:
                continue
            inner = _mapped_inside(each.field_type)
            mapped[each.field_id] = _mapped(each.field_id, names, inner)
    own = _mapped_hidden(hidden)
    own += [_mapped(field_id, [name], []) for name, field_id in MARKS.items()]
    return NameMapping([*mapped.values(), *own]).model_dump_json()


def _mapped_hidden(hidden: Columns) -> list[MappedField]:
    """What lies inside of hidden columns has no ids in files, and any here."""
    ids = itertools.count(max((each.field_id for each in hidden), default=0) + 1)
    return [
        _mapped(
            each.field_id,
            [each.name],
            _mapped_inside(to_iceberg(each.type, each.name, ids)) if "<" in each.type else [],
        )
        for each in hidden
    ]


def _in_files(name: str) -> str:
    """Our files may also be delete files, whose own columns have the right to their names."""
    return f"{RESERVED_PREFIX}user_{name.lower()}" if name.lower() in MARKS else name


def _mapped(field_id: int, names: list[str], inner: list[MappedField]) -> MappedField:
    return MappedField.model_validate({"field-id": field_id, "names": names, "fields": inner})


def _mapped_inside(kind: IcebergType) -> list[MappedField]:
    inner: list[tuple[int, str, IcebergType]] = []
    if isinstance(kind, ListType):
        inner = [(kind.element_id, "element", kind.element_type)]
    elif isinstance(kind, MapType):
        inner = [(kind.key_id, "key", kind.key_type), (kind.value_id, "value", kind.value_type)]
    elif isinstance(kind, StructType):
        inner = [(each.field_id, each.name, each.field_type) for each in kind.fields]
    return [_mapped(field_id, [name], _mapped_inside(below)) for field_id, name, below in inner]


def _check_names_are_unique_in_time(metadata: TableMetadata, table: TableName) -> None:
    owners: dict[str, int] = {}
    for schema in metadata.schemas:
        for each in schema.fields:
            if owners.setdefault(each.name, each.field_id) != each.field_id:
                raise Unsupported(
                    f"table {table} had another column {shown(each.name)} before; "
                    "with nested columns, readers could confuse the two",
                    hint="use a name that was never used in this table",
                )
