"""What is printed for an expression has the value, in Spark, of what was written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from random import Random

import pytest
from sqlglot import parse_one

from anabranch.plan.exprs import VERBATIM, Expr
from anabranch.spark.session import Spark

ROW = """(SELECT 107 AS a, 6 AS b, 3 AS c, -29 AS d, '12' AS s, '7' AS t, true AS p, false AS q,
  CAST(NULL AS INT) AS n, CAST(NULL AS BOOLEAN) AS u, array(4, 9, 2) AS arr,
  map('12', array(5, 8)) AS m, named_struct('x', 11, 'y', array(named_struct('z', 13))) AS st,
  TIMESTAMP '2024-03-10 12:34:56' AS ts, INTERVAL '3' HOUR AS iv)"""
RANDOM = int(os.environ.get("ANABRANCH_EXPRESSIONS", "30"))
OPERATORS = ("+", "-", "*", "%", "DIV", "<<", ">>", ">>>", "&", "^", "|")
JOINERS = ("||", "+", "-", "*", "/")
COMPARISONS = ("=", "<>", "<", ">=", "<=>", "==", "!=")
AMOUNTS = (
    "INTERVAL 1 DAY 2 HOURS", "INTERVAL '1' DAY '2' HOUR 3 MINUTES", "INTERVAL 1 DAY -2 HOURS",
    "INTERVAL 5 MINUTES", "INTERVAL '1 2' DAY TO HOUR", "INTERVAL -'1 2' DAY TO HOUR",
    "INTERVAL '1 day 2 hours'", "INTERVAL 2 WEEKS 1.5 SECONDS", "- INTERVAL 1 DAY 2 HOURS",
)  # fmt: skip
PIECES = (
    "array(a, b)[0]", "array(a, b)[1] + c", "-array(a, b)[0] * 2", "cast(array(1) AS array<string>)[0]",
    "array(struct(a))[0].a", "array(array(a, b), array(c))[0][1]", "map(s, t)[s]", "m[s][1]",
    "m['12'][0] - arr[1]", "split('1,2', ',')[1] || s", "(arr)[0]", "st.x * st.y[0].z", "st.y.z[0]",
    "struct(a, b).b", "named_struct('k', a)['k']", "sequence(1, 4)[2]",
    "transform(arr, x -> x + a & b)",
    "filter(arr, x -> x > c AND NOT x = 9)", "aggregate(arr, 0, (x, y) -> x + y << 1)::string",
    "-128Y", "- 128Y", "-32768S", "-9223372036854775808L", "-2147483648", "-1.5BD", "c - -128Y",
    "1 - -1",
    "- - a", "+s", "+s || t", "-s || t", "a - +b", "~a & b", "~ - a", "-a::string || s", "-1::string",
    "a::string::int + 1", "s::int + t::int * 2", "s || t::int + 1", "CASE a WHEN 107 THEN b END + 1",
    "CASE WHEN p THEN a | b & c ELSE d END", "if(a & b = 2, s || t, t)", "1e3 + 1.5 * 2D",
    "DATE '2024-03-10' - DATE '2024-03-01'", "extract(HOUR FROM ts - INTERVAL 1 DAY 2 HOURS)",
    "a IN (b, c | 104)", "p = q IN (true)", "a = b = q", "a <> b != q", "a < b = q AND p", "NOT NOT p",
    "NOT p = q", "!p = q", "s LIKE '1' || '%'", "s NOT LIKE t || '%' AND q", "s RLIKE '^' || s",
    "s LIKE ANY ('1%', 'x')", "s ILIKE '1_' ESCAPE '/'", "a = n IS NULL", "n IS NULL AND NOT n IS NULL",
    "p IS NOT TRUE", "NOT u IS TRUE", "n IS DISTINCT FROM a = b", "a IS NOT DISTINCT FROM b + 101",
    "a BETWEEN b AND c OR p", "a NOT BETWEEN b AND a + 1 AND q", "a NOT IN (b, n) OR u", "'a' 'b' || s",
    "'it''s' || \"q\"", "r'a\\n' || s", "s || 'x' = '12x'", "trim(LEADING '1' FROM s)",
    "ts BETWEEN ts - INTERVAL 1 DAY 2 HOURS AND ts", "iv * 2 + INTERVAL 1 DAY 2 HOURS / 2",
    "CAST(s AS STRING COLLATE UTF8_LCASE) = '12'", "s COLLATE UTF8_LCASE || t",
)  # fmt: skip


def written(random: Random) -> Iterator[str]:
    yield "coalesce(n, a) >> 1"
    for one, other in product(OPERATORS, OPERATORS):
        yield f"a {one} b {other} c"
    for one, other in product(JOINERS, JOINERS):
        yield f"s {one} t {other} a"
    for one, other in product(OPERATORS, COMPARISONS):
        yield f"a {one} b {other} c {one} d"
    for amount in AMOUNTS:
        yield from (amount, f"ts - {amount}", f"ts + {amount} * 2", f"iv - {amount} + iv")
        yield f"ts NOT BETWEEN ts - {amount} AND ts + {amount} OR q"
    for _ in range(RANDOM):
        yield chain(random)
        yield condition(random, 2)


def chain(random: Random) -> str:
    """Operands and operators in a row, with few parentheses."""
    text = atom(random)
    for _ in range(random.randint(2, 5)):
        text += f" {random.choice(OPERATORS)} {atom(random)}"
    return text


def atom(random: Random) -> str:
    name = random.choice(("a", "b", "c", "d", "2", "n", "arr[1]", "st.x", "m['12'][0]", "s::int"))
    if random.random() < 0.15:
        return f"({chain(random)})"
    return random.choice(("", "", "", "-", "~", "- -")) + name


def condition(random: Random, depth: int) -> str:
    if depth and random.random() < 0.6:
        joined = f" {random.choice(('AND', 'OR'))} "
        return joined.join(condition(random, depth - 1) for _ in range(2))
    one, two, three = (chain(random) for _ in range(3))
    not_ = random.choice(("", "NOT "))
    return random.choice(("", "NOT ")) + random.choice(
        (
            f"{one} {random.choice(COMPARISONS)} {two}",
            f"{one} {random.choice(COMPARISONS)} {two} {random.choice(('=', '<=>'))} p",
            f"{one} {not_}BETWEEN {two} AND {three}",
            f"{one} {not_}IN ({two}, {three})",
            f"{one} IS {not_}NULL",
            f"{one} = {two} IS {not_}NULL",
            f"s || ({one}) {not_}LIKE t || '%'",
        )
    )


@pytest.fixture
def lenient(spark: Spark) -> Iterator[Spark]:
    """Dividing by zero gives NULL: one row must survive all expressions."""
    conf = spark.session.conf
    before = conf.get("spark.sql.ansi.enabled", None)
    conf.set("spark.sql.ansi.enabled", "false")
    yield spark
    if before is None:
        conf.unset("spark.sql.ansi.enabled")
    else:
        conf.set("spark.sql.ansi.enabled", before)


def values(spark: Spark, expressions: list[str]) -> list[tuple[str, object]]:
    listed = ", ".join(f"{text} AS _{at}" for at, text in enumerate(expressions))
    frame = spark.session.sql(f"SELECT {listed} FROM {ROW}")
    (row,) = frame.collect()
    types = [field.dataType.simpleString() for field in frame.schema.fields]
    return list(zip(types, row, strict=True))


def test_printed_means_what_was_written(lenient: Spark) -> None:
    # Spark's lexer takes `>>` for the end of two types once it has seen the word ARRAY or MAP
    for texts in (list(PIECES), list(dict.fromkeys(written(Random(7))))):
        assert misread(lenient, texts) == []


def misread(spark: Spark, texts: list[str]) -> list[tuple[object, ...]]:
    printed = [Expr.of(parse_one(text, dialect=VERBATIM)).text for text in texts]
    pairs = zip(texts, printed, values(spark, texts), values(spark, printed), strict=True)
    return [each for each in pairs if each[2] != each[3]]
