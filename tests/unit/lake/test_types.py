"""Type text and Iceberg's types."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.types import StructType

from anabranch.errors import InvalidValue, Unsupported
from anabranch.lake.types import columns_of, field_of, to_iceberg, to_text
from anabranch.model import Column


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("boolean", "boolean"),
        ("TINYINT", "int"),
        ("smallint", "int"),
        ("integer", "int"),
        ("bigint", "bigint"),
        ("real", "float"),
        ("double", "double"),
        ("decimal", "decimal(10,0)"),
        ("DEC(5)", "decimal(5,0)"),
        ("decimal( 12 , 2 )", "decimal(12,2)"),
        ("date", "date"),
        ("timestamp", "timestamp"),
        ("timestamp_ltz", "timestamp"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("varchar(10)", "string"),
        ("char(3)", "string"),
        ("string collate UTF8_BINARY", "string"),
        ("binary", "binary"),
        ("array<int>", "array<int>"),
        ("map<string, array<bigint>>", "map<string,array<bigint>>"),
        ("struct<a: int, `b c`: string>", "struct<a:int,`b c`:string>"),
        ("struct<a int NOT NULL COMMENT 'x, >', b date>", "struct<a:int NOT NULL,b:date>"),
        ("struct<`t``k`:int>", "struct<`t``k`:int>"),
    ],
)
def test_types(text: str, kept: str) -> None:
    assert to_text(to_iceberg(text)) == kept
    assert to_text(to_iceberg(kept)) == kept


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("interval day to second", "number of seconds"),
        ("array<interval year>", "number of seconds"),
        ("variant", "to_json"),
        ("void", "CAST(NULL AS STRING)"),
        ("time(6)", "number of seconds"),
        ("struct<>", "give the struct a field"),
        ("string collate UNICODE", "cast it"),
        ("geometry(4326)", "cast it"),
    ],
)
def test_types_that_iceberg_cannot_store(text: str, cure: str) -> None:
    with pytest.raises(Unsupported, match="column total has type") as caught:
        to_iceberg(text, "total")
    assert cure in (caught.value.hint or "")


@pytest.mark.parametrize(
    "text", ["", "array<int", "array int", "map<int>", "int)", "decimal(39,0)", "decimal(2,3)",
             "struct<a:int,A:int>", "decimal(x)", "'text'"]
)  # fmt: skip
def test_texts_that_are_no_types(text: str) -> None:
    with pytest.raises((InvalidValue, Unsupported)):
        to_iceberg(text, "c")


SIMPLE = ["int", "string", "decimal(12,2)", "timestamp_ntz", "binary", "boolean"]
NAMES = st.text(min_size=1, max_size=4).filter(lambda name: name.strip() and name == name.lower())


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    fields = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    return st.one_of(
        inner.map("array<{}>".format),
        st.tuples(inner, inner).map(lambda pair: f"map<{pair[0]},{pair[1]}>"),
        fields.map(
            lambda found: (
                "struct<"
                + ",".join(f"`{name.replace('`', '``')}`:{kind}" for name, kind in found.items())
                + ">"
            )
        ),
    )


@given(st.recursive(st.sampled_from(SIMPLE), nested, max_leaves=6))
def test_any_type_comes_back(text: str) -> None:
    once = to_text(to_iceberg(text))
    assert to_text(to_iceberg(once)) == once


def test_every_field_has_an_id_of_its_own() -> None:
    ids = itertools.count(5)
    column = Column("p", "struct<x:int,tags:array<map<string,struct<y:int>>>>", nullable=False)
    field = field_of(column, ids)
    (found,) = columns_of(StructType(field))
    assert (found.name, found.field_id, found.nullable) == ("p", 5, False)
    assert list(found.nested) == [
        "x", "tags", "tags.element", "tags.element.key", "tags.element.value",
        "tags.element.value.y",
    ]  # fmt: skip
    assert len({5, *found.nested.values()}) == 7
