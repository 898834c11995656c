from __future__ import annotations

import sqlglot

from tests.oracle.cases import Case, Seeded, judge
from tests.oracle.kept import World
from tests.oracle.queries import draw
from tests.oracle.shrink import fixture, simpler, smallest
from tests.oracle.tables import TABLES

CASE = Case(
    "SELECT r1.id AS c0, count(*) AS c1 FROM a AS r1 FULL JOIN b AS r2 ON r1.k = r2.k AND r1.id > 1"
    " WHERE r1.v = 'x' OR r2.k IS NULL GROUP BY r1.id HAVING count(*) > 1",
    ("INSERT INTO a (id, k, v) VALUES (1, 1, 'x'), (2, NULL, 'y')",),
    (
        (
            "DELETE FROM a WHERE id IS NOT DISTINCT FROM 1",
            "INSERT INTO b (id, k, w) VALUES (1, 1, 'x')",
        ),
        ("UPDATE a SET k = 1",),
    ),
    noise=True,
)


def test_only_what_matters_stays() -> None:
    def fails(case: Case) -> bool:
        rows = [text for window in case.windows for text in window]
        return "FULL" in case.query.upper() and any("NULL, 'y'" in text for text in rows)

    small = smallest(CASE, fails)
    assert small.start == ()
    assert small.windows == (("INSERT INTO a (id, k, v) VALUES (2, NULL, 'y')",),)
    assert not small.noise
    assert "WHERE" not in small.query
    assert "HAVING" not in small.query
    assert "GROUP" not in small.query


def test_smaller_queries_are_queries() -> None:
    for seed in range(20):
        for text in simpler(draw(seed).text):
            assert text != draw(seed).text
            assert isinstance(sqlglot.parse_one(text, read="spark"), sqlglot.exp.Query)


def test_orders_are_left_whole() -> None:
    query = "SELECT r1.id AS c0 FROM a AS r1 ORDER BY r1.id, r1.k, r1.v LIMIT 1"
    for text in simpler(query):
        assert "LIMIT" not in text or "ORDER BY r1.id, r1.k, r1.v" in text


def test_a_fixture_says_what_is_right() -> None:
    case = Case(
        "SELECT r1.v AS c0, r1.k AS c1 FROM a AS r1",
        ("INSERT INTO a (id, k, v) VALUES (1, NULL, 'x')",),
        (("DELETE FROM a WHERE id = 2",),),
    )
    assert fixture(World(TABLES), case, "title").splitlines() == [
        "--- title",
        "SELECT r1.v AS c0, r1.k AS c1 FROM a AS r1",
        "-- change",
        "INSERT INTO a (id, k, v) VALUES (1, NULL, 'x')",
        "-- change",
        "DELETE FROM a WHERE id = 2",
        "-- expect",
        "('x', NULL)",
    ]


def test_a_case_is_its_seed() -> None:
    assert [Seeded(seed).case for seed in range(50)] == [Seeded(seed).case for seed in range(50)]
    assert len({Seeded(seed).case.query for seed in range(50)}) > 20
    assert len({Seeded(seed).case.start for seed in range(50)}) > 45


def test_what_duckdb_does_not_take_is_no_finding() -> None:
    assert judge(World(TABLES), Case("SELECT nothing FROM a", (), ())).kind == "invalid"
