"""What rows are looked up by has a known equality; what is judged row by row may be anything."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from anabranch.model import Column
from anabranch.names import TableName
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import Node
from anabranch.sql.lower.query import lower

TABLES = {
    TableName.of(name): (Column("id", "int"), Column("s", "string"), Column("d", "double"))
    for name in ("t", "u")
}


def types(node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
    """As Spark tells them, for the expressions of these tests."""
    return [_type(expr.text.upper().strip("()")) for expr in exprs]


def _type(text: str) -> str:
    if text.endswith(" COLLATE UTF8_LCASE") or text.startswith("COLLATE("):
        return "string collate UTF8_LCASE"
    if text.endswith("X.C`"):  # what explode makes of an array of those
        return "string collate UTF8_LCASE"
    if text.startswith(("PARSE_JSON(", "TRY_PARSE_JSON(")):
        return "variant"
    return "int"


def codes(query: str) -> list[str]:
    return [each.code for each in lower(query, TABLES, {}, types).obstacles]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM t GROUP BY s COLLATE UTF8_LCASE",
        "SELECT count(*) AS n FROM t GROUP BY collate(s, 'UTF8_LCASE')",
        "SELECT count(*) AS n FROM t GROUP BY CAST(s AS STRING COLLATE UTF8_LCASE)",
        "SELECT DISTINCT s COLLATE UTF8_LCASE AS k FROM t",
        "SELECT s COLLATE UTF8_LCASE AS k FROM t UNION SELECT s FROM u",
        "SELECT max(s COLLATE UTF8_LCASE) AS m FROM t",
        "SELECT id, count(DISTINCT s COLLATE UTF8_LCASE) AS n FROM t GROUP BY id",
        "SELECT t.id FROM t JOIN u ON t.s COLLATE UTF8_LCASE = u.s",
        "SELECT t.id FROM t, u WHERE u.s = t.s COLLATE UTF8_LCASE",
        "SELECT t.id FROM t LEFT JOIN u ON u.s = t.s COLLATE UTF8_LCASE",
        "SELECT id FROM t WHERE s COLLATE UTF8_LCASE IN (SELECT s FROM u)",
        "SELECT id, sum(id) OVER (PARTITION BY s COLLATE UTF8_LCASE) AS n FROM t",
        "SELECT id, rank() OVER (ORDER BY s COLLATE UTF8_LCASE) AS n FROM t",
        "SELECT id FROM t ORDER BY s COLLATE UTF8_LCASE, id LIMIT 1",
        "SELECT u.id FROM u JOIN (SELECT c FROM t LATERAL VIEW explode(array(s COLLATE UTF8_LCASE)) x "
        "AS c) e ON e.c = u.s",
    ],
)
def test_keys_with_a_collation_are_not_incremental(query: str) -> None:
    assert codes(query) == ["COLLATION"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM t WHERE s COLLATE UTF8_LCASE = 'a'",
        "SELECT id, s COLLATE UTF8_LCASE < 'a' AS low FROM t",
        "SELECT count(*) FILTER (WHERE s COLLATE UTF8_LCASE = 'a') AS n FROM t GROUP BY id",
        "SELECT s, d, count(*) AS n, max(d) AS m FROM t GROUP BY s, d",
    ],
)
def test_what_is_judged_row_by_row_is(query: str) -> None:
    assert codes(query) == []


def test_a_type_without_equality_is_said() -> None:
    inner = "SELECT try_parse_json(s) AS v, id FROM t"
    assert codes(f"SELECT id FROM ({inner}) WHERE v IS NOT NULL") == ["NO_EQUALITY"]


def test_the_place_is_that_of_the_collation() -> None:
    (found,) = lower(
        "SELECT count(*) AS n\nFROM t GROUP BY s COLLATE UTF8_LCASE", TABLES, {}, types
    ).obstacles
    assert (found.line, found.column) == (2, 17)
