"""Spark's DDL type text and Iceberg's types.

Iceberg knows fewer types than Spark: tinyint and smallint become int, char and varchar become
string.  Spark's timestamp is an instant (timestamptz), timestamp_ntz is not (timestamp).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

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

_SIMPLE: dict[str, Callable[[], IcebergType]] = {
    "boolean": BooleanType,
    "tinyint": IntegerType,
    "byte": IntegerType,
    "smallint": IntegerType,
    "short": IntegerType,
    "int": IntegerType,
    "integer": IntegerType,
    "bigint": LongType,
    "long": LongType,
    "float": FloatType,
    "real": FloatType,
    "double": DoubleType,
    "date": DateType,
    "timestamp": TimestamptzType,
    "timestamp_ltz": TimestamptzType,
    "timestamp_ntz": TimestampType,
    "string": StringType,
    "char": StringType,
    "character": StringType,
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
    "null": "give NULL a type: CAST(NULL AS STRING)",
    "struct": "give the struct a field, or leave the column out",
    "time": "store the text or the number of seconds instead",
}
DEEPEST = 50  # levels of a nested type: the libraries that write schemas fail at about twice that
_TOKEN = re.compile(
    r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\")|([\w$.]+)|(.))", re.DOTALL
)


def to_iceberg(type_text: str, column: str = "", ids: Iterator[int] | None = None) -> IcebergType:
    """Read DDL type text such as `array<struct<a: int, b: string>>`; fields get ids from `ids`."""
    parser = _Parser(type_text, column, ids or iter(range(1, 1 << 30)))
    found = parser.type()
    parser.end()
    return found


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


@dataclass
class _Parser:
    """type := name [(n [, n])] | array<type> | map<type, type> | struct<name [:] type ..., ...>"""

    text: str
    column: str
    ids: Iterator[int]
    at: int = 0
    depth: int = 0

    def type(self) -> IcebergType:
        name = self.word().lower()
        if name in ("array", "map", "struct"):
            self.expect("<")
            self.depth += 1
            if self.depth > DEEPEST:
                raise Unsupported(f"{self.where()}the type has more than {DEEPEST} levels")
            found = {"array": self.array, "map": self.map, "struct": self.struct}[name]()
            self.depth -= 1
            return found
        numbers = self.numbers()
        if name in ("decimal", "dec", "numeric"):
            return self.decimal(numbers)
        if name not in _SIMPLE:
            raise self.unsupported(name)
        if self.peek().lower() == "collate":
            self.collation()
        return _SIMPLE[name]()

    def decimal(self, numbers: list[int]) -> IcebergType:
        precision, scale = (*numbers, *(10, 0)[len(numbers) :])[:2]
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise InvalidValue(f"{self.where()}decimal({precision},{scale}) is out of range")
        return DecimalType(precision, scale)

    def collation(self) -> None:
        """Only the order of bytes is kept by files; other collations would compare differently."""
        self.next()
        if self.next().upper() != "UTF8_BINARY":
            raise self.unsupported(self.text)

    def array(self) -> IcebergType:
        element_id = next(self.ids)
        element = self.type()
        self.expect(">")
        return ListType(element_id, element, element_required=False)

    def map(self) -> IcebergType:
        key_id, value_id = next(self.ids), next(self.ids)
        key = self.type()
        self.expect(",")
        value = self.type()
        self.expect(">")
        return MapType(key_id, key, value_id, value, value_required=False)

    def struct(self) -> IcebergType:
        fields: list[NestedField] = []
        while self.peek() != ">":
            if fields:
                self.expect(",")
            fields.append(self.field())
        self.expect(">")
        if not fields:
            raise self.unsupported("struct")
        names = [each.name.lower() for each in fields]
        if len(set(names)) != len(names):
            raise InvalidValue(f"{self.where()}a struct has two fields of the same name")
        return StructType(*fields)

    def field(self) -> NestedField:
        field_id, name = next(self.ids), self.word()
        if self.peek() == ":":
            self.next()
        kind, needed = self.type(), False
        while (word := self.peek().lower()) in ("not", "comment"):
            self.next()
            if word == "not":
                needed = self.next().lower() == "null"
            else:
                self.next()
        return NestedField(field_id, name, kind, required=needed)

    def numbers(self) -> list[int]:
        found: list[int] = []
        if self.peek() != "(":
            return found
        self.next()
        while (token := self.next()) != ")":
            if token.isdigit():
                found.append(int(token))
            elif token != ",":
                raise self.wrong()
        return found

    def word(self) -> str:
        token = self.next()
        if token.startswith("`"):
            return token[1:-1].replace("``", "`")
        if not token or not (token[0].isalnum() or token[0] in "_$"):
            raise self.wrong()
        return token

    def expect(self, wanted: str) -> None:
        if self.next() != wanted:
            raise self.wrong()

    def end(self) -> None:
        if self.peek():
            raise self.wrong()

    def peek(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        return next((group for group in match.groups() if group), "") if match else ""

    def next(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        return next((group for group in match.groups() if group), "")

    def where(self) -> str:
        return f"column {shown(self.column)}: " if self.column else ""

    def wrong(self) -> InvalidValue:
        return InvalidValue(f"{self.where()}{self.text!r} is not a type")

    def unsupported(self, name: str) -> Unsupported:
        subject = f"column {shown(self.column)} has type" if self.column else "type"
        cure = _CURES.get(name.split("_")[0], "cast it to a type of Iceberg, such as string")
        suffix = "" if self.column else " is not supported"
        message = (
            f"{subject} {self.text}{', which Iceberg cannot store' if self.column else suffix}"
        )
        return Unsupported(message, hint=cure)
