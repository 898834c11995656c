"""Which types have an equality that is equality of bytes."""

from __future__ import annotations

import pytest

from anabranch.plan.sameness import Sameness, sameness


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("int", Sameness.BYTES),
        ("DECIMAL(12, 2)", Sameness.BYTES),
        ("string", Sameness.BYTES),
        ("string collate UTF8_BINARY", Sameness.BYTES),
        ("binary", Sameness.BYTES),
        ("timestamp", Sameness.BYTES),
        ("timestamp_ntz", Sameness.BYTES),
        ("interval day to second", Sameness.BYTES),
        ("void", Sameness.BYTES),
        ("array<struct<variant:int,`double:x`:string>>", Sameness.BYTES),
        ("struct<a:int NOT NULL,b:string COMMENT 'a double'>", Sameness.BYTES),
        ("double", Sameness.FORM),
        ("array<float>", Sameness.FORM),
        ("struct<a:double>", Sameness.FORM),
        ("map<string,int>", Sameness.FORM),
        ("string collate UTF8_LCASE", Sameness.OPEN),
        ("STRING COLLATE system.builtin.UNICODE_CI", Sameness.OPEN),
        ("string collate UTF8_BINARY_RTRIM", Sameness.OPEN),
        ("array<string collate UNICODE>", Sameness.OPEN),
        ("map<string collate UNICODE,double>", Sameness.OPEN),
        ("variant", Sameness.NONE),
        ("array<variant>", Sameness.NONE),
        ("geometry(4326)", Sameness.NONE),
        ("a type of tomorrow", Sameness.NONE),
        ("", Sameness.NONE),
    ],
)
def test_sameness(type_: str, expected: Sameness) -> None:
    assert sameness(type_) is expected
    assert sameness(type_).makes_keys is (expected in (Sameness.BYTES, Sameness.FORM))
