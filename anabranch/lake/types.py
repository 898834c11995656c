"""Spark's DDL type text and Iceberg's types.

Iceberg knows fewer types than Spark: tinyint and smallint become int, char and varchar become
string.  Spark's timestamp is an instant (timestamptz), timestamp_ntz is not (timestamp).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from anabranch.errors import InvalidValue, Unsupported
from anabranch.model import Column, Columns
from anabranch.names import shown
from anabranch.types import Field, Type

_SIMPLE: dict[str, Callable[[], IcebergType]] = {
    "boolean": BooleanType,
    "tinyint": IntegerType,
    "smallint": IntegerType,
    "int": IntegerType,
    "bigint": LongType,
    "float": FloatType,
    "double": DoubleType,
    "date": DateType,
    "timestamp": TimestamptzType,
    "timestamp_ntz": TimestampType,
    "string": StringType,
    "char": StringType,
    "varchar": StringType,
    "binary": BinaryType,
}
_TEXT: dict[type[IcebergType], str] = {
    BooleanType: "boolean",
    IntegerType: "int",
    LongType: "bigint",
    FloatType: "float",
    DoubleType: "double",
    DateType: "date",
    TimestamptzType: "timestamp",
    TimestampType: "timestamp_ntz",
    StringType: "string",
    BinaryType: "binary",
    FixedType: "binary",
}
_WIDER = {(IntegerType, LongType), (FloatType, DoubleType)}
_CURES = {
    "interval": "store the number of seconds, days or months instead",
    "variant": "store the text: CAST(... AS STRING) or to_json(...)",
    "void": "give NULL a type: CAST(NULL AS STRING)",
    "struct": "give the struct a field, or leave the column out",
    "time": "store the text or the number of seconds instead",
}


def to_iceberg(type_text: str, column: str = "", ids: Iterator[int] | None = None) -> IcebergType:
    """Read DDL type text such as `array<struct<a: int, b: string>>`; fields get ids from `ids`."""
    try:
        found = Type.parse(type_text)
    except InvalidValue as error:
        where = f"column {shown(column)}: " if column else ""
        raise InvalidValue(f"{where}{error.message}", hint=error.hint) from None
    if (part := found.unstorable) is not None:
        raise _unstorable(found, part, column)
    return _iceberg(found, ids or iter(range(1, 1 << 30)))


def _iceberg(type_: Type, ids: Iterator[int]) -> IcebergType:
    match type_.name:
        case "decimal":
            return DecimalType(*type_.numbers)
        case "array":
            return ListType(next(ids), _iceberg(type_.fields[0].type, ids), element_required=False)
        case "map":
            key_id, value_id = next(ids), next(ids)
            key, value = (_iceberg(each.type, ids) for each in type_.fields)
            return MapType(key_id, key, value_id, value, value_required=False)
        case "struct":
            return StructType(*(_iceberg_field(each, ids) for each in type_.fields))
    return _SIMPLE[type_.name]()


def _iceberg_field(field: Field, ids: Iterator[int]) -> NestedField:
    field_id = next(ids)
    return NestedField(field_id, field.name, _iceberg(field.type, ids), required=field.required)


def _unstorable(type_: Type, part: Type, column: str) -> Unsupported:
    what = f"column {shown(column)} has type {type_}, which Iceberg cannot store"
    cure = _CURES.get(part.name.split(" ")[0], "cast it to a type of Iceberg, such as string")
    return Unsupported(what if column else f"type {type_} is not supported", hint=cure)


def to_text(kind: IcebergType, column: str = "") -> str:
    """Spark's DDL text of an Iceberg type; inverse of `to_iceberg` up to ids."""
    if isinstance(kind, DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    if isinstance(kind, ListType):
        return f"array<{to_text(kind.element_type, column)}>"
    if isinstance(kind, MapType):
        return f"map<{to_text(kind.key_type, column)},{to_text(kind.value_type, column)}>"
    if isinstance(kind, StructType):
        return f"struct<{','.join(_field_text(each, column) for each in kind.fields)}>"
    if type(kind) not in _TEXT:
        raise Unsupported(
            f"column {shown(column)} has Iceberg type {kind}, which Spark cannot read from Parquet",
            hint="drop the column or store it as string",
        )
    return _TEXT[type(kind)]


def holds(old: str, new: str) -> bool:
    """Whether every value of one type is a value of the other; a struct may have more fields."""
    return old == new or _holds(to_iceberg(old), to_iceberg(new))


def _holds(old: IcebergType, new: IcebergType) -> bool:
    match old, new:
        case DecimalType(), DecimalType():
            whole = (kind.precision - kind.scale for kind in (new, old))
            return new.scale >= old.scale and next(whole) >= next(whole)
        case ListType(), ListType():
            return _holds(old.element_type, new.element_type)
        case MapType(), MapType():
            return _holds(old.key_type, new.key_type) and _holds(old.value_type, new.value_type)
        case StructType(), StructType():
            fields = {each.name: each.field_type for each in new.fields}
            return all(
                each.name in fields and _holds(each.field_type, fields[each.name])
                for each in old.fields
            )
    return (type(old), type(new)) in _WIDER or to_text(old) == to_text(new)


def columns_of(struct: StructType) -> Columns:
    """Fields of a schema as columns with their ids."""
    return tuple(
        Column(
            each.name,
            to_text(each.field_type, each.name),
            not each.required,
            each.field_id,
            dict(_nested(each.field_type, "")),
        )
        for each in struct.fields
    )


def field_of(column: Column, ids: Iterator[int]) -> NestedField:
    """A column as an Iceberg field; ids come from `ids`, the column's own first."""
    field_id = next(ids)
    return NestedField(
        field_id,
        column.name,
        to_iceberg(column.type, column.name, ids),
        required=not column.nullable,
    )


def _field_text(each: NestedField, column: str) -> str:
    needed = " NOT NULL" if each.required else ""
    return f"{shown(each.name)}:{to_text(each.field_type, column)}{needed}"


def _nested(kind: IcebergType, prefix: str) -> Iterator[tuple[str, int]]:
    inner: Mapping[str, tuple[int, IcebergType]] = {}
    if isinstance(kind, ListType):
        inner = {"element": (kind.element_id, kind.element_type)}
    elif isinstance(kind, MapType):
        inner = {"key": (kind.key_id, kind.key_type), "value": (kind.value_id, kind.value_type)}
    elif isinstance(kind, StructType):
        inner = {each.name: (each.field_id, each.field_type) for each in kind.fields}
    for name, (field_id, below) in inner.items():
        yield prefix + name, field_id
        yield from _nested(below, f"{prefix}{name}.")
