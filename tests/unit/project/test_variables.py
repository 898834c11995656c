"""`:name` is a literal of the value's type, whatever the value holds."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import InvalidValue
from anabranch.project.variables import expand, literal
from anabranch.sql.text.tokens import Place, Sort, place, tokenize


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("it's", "'it\\'s'"),
        ("a\\b", "'a\\\\b'"),
        ("x'; DROP TABLE t --", "'x\\'; DROP TABLE t --'"),
        ("two\nlines", "'two\\U0000000alines'"),
        (5, "5"),
        (-5, "(-5)"),
        (0.5, "0.5D"),
        (-1e-7, "(-1e-07D)"),
        (True, "TRUE"),
        (date(2024, 2, 3), "DATE '2024-02-03'"),
        (datetime(2024, 2, 3, 4, 5), "TIMESTAMP_NTZ '2024-02-03 04:05:00'"),
        (
            datetime(2024, 2, 3, 4, 5, tzinfo=timezone.utc),
            "TIMESTAMP '2024-02-03 04:05:00+00:00'",
        ),
        (["eu", "us"], "'eu', 'us'"),
    ],
)
def test_a_literal(value: object, text: str) -> None:
    assert literal("v", value) == text


@pytest.mark.parametrize("value", [[], {}, [[1]], float("nan"), None])
def test_what_has_no_literal(value: object) -> None:
    with pytest.raises(InvalidValue, match="variable v"):
        literal("v", value)


@given(st.text())
def test_any_text_is_one_string_token_that_means_the_text(value: str) -> None:
    tokens = tokenize(literal("v", value))
    assert [token.sort for token in tokens] == [Sort.STRING, Sort.END]
    assert tokens[0].value == value.replace("\\%", "\\%")
    assert len(literal("v", value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("WHERE a = :v", "WHERE a = 7"),
        ("WHERE a>:v", "WHERE a>7"),
        ("IN (:v,:v)", "IN (7,7)"),
        ("x - :v", "x - 7"),
        ("LIMIT :v", "LIMIT 7"),
        ("':v' -- :v\n/* :v */ `:v`", "':v' -- :v\n/* :v */ `:v`"),
        ("STRUCT<v:INT>, STRUCT<a: v>", "STRUCT<v:INT>, STRUCT<a: v>"),
        ("a::v, f(x):v, y[0]:v, b:v", "a::v, f(x):v, y[0]:v, b:v"),
    ],
)
def test_where_a_variable_stands(text: str, filled: str) -> None:
    found = expand(text, {"v": 7})
    assert found.text == filled
    assert found.used == ({"v"} if text != filled else set())


def test_a_place_is_found_again_in_the_text_as_written() -> None:
    written = "SELECT :long,\n  :long, here"
    found = expand(written, {"long": "x" * 40})
    at = found.text.index("here")
    assert found.origin(at) == written.index("here")
    assert found.written_place(place(found.text, at)) == Place(2, 10)
    assert found.origin(found.text.index("xxx")) == written.index(":long")


def test_unknown_variables_are_reported_and_null_meanwhile() -> None:
    found = expand("SELECT :a, :b", {"b": 1})
    assert found.text == "SELECT NULL, 1"
    assert found.unknown == (("a", 7),)


def test_text_that_cannot_be_read_is_left_alone() -> None:
    assert expand("SELECT ':a, :a", {"a": 1}).text == "SELECT ':a, :a"
