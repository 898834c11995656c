"""Spark's type text and field ids, to and from Spark's own types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pyspark.sql import types as T

from anabranch.cache import cached
from anabranch.errors import InvalidValue, Unsupported
from anabranch.model import FILE_PATH_ID, POSITION_ID, Column, Columns
from anabranch.names import quote

FIELD_ID = "parquet.field.id"

FILE = Column("_ab_file", "string", True, FILE_PATH_ID)
POSITION = Column("_ab_pos", "bigint", True, POSITION_ID)
WEIGHT = Column("_ab_w", "bigint", False)

_SIMPLE: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "tinyint": T.ByteType(),
    "byte": T.ByteType(),
    "smallint": T.ShortType(),
    "short": T.ShortType(),
    "int": T.IntegerType(),
    "integer": T.IntegerType(),
    "bigint": T.LongType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "real": T.FloatType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "binary": T.BinaryType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "timestamp_ltz": T.TimestampType(),
    "timestamp_ntz": T.TimestampNTZType(),
    "void": T.NullType(),
}
_DECIMALS = frozenset({"decimal", "dec", "numeric"})
_STRINGS = frozenset({"char", "character", "varchar"})  # Iceberg knows only string

_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)*`)|(?P<word>\w+)|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<sign>[<>(),:]))"
)


class _Reader:
    """A cursor over the tokens of a type text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.wrong()
            self.tokens.append(match.group().strip())
            at = match.end()
        self.at = 0

    def wrong(self) -> InvalidValue:
        return InvalidValue(
            f'"{self.text}" is not a type', hint="a valid type is decimal(12,2) or array<string>"
        )

    def peek(self) -> str:
        return self.tokens[self.at].lower() if self.at < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        if self.at >= len(self.tokens) or (expected is not None and self.peek() != expected):
            raise self.wrong()
        self.at += 1
        return self.tokens[self.at - 1]

    def numbers(self) -> list[int]:
        if self.peek() != "(":
            return []
        self.take("(")
        found = [self.number()]
        while self.peek() == ",":
            self.take(",")
            found.append(self.number())
        self.take(")")
        return found

    def number(self) -> int:
        word = self.take()
        if not word.isdigit():
            raise self.wrong()
        return int(word)

    def type(self) -> T.DataType:
        word = self.take().lower()
        if word == "array":
            self.take("<")
            element = self.type()
            self.take(">")
            return T.ArrayType(element)
        if word == "map":
            self.take("<")
            key = self.type()
            self.take(",")
            value = self.type()
            self.take(">")
            return T.MapType(key, value)
        if word == "struct":
            return T.StructType(self.fields())
        return self.simple(word)

    def simple(self, word: str) -> T.DataType:
        numbers = self.numbers()
        if word in _DECIMALS:
            precision, scale = (*numbers, *((10, 0)[len(numbers) :]))
            return T.DecimalType(precision, scale)
        if word in _STRINGS and len(numbers) == 1:
            return T.StringType()
        if word not in _SIMPLE or numbers:
            raise self.wrong()
        return _SIMPLE[word]

    def fields(self) -> list[T.StructField]:
        found: list[T.StructField] = []
        self.take("<")
        while self.peek() != ">":
            name = self.take()
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            if self.peek() == ":":
                self.take(":")
            type_ = self.type()
            nullable = True
            if self.peek() == "not":
                self.take("not")
                self.take("null")
                nullable = False
            if self.peek() == "comment":
                self.take("comment")
                self.take()
            found.append(T.StructField(name, type_, nullable))
            if self.peek() != ">":
                self.take(",")
        self.take(">")
        return found


@cached(4096)
def parse_type(text: str) -> T.DataType:
    """`array<struct<a:int>>` as Spark's own type; nothing is asked of a running Spark."""
    reader = _Reader(text)
    found = reader.type()
    if reader.peek():
        raise reader.wrong()
    return found


def type_text(type_: T.DataType) -> str:
    """The text that `parse_type` reads; names inside structs are quoted where they must be."""
    return _text(type_, "timestamp")


@cached(4096)
def sql_type(text: str) -> str:
    """The type in SQL that means the same in every session: TIMESTAMP depends on a setting."""
    return _text(parse_type(text), "timestamp_ltz")


def _text(type_: T.DataType, timestamp: str) -> str:
    if isinstance(type_, T.ArrayType):
        return f"array<{_text(type_.elementType, timestamp)}>"
    if isinstance(type_, T.MapType):
        return f"map<{_text(type_.keyType, timestamp)},{_text(type_.valueType, timestamp)}>"
    if isinstance(type_, T.StructType):
        fields = (
            f"{_field_name(field.name)}:{_text(field.dataType, timestamp)}" for field in type_
        )
        return f"struct<{','.join(fields)}>"
    if isinstance(type_, T.StringType) and is_collated(type_):
        return f"string collate {type_.collation}"
    if isinstance(type_, (T.CharType, T.VarcharType, T.StringType)):
        return "string"
    return timestamp if isinstance(type_, T.TimestampType) else type_.simpleString()


def _field_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else quote(name)


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
