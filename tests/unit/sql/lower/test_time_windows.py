"""Windows of time: their lengths, and in which of them a moment lies."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pytest
from sqlglot import exp

from anabranch.model import Column
from anabranch.names import TableName
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import Node
from anabranch.sql.lower.query import lower
from anabranch.sql.lower.time_windows import microseconds
from anabranch.sql.render import to_sql

MINUTE = 60_000_000


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("5 minutes", 5 * MINUTE),
        ("1 HOUR", 60 * MINUTE),
        ("interval 1 hour", 60 * MINUTE),
        ("2 weeks 1 day", 15 * 24 * 60 * MINUTE),
        ("1 minute 30 seconds", MINUTE * 3 // 2),
        ("3 minutes 59.999999 seconds", 4 * MINUTE - 1),
        ("-15 minutes", -15 * MINUTE),
        ("7 milliseconds 1 microsecond", 7001),
        ("1 month", None),
        ("5", None),
        ("", None),
        ("5 minutes ago", None),
    ],
)
def test_lengths(text: str, length: int | None) -> None:
    assert microseconds(exp.Literal.string(text)) == length


def test_numbers_are_microseconds() -> None:
    assert microseconds(exp.Literal.number(300)) == 300
    assert microseconds(exp.Neg(this=exp.Literal.number(300))) == -300
    assert microseconds(exp.column("x")) is None


def types(node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
    return ["timestamp" for _ in exprs]


@pytest.fixture
def db() -> duckdb.DuckDBPyConnection:
    """Events by the minute since 1970; one whose time is not known."""
    db = duckdb.connect()
    db.execute("CREATE MACRO pmod(a, b) AS ((a % b) + b) % b")
    db.execute("CREATE MACRO timestamp_micros(n) AS make_timestamp(n::BIGINT)")
    db.execute("SET timezone = 'UTC'")
    minutes = "(3), (7), (-1), (NULL), (20), (7), (11)"
    db.execute(
        f"CREATE TABLE ev AS SELECT timestamp_micros(m * {MINUTE}) AS t FROM (VALUES {minutes}) v(m)"
    )
    return db


def rows(db: duckdb.DuckDBPyConnection, query: str) -> list[tuple[int, ...]]:
    """The rows of the plan, its times in minutes."""
    columns = (Column("t", "timestamp"),)
    found = lower(query, {TableName.of("ev"): columns}, {}, types)
    assert found.plan is not None, found.obstacles
    text = to_sql(found.plan, lambda _: "ev", "duckdb")
    minutes = f"epoch_us(s) // {MINUTE}, epoch_us(e) // {MINUTE}, n"
    return sorted(db.execute(f"SELECT {minutes} FROM ({text})").fetchall())


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("window(t, '5 minutes')", [(-5, 0, 1), (0, 5, 1), (5, 10, 2), (10, 15, 1), (20, 25, 1)]),
        (
            "window(t, '10 minutes', '5 minutes')",
            [
                (-10, 0, 1), (-5, 5, 2), (0, 10, 3), (5, 15, 3), (10, 20, 1), (15, 25, 1),
                (20, 30, 1),
            ],
        ),
        (
            "window(t, '7 minutes', '4 minutes', '1 minute')",
            [(-7, 0, 1), (-3, 4, 2), (1, 8, 3), (5, 12, 3), (9, 16, 1), (17, 24, 1)],
        ),
        ("session_window(t, '4 minutes')", [(-1, 15, 5), (20, 24, 1)]),
        (
            "session_window(t, '3 minutes')",
            [(-1, 2, 1), (3, 6, 1), (7, 10, 2), (11, 14, 1), (20, 23, 1)],
        ),
    ],
)  # fmt: skip
def test_windows(
    db: duckdb.DuckDBPyConnection, window: str, expected: list[tuple[int, ...]]
) -> None:
    name = window.split("(")[0]
    query = f"SELECT {name}.start AS s, {name}.end AS e, count(*) AS n FROM ev GROUP BY {window}"
    assert rows(db, query) == expected
