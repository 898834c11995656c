"""Bounds are implied by the condition, or there are none."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

import pytest

from anabranch.model import Bound, Column
from anabranch.sql.lower.prune import bounds, equal_columns

COLUMNS = (
    Column("b", "tinyint"),
    Column("i", "int"),
    Column("l", "bigint"),
    Column("d", "decimal(12,2)"),
    Column("f", "double"),
    Column("s", "string"),
    Column("v", "varchar(9)"),
    Column("c", "char(3)"),
    Column("day", "date"),
    Column("ts", "timestamp"),
    Column("n", "timestamp_ntz"),
    Column("o", "boolean"),
    Column("Größe", "int"),
)
NEW_YEAR = datetime(2024, 1, 1, tzinfo=timezone.utc)


def found(condition: str) -> list[Bound]:
    return list(bounds(condition, COLUMNS, "t"))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("i = 1", [Bound("i", "=", (1,))]),
        ("T.I == 1", [Bound("i", "=", (1,))]),
        ("`größe` < 1", [Bound("Größe", "<", (1,))]),
        (
            "i <= -1 AND (l > 2 AND i >= 3)",
            [Bound("i", "<=", (-1,)), Bound("l", ">", (2,)), Bound("i", ">=", (3,))],
        ),
        ("3 < i AND 4 >= l", [Bound("i", ">", (3,)), Bound("l", "<=", (4,))]),
        ("i IN (1, (2))", [Bound("i", "in", (1, 2))]),
        ("i BETWEEN 1 AND 5", [Bound("i", ">=", (1,)), Bound("i", "<=", (5,))]),
        ("i BETWEEN 1 AND l", [Bound("i", ">=", (1,))]),
        ("i IS NULL AND f IS NULL", [Bound("i", "null"), Bound("f", "null")]),
        ("i <=> NULL", [Bound("i", "null")]),
        ("i <=> 4", [Bound("i", "=", (4,))]),
        (
            "d = 1.5 AND d < 10",
            [Bound("d", "=", (Decimal("1.50"),)), Bound("d", "<", (Decimal("10.00"),))],
        ),
        ("s = 'é' AND v > 'b'", [Bound("s", "=", ("é",)), Bound("v", ">", ("b",))]),
        ("day >= DATE '2024-01-01'", [Bound("day", ">=", (date(2024, 1, 1),))]),
        ("day = '2024-01-01'", [Bound("day", "=", (date(2024, 1, 1),))]),
        ("ts >= TIMESTAMP '2024-01-01 00:00:00'", [Bound("ts", ">=", (NEW_YEAR,))]),
        ("ts >= DATE '2024-01-01'", [Bound("ts", ">=", (NEW_YEAR,))]),
        (
            "ts < '2024-01-01 00:00:00.5'",
            [Bound("ts", "<", (NEW_YEAR.replace(microsecond=500000),))],
        ),
        ("n = TIMESTAMP_NTZ '2024-01-01 00:00:00'", [Bound("n", "=", (datetime(2024, 1, 1),))]),
        (
            "o AND NOT t.o AND o = true",
            [Bound("o", "=", (True,)), Bound("o", "=", (False,)), Bound("o", "=", (True,))],
        ),
        ("i = 1 AND rand() > 0.5 AND x.y = 3", [Bound("i", "=", (1,))]),
    ],
)
def test_bounds(condition: str, expected: list[Bound]) -> None:
    assert found(condition) == expected
    for bound, wanted in zip(found(condition), expected, strict=True):
        assert [type(value) for value in bound.values] == [type(value) for value in wanted.values]
        assert list(map(str, bound.values)) == list(map(str, wanted.values))


@pytest.mark.parametrize(
    "condition",
    [
        "i = 1 OR l = 2",
        "NOT (i = 1)",
        "NOT i = 1",
        "i <> 1",
        "i NOT IN (1, 2)",
        "i IN (1, NULL)",
        "i IN (1, l)",
        "i IN (SELECT 1)",
        "i NOT BETWEEN 1 AND 2",
        "s COLLATE UTF8_LCASE = 'ABC'",
        "s = 'ABC' COLLATE UTF8_LCASE",
        "s = collate('ABC', 'UTF8_LCASE')",
        "s IN ('a', 'B' COLLATE UTF8_LCASE)",
        "s BETWEEN 'a' AND 'b' COLLATE UTF8_LCASE",
        "s BETWEEN collate('a', 'UTF8_LCASE') AND 'b'",
        "s > CAST('a' AS STRING COLLATE UTF8_LCASE)",
        "i IS NOT NULL",
        "i = NULL",
        "i = l",
        "i + 1 = 2",
        "CAST(i AS STRING) = '1'",
        "i = '1'",
        "i = 1.0",
        "i = 1e0",
        "i = 1L",
        "i < 3000000000",
        "b = 128",
        "l = 9223372036854775808",
        "d = 1.005",
        "d < 99999999999",
        "d = '1'",
        "f > 1",
        "f = 1.0",
        "s = 1",
        "s LIKE 'a%'",
        r"s = 'a\nb'",
        "s = 'it''s'",
        "s = 'a' 'b'",
        "s = '${x}'",
        "s = r'a'",
        "s = upper('a')",
        "c = 'abc'",
        "day = '2024-1-1'",
        "day = '2024-02-31'",
        "day = TIMESTAMP '2024-01-01 00:00:00'",
        "day = current_date()",
        "ts = '2024-01-01 00:00:00+01:00'",
        "ts = '2024'",
        "ts = TIMESTAMP_NTZ '2024-01-01 00:00:00'",
        "n = TIMESTAMP '2024-01-01 00:00:00'",
        "n = DATE '2024-01-01'",
        "o = 'true'",
        "o = 1",
        "i",
        "u.i = 1",
        "a.t.i = 1",
        "t.i.x = 1",
        "unknown = 1",
        "i =",
    ],
)
def test_no_bound_when_unsure(condition: str) -> None:
    assert found(condition) == []


def test_no_condition() -> None:
    assert bounds(None, COLUMNS, None) == ()


def test_without_an_alias_only_bare_columns_count() -> None:
    assert bounds("t.i = 1 AND l = 2", COLUMNS, None) == (Bound("l", "=", (2,)),)


def test_without_a_zone_timestamps_give_no_bound() -> None:
    assert (
        bounds("ts > '2024-01-01 00:00:00' AND ts > DATE '2024-01-01'", COLUMNS, None, None) == ()
    )


def test_a_long_condition() -> None:
    condition = " AND ".join(f"i > {i}" for i in range(2000))
    assert len(found(condition)) == 2000


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("t.id = s.key", {"id": "key"}),
        ("S.`Key` == T.`ID` AND (t.day = s.day)", {"id": "Key", "day": "day"}),
        ("t.id = s.key OR t.id = s.other", {}),
        ("t.id <=> s.key", {}),
        ("t.id = s.key + 1", {}),
        ("id = key", {}),
        ("t.a = t.b AND s.a = s.b", {}),
        ("t.p.x = s.x", {}),
        ("NOT (t.id = s.key)", {}),
        ("t.id = s.key AND AND", {}),
    ],
)
def test_equal_columns(condition: str, expected: dict[str, str]) -> None:
    assert equal_columns(condition, "t", "s") == expected
