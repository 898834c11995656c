"""Columns of a stream table against those of its query: what is carried over and what is refused."""

from __future__ import annotations

import pytest

from anabranch.errors import SchemaError
from anabranch.lake.types import holds
from anabranch.model import Column, Columns
from anabranch.names import TableName
from anabranch.refresh.columns import differences, exactly, fitted

T = TableName.of("t")


def columns(*named: str) -> Columns:
    """Columns `name type`; NOT NULL where the name ends with `!`."""
    pairs = [each.split(" ") for each in named]
    return tuple(Column(n.rstrip("!"), t, not n.endswith("!")) for n, t in pairs)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("int", "int", True),
        ("int", "bigint", True),
        ("bigint", "int", False),
        ("float", "double", True),
        ("double", "float", False),
        ("int", "string", False),
        ("decimal(5,2)", "decimal(12,2)", True),
        ("decimal(5,2)", "decimal(12,4)", True),
        ("decimal(5,2)", "decimal(6,4)", False),
        ("decimal(5,2)", "decimal(12,1)", False),
        ("decimal(5,2)", "bigint", False),
        ("array<int>", "array<bigint>", True),
        ("array<bigint>", "array<int>", False),
        ("array<array<float>>", "array<array<double>>", True),
        ("map<int,int>", "map<bigint,decimal(5,2)>", False),
        ("map<int,decimal(5,2)>", "map<bigint,decimal(7,2)>", True),
        ("struct<a:int,`b c`:string>", "struct<a:bigint,`b c`:string>", True),
        ("struct<a:int>", "struct<b:string,a:int>", True),
        ("struct<a:int,b:int>", "struct<a:int>", False),
        ("struct<a:array<struct<b:int>>>", "struct<a:array<struct<b:bigint>>>", True),
        ("struct<a:array<struct<b:int>>>", "struct<a:array<struct<b:string>>>", False),
        ("array<int>", "int", False),
    ],
)
def test_a_wider_type_holds_every_value(old: str, new: str, expected: bool) -> None:
    assert holds(old, new) is expected


@pytest.mark.parametrize(
    "wanted",
    [
        columns("a int", "b string"),
        columns("a int", "b string", "c int"),
        columns("c int", "b string", "a bigint"),
    ],
)
def test_more_and_wider_columns_are_carried_over(wanted: Columns) -> None:
    assert fitted(T, columns("a int", "b string"), wanted) == wanted


@pytest.mark.parametrize(
    "wanted",
    [
        columns("a int"),
        columns("a int", "c string"),
        columns("a int", "B string"),
        columns("a string", "b string"),
    ],
)
def test_columns_that_others_count_on_must_stay(wanted: Columns) -> None:
    with pytest.raises(SchemaError, match=r"(?s)default.t has the columns .*ALTER STREAM TABLE"):
        fitted(T, columns("a int", "b string"), wanted)


def test_null_may_come_and_never_goes() -> None:
    stored = columns("a int", "b! int")
    assert fitted(T, stored, columns("a! int", "b! int")) == stored
    relaxed = fitted(T, stored, columns("a int", "b int"))
    assert relaxed == columns("a int", "b int")
    assert not exactly(stored, relaxed)


def test_differences_follow_field_ids() -> None:
    old = (
        Column("a", "int", field_id=1),
        Column("b", "int", field_id=2),
        Column("c", "int", field_id=3),
    )
    new = (
        Column("a", "bigint", field_id=1),
        Column("B", "int", field_id=2),
        Column("c", "int", field_id=4),
    )
    assert differences(old, new) == [
        "c was dropped",
        "a int is now bigint",
        "b is now B",
        "c int was added",
    ]
    assert differences(new, new) == []
