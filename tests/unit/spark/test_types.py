"""Type text to and from Spark's types; no Spark is started."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from anabranch.errors import InvalidValue
from anabranch.model import Column
from anabranch.spark.types import FIELD_ID, columns_of, parse_type, struct, type_text

TEXTS = [
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date",
    "timestamp", "timestamp_ntz", "decimal(12,2)", "array<int>", "map<string,array<decimal(38,18)>>",
    "struct<a:int,b:struct<c:string>>", "struct<`a b`:int,`x``y`:map<int,int>>", "struct<>",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_there_and_back(text: str) -> None:
    assert type_text(parse_type(text)) == text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("DECIMAL", "decimal(10,0)"),
        ("Numeric( 7 )", "decimal(7,0)"),
        ("VARCHAR(20)", "string"),
        ("char(3)", "string"),
        ("LONG", "bigint"),
        ("STRUCT<a: INT NOT NULL COMMENT 'x, <y>', b STRING>", "struct<a:int,b:string>"),
        ("array < map < string , int > >", "array<map<string,int>>"),
    ],
)
def test_other_spellings(text: str, same: str) -> None:
    assert type_text(parse_type(text)) == same


@pytest.mark.parametrize(
    "text", ["", "blob", "int int", "decimal(a)", "array<int", "map<int>", "int(3)", "array<>", "?"]
)
def test_what_is_no_type(text: str) -> None:
    with pytest.raises(InvalidValue, match="is not a type"):
        parse_type(text)


def test_ids_at_every_level() -> None:
    nested = {"x": 2, "l": 3, "l.element": 4, "l.element.y": 5, "m": 6, "m.value.z": 8}
    text = "struct<x:int,l:array<struct<y:int>>,m:map<string,struct<z:int>>>"
    (field,) = struct([Column("p", text, True, 1, nested)])
    assert isinstance(field.dataType, T.StructType)
    x, listed, mapped = field.dataType
    assert (field.metadata, x.metadata, listed.metadata) == (
        {FIELD_ID: 1},
        {FIELD_ID: 2},
        {FIELD_ID: 3},
    )
    assert isinstance(listed.dataType, T.ArrayType) and isinstance(mapped.dataType, T.MapType)
    assert isinstance(listed.dataType.elementType, T.StructType)
    assert listed.dataType.elementType[0].metadata == {FIELD_ID: 5}
    assert isinstance(mapped.dataType.valueType, T.StructType)
    assert mapped.dataType.valueType[0].metadata == {FIELD_ID: 8}


def test_columns_of_a_schema() -> None:
    columns = (Column("a", "int", False, 7), Column("b c", "array<string>"))
    assert columns_of(struct(columns)) == columns
