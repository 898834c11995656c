"""Spark's type text and field ids, to and from Spark's own types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import types as T

from anabranch.cache import cached
from anabranch.errors import InvalidValue, Unsupported
from anabranch.model import FILE_PATH_ID, POSITION_ID, Column, Columns
from anabranch.types import Field, Type

FIELD_ID = "parquet.field.id"

FILE = Column("_ab_file", "string", True, FILE_PATH_ID)
POSITION = Column("_ab_pos", "bigint", True, POSITION_ID)
WEIGHT = Column("_ab_w", "bigint", False)

_SIMPLE: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "tinyint": T.ByteType(),
    "smallint": T.ShortType(),
    "int": T.IntegerType(),
    "bigint": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "char": T.StringType(),  # Iceberg knows only string
    "varchar": T.StringType(),
    "binary": T.BinaryType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "timestamp_ntz": T.TimestampNTZType(),
    "void": T.NullType(),
}


@cached(4096)
def parse_type(text: str) -> T.DataType:
    """`array<struct<a:int>>` as Spark's own type; nothing is asked of a running Spark."""
    return to_spark(Type.parse(text))


def to_spark(type_: Type) -> T.DataType:
    match type_.name:
        case "decimal":
            return T.DecimalType(*type_.numbers)
        case "string":
            return T.StringType(type_.collation) if type_.collation else T.StringType()
        case "array":
            return T.ArrayType(to_spark(type_.fields[0].type))
        case "map":
            key, value = (to_spark(each.type) for each in type_.fields)
            return T.MapType(key, value)
        case "struct":
            fields = (
                T.StructField(each.name, to_spark(each.type), not each.required)
                for each in type_.fields
            )
            return T.StructType(list(fields))
    if type_.name not in _SIMPLE:
        raise InvalidValue(f"{type_} is not a column type", hint="CAST it to STRING")
    return _SIMPLE[type_.name]


def of_spark(type_: T.DataType) -> Type:
    """What Spark says of its own type; that a field inside is never NULL is left out."""
    if isinstance(type_, T.ArrayType):
        return Type.array(of_spark(type_.elementType))
    if isinstance(type_, T.MapType):
        return Type.map(of_spark(type_.keyType), of_spark(type_.valueType))
    if isinstance(type_, T.StructType):
        return Type.struct(*(Field(each.name, of_spark(each.dataType)) for each in type_))
    if isinstance(type_, (T.CharType, T.VarcharType)):
        return Type("string")
    if isinstance(type_, T.StringType):
        return Type("string", collation=type_.collation if is_collated(type_) else None)
    if isinstance(type_, T.DecimalType):
        return Type("decimal", (type_.precision, type_.scale))
    return Type(type_.simpleString())


def type_text(type_: T.DataType) -> str:
    """The text that `parse_type` reads; names inside structs are quoted where they must be."""
    return str(of_spark(type_))


@cached(4096)
def sql_type(text: str) -> str:
    """The type in SQL that means the same in every session: TIMESTAMP depends on a setting."""
    return of_spark(parse_type(text)).text("timestamp_ltz")


def struct(columns: Iterable[Column]) -> T.StructType:
    """Columns as a Spark schema that carries the field ids at every level."""
    return T.StructType([_field(column) for column in columns])


def _field(column: Column) -> T.StructField:
    type_ = with_ids(parse_type(column.type), column.nested)
    return T.StructField(column.name, type_, column.nullable, id_metadata(column.field_id))


def id_metadata(field_id: int) -> dict[str, int]:
    return {FIELD_ID: field_id} if field_id else {}


def with_ids(type_: T.DataType, ids: Mapping[str, int], path: str = "") -> T.DataType:
    """The type with ids on struct fields; Parquet lists and maps take none through Spark."""
    if isinstance(type_, T.ArrayType):
        element = with_ids(type_.elementType, ids, f"{path}element.")
        return T.ArrayType(element, type_.containsNull)
    if isinstance(type_, T.MapType):
        return T.MapType(
            with_ids(type_.keyType, ids, f"{path}key."),
            with_ids(type_.valueType, ids, f"{path}value."),
            type_.valueContainsNull,
        )
    if isinstance(type_, T.StructType):
        return T.StructType(
            [
                T.StructField(
                    field.name,
                    with_ids(field.dataType, ids, f"{path}{field.name}."),
                    field.nullable,
                    id_metadata(ids.get(path + field.name, 0)),
                )
                for field in type_
            ]
        )
    return type_


def columns_of(schema: T.StructType) -> Columns:
    """The columns of a Spark schema; ids are kept where the schema has them."""
    return tuple(
        Column(
            field.name,
            storable(field.name, field.dataType),
            field.nullable,
            (field.metadata or {}).get(FIELD_ID, 0),
        )
        for field in schema
    )


def storable(name: str, type_: T.DataType) -> str:
    """The type's text, or an error when no Iceberg table can hold it."""
    for part in parts(type_):
        if is_collated(part):
            raise Unsupported(
                f'column "{name}" has type {part.simpleString()}, which a table cannot hold',
                hint="CAST it to STRING: values are then compared byte by byte",
            )
        if isinstance(part, T.NullType):
            raise Unsupported(
                f'column "{name}" has no type: it is always NULL',
                hint="give it one, such as CAST(NULL AS STRING)",
            )
        if not isinstance(part, _STORABLE):
            raise Unsupported(
                f'column "{name}" has type {part.simpleString()}, which a table cannot hold',
                hint="cast it to another type",
            )
    return type_text(type_)


_STORABLE = (
    *{type(type_) for type_ in _SIMPLE.values() if not isinstance(type_, T.NullType)},
    T.DecimalType,
    T.CharType,
    T.VarcharType,
    T.ArrayType,
    T.MapType,
    T.StructType,
)


def is_collated(type_: T.DataType) -> bool:
    """A text that is compared otherwise than byte by byte.  Iceberg has no such type."""
    return isinstance(type_, T.StringType) and type_.collation != T.StringType().collation


def collated(schema: T.StructType) -> tuple[str, ...]:
    """The columns with a collation, at any depth."""
    return tuple(field.name for field in schema if any(map(is_collated, parts(field.dataType))))


def uncollated(type_: T.DataType) -> T.DataType:
    """The type as a table holds it: texts without their collation."""
    if isinstance(type_, T.StructType):
        fields = (
            T.StructField(each.name, uncollated(each.dataType), each.nullable, each.metadata)
            for each in type_
        )
        return T.StructType(list(fields))
    if isinstance(type_, T.ArrayType):
        return T.ArrayType(uncollated(type_.elementType), type_.containsNull)
    if isinstance(type_, T.MapType):
        key, value = uncollated(type_.keyType), uncollated(type_.valueType)
        return T.MapType(key, value, type_.valueContainsNull)
    return T.StringType() if is_collated(type_) else type_


def result_columns(schema: T.StructType) -> Columns:
    """The columns of a query as a table holds its result."""
    plain = uncollated(schema)
    assert isinstance(plain, T.StructType)
    return columns_of(plain)


def parts(type_: T.DataType) -> Iterable[T.DataType]:
    """The type and every type inside it."""
    yield type_
    if isinstance(type_, T.ArrayType):
        yield from parts(type_.elementType)
    elif isinstance(type_, T.MapType):
        yield from parts(type_.keyType)
        yield from parts(type_.valueType)
    elif isinstance(type_, T.StructType):
        for field in type_:
            yield from parts(field.dataType)


def is_complex(type_: T.DataType) -> bool:
    return isinstance(type_, (T.ArrayType, T.MapType, T.StructType))
