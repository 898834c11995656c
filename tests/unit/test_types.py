"""One record for a type: every spelling in, one text out."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import InvalidValue
from anabranch.types import (
    INTEGERS,
    Field,
    NotAType,
    Type,
    UnknownType,
    common_type,
    read_type,
)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("LONG", "bigint"),
        ("Dec", "decimal(10,0)"),
        ("CHARACTER ( 3 )", "char(3)"),
        ("timestamp_ltz", "timestamp"),
        ("INTERVAL Day TO Second", "interval day to second"),
        ("interval", "interval"),
        ("TIME(6)", "time(6)"),
        ("null", "void"),
        ("STRING COLLATE system.builtin.UNICODE_CI", "string collate UNICODE_CI"),
        ("string collate utf8_binary", "string"),
        ("STRUCT<a INT NOT NULL COMMENT 'x, >', `b``c`: map<int,array<date>>>",
         "struct<a:int NOT NULL,`b``c`:map<int,array<date>>>"),
        ("struct<>", "struct<>"),
        ("array<int> -- of numbers", "array<int>"),
        ("array</* not bigint */int>", "array<int>"),
    ],
)  # fmt: skip
def test_every_spelling_has_one_text(text: str, same: str) -> None:
    assert str(Type.parse(text)) == same
    assert Type.parse(same) == Type.parse(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected a type, found nothing"),
        ("int int", 'unexpected "int"'),
        ("map<int>", 'expected ",", found ">"'),
        ("array<int", 'expected ">", found nothing'),
        ("decimal(x)", "expected a whole number"),
        ("interval day to", "expected a unit of time"),
        ("string collate >", "expected a collation"),
        ("struct<a:int comment b>", "expected a comment in quotes"),
    ],
)
def test_what_is_not_read_says_what_was_expected(text: str, says: str) -> None:
    with pytest.raises(NotAType, match="is not a type") as raised:
        Type.parse(text)
    assert says in raised.value.message


@pytest.mark.parametrize(
    "text",
    ["decimal(39,0)", "decimal(2,3)", "decimal(1,1,1)", "char", "varchar(0)", "struct<a:int,A:int>",
     "array<" * 51 + "int" + ">" * 51],
)  # fmt: skip
def test_what_is_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        Type.parse(text)


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(UnknownType, match='"BIGINTT" is not a type') as raised:
        Type.parse("BIGINTT")
    assert raised.value.hint == 'did you mean "BIGINT"?'


def test_a_type_ends_where_the_statement_goes_on() -> None:
    text = "(a DECIMAL(5, 2) NOT NULL, b INT)"
    found, end = read_type(text, 3)
    assert (str(found), text[end:]) == ("decimal(5,2)", " NOT NULL, b INT)")


@pytest.mark.parametrize(
    ("text", "part"),
    [("array<interval year>", "interval year"), ("struct<>", "struct<>"), ("variant", "variant"),
     ("map<string collate UNICODE,int>", "string collate UNICODE"), ("array<int>", None)],
)  # fmt: skip
def test_what_no_table_holds(text: str, part: str | None) -> None:
    found = Type.parse(text).unstorable
    assert (None if found is None else str(found)) == part


@pytest.mark.parametrize(
    ("one", "two", "common"),
    [
        ("int", "bigint", "bigint"),
        ("bigint", "decimal(10,2)", "decimal(22,2)"),
        ("decimal(38,0)", "decimal(38,38)", None),
        ("int", "double", "double"),
        ("bigint", "float", None),
        ("void", "date", "date"),
        ("date", "timestamp_ntz", "timestamp_ntz"),
        ("timestamp", "timestamp_ntz", "timestamp"),
        ("array<int>", "array<bigint>", "array<bigint>"),
        ("struct<a:int>", "struct<b:int>", None),
        ("string", "int", None),
    ],
)
def test_the_common_type_of_two(one: str, two: str, common: str | None) -> None:
    found = [common_type(Type.parse(a), Type.parse(b)) for a, b in ((one, two), (two, one))]
    assert [None if each is None else str(each) for each in found] == [common, common]


NAMES = st.text(min_size=1, max_size=4)
LEAVES = st.one_of(
    st.sampled_from([*INTEGERS, "double", "string", "date", "timestamp_ntz"]).map(Type),
    st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: Type("decimal", (p, s)))),
    st.just(Type("string", collation="UNICODE")),
)


def _nested(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    fields = st.dictionaries(NAMES, st.tuples(inner, st.booleans()), max_size=3)
    return st.one_of(
        inner.map(Type.array),
        st.tuples(inner, inner).map(lambda pair: Type.map(*pair)),
        fields.filter(lambda found: len({name.lower() for name in found}) == len(found)).map(
            lambda found: Type.struct(*(Field(name, *rest) for name, rest in found.items()))
        ),
    )


@given(st.recursive(LEAVES, _nested, max_leaves=8))
def test_every_type_is_read_from_its_own_text(type_: Type) -> None:
    assert Type.parse(str(type_)) == type_


@given(st.text(max_size=20))
def test_no_text_fails_in_another_way(text: str) -> None:
    with suppress(InvalidValue):
        Type.parse(text)
