"""Operators, intervals and brackets are read with the precedence of Spark's grammar."""

from __future__ import annotations

import pytest
from sqlglot import parse_one

from anabranch.plan.exprs import VERBATIM, Expr, SparkText
from tests.spark.test_grammar import AMOUNTS, PIECES

READ_AS = [
    ("a & b >> 1", "a & SHIFTRIGHT(b, 1)"),
    ("a | b << 2", "a | SHIFTLEFT(b, 2)"),
    ("a ^ b >>> 1", "a ^ SHIFTRIGHTUNSIGNED(b, 1)"),
    ("a << b + c", "SHIFTLEFT(a, b + c)"),
    ("a & 1 << 3 = 8", "a & SHIFTLEFT(1, 3) = 8"),
    ("a | b & c", "a | (b & c)"),
    ("a ^ b & c", "a ^ (b & c)"),
    ("a | b ^ c", "a | (b ^ c)"),
    ("a & b + c", "a & (b + c)"),
    ("a || b + c", "(a || b) + c"),
    ("a + b || c", "(a + b) || c"),
    ("a || b * c", "a || b * c"),
    ("a || b COLLATE UTF8_LCASE", "a || b COLLATE UTF8_LCASE"),
    ("a = b < c", "(a = b) < c"),
    ("a = b IN (TRUE)", "(a = b) IN (TRUE)"),
    ("a = b BETWEEN c AND d", "(a = b) BETWEEN c AND d"),
    ("a LIKE b = c", "a LIKE (b = c)"),
    ("NOT a = b AND c", "NOT a = b AND c"),
    ("d - INTERVAL 1 DAY 2 HOURS", "d - (INTERVAL '1' DAY + INTERVAL '2' HOURS)"),
    ("INTERVAL 1 DAY 2 HOURS * 2", "(INTERVAL '1' DAY + INTERVAL '2' HOURS) * 2"),
    ("-INTERVAL '1' DAY '2' HOUR", "-(INTERVAL '1' DAY + INTERVAL '2' HOUR)"),
    ("INTERVAL 1 DAY -2 HOURS", "(INTERVAL '1' DAY + INTERVAL '-2' HOURS)"),
    ("d + INTERVAL 1 DAY + 2", "d + INTERVAL '1' DAY + 2"),
    ("interval + 1", "interval + 1"),
    (
        "a BETWEEN b - INTERVAL 1 DAY 2 HOURS AND b",
        "a BETWEEN b - (INTERVAL '1' DAY + INTERVAL '2' HOURS) AND b",
    ),
    ("array(a, b)[0]", "ARRAY(a, b)[0]"),
    ("cast(array(1) AS array<string>)[0]", "CAST(ARRAY(1) AS ARRAY<STRING>)[0]"),
    ("explode(array(b, c)[0])", "EXPLODE(ARRAY(b, c)[0])"),
    ("map(a, b)[k]", "MAP(a, b)[k]"),
    ("(a)[0].b", "(a)[0].b"),
    ("-128Y", "CAST(-128 AS TINYINT)"),
    ("-9223372036854775808L", "CAST(-9223372036854775808 AS BIGINT)"),
    ("-1.5BD", "-CAST('1.5' AS DECIMAL(2, 1))"),
    ("-a::int", "-CAST(a AS INT)"),
    ("+a", "POSITIVE(a)"),
    ("+1", "1"),
]


@pytest.mark.parametrize(("written", "read"), READ_AS, ids=[written for written, _ in READ_AS])
def test_reads_as_spark_does(written: str, read: str) -> None:
    for dialect in (VERBATIM, SparkText()):
        tree = dialect.parse(written)[0]
        assert tree is not None
        text = Expr.of(tree).text
        assert text == read
        assert Expr(text).tree.sql(dialect=VERBATIM) == text


def test_means_the_same_to_sqlglot() -> None:
    """DuckDB gets what sqlglot makes of our text."""
    mixed = Expr.of(parse_one("a | b ^ c & d || e + f", dialect=VERBATIM)).text
    assert mixed == "a | (b ^ (c & ((d || e) + f)))"
    assert parse_one(mixed, dialect="spark").sql(dialect="spark") == mixed


@pytest.mark.parametrize("written", [*(text for text, _ in READ_AS), *AMOUNTS, *PIECES])
def test_writing_leaves_the_tree_as_it_is(written: str) -> None:
    """Trees are shared and written without a copy."""
    tree = parse_one(written, dialect=VERBATIM)
    copy = tree.copy()
    assert Expr.of(tree).text == copy.sql(dialect=VERBATIM)
    assert repr(tree) == repr(copy)
