"""Which table a query looks up, and what it asks of its columns."""

from __future__ import annotations

import pytest

from anabranch.model import Bound, Column
from anabranch.names import TableName
from anabranch.sql.lower.lookups import filtered, looked_up, lookup_bounds

COLUMNS = (Column("id", "bigint"), Column("name", "string"))


@pytest.mark.parametrize(
    ("query", "bounds"),
    [
        ("SELECT * FROM shop.t WHERE id = 5", [Bound("id", "=", (5,))]),
        ("SELECT name FROM shop.t AS x WHERE x.id IN (1, 2) AND name = 'a'", [
            Bound("id", "in", (1, 2)), Bound("name", "=", ("a",))]),
        ("SELECT count(*) FROM shop.t WHERE 5 < id GROUP BY name LIMIT 3", [Bound("id", ">", (5,))]),
        ("SELECT * FROM shop.t WHERE id = 5 OR name = 'a'", []),
        ("SELECT * FROM shop.t WHERE id + 1 = 5", []),
    ],
)  # fmt: skip
def test_a_look_up(query: str, bounds: list[Bound]) -> None:
    assert looked_up(query) == TableName.of("shop", "t")
    assert list(lookup_bounds(query, COLUMNS)) == bounds


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM shop.t",
        "SELECT 1 WHERE 1 = 1",
        "SELECT * FROM shop.t JOIN shop.u WHERE id = 5",
        "SELECT * FROM shop.t WHERE id = 5 UNION ALL SELECT * FROM shop.u",
        "SELECT * FROM shop.t WHERE id = 5 AND id IN (SELECT id FROM shop.t)",
        "WITH t AS (SELECT * FROM shop.t) SELECT * FROM t WHERE id = 5",
        "SELECT * FROM (SELECT * FROM shop.t) WHERE id = 5",
        "SELECT * FROM shop.t LATERAL VIEW explode(array(1)) AS id WHERE id = 5",
        "SELECT * FROM shop.t AS t(name, id) WHERE id = 5",
        "SELECT * FROM shop.t TABLESAMPLE (10 ROWS) WHERE id = 5",
        "SELECT * FROM range(10) WHERE id = 5",
        "nonsense",
    ],
)
def test_no_look_up(query: str) -> None:
    assert looked_up(query) is None


def test_a_condition_on_a_table_of_any_name() -> None:
    query = filtered(TableName.of("my shop", "a`b"), "id = 5")
    assert query == "SELECT * FROM `my shop`.`a``b` WHERE id = 5"
    assert looked_up(query) == TableName.of("my shop", "a`b")
