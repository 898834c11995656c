"""ORDER BY … LIMIT at the root: the first rows follow from those stored, while enough are left."""

from __future__ import annotations

import pytest

from anabranch import Anabranch
from anabranch.spark.write import actions
from tests.e2e.world import bag

QUERIES = {
    "best": "SELECT player, points FROM games ORDER BY points DESC, player LIMIT 3",
    "by_town": """SELECT g.points + 1 AS more, t.town FROM games g JOIN towns t ON t.player = g.player
        ORDER BY more DESC, t.town LIMIT 4""",
    "worst": "SELECT points, player FROM games ORDER BY points, player LIMIT 50",
    "second": "SELECT player FROM games ORDER BY player LIMIT 2 OFFSET 1",
}
START = "('ann', 9), ('bob', 7), ('bob', 7), ('cy', 5), ('dee', NULL), ('eve', 1)"
WINDOWS = [  # what happens, and how often Spark writes for `best`: once more where it looks for others
    (["INSERT INTO games VALUES ('fay', 8), ('gus', 2), (NULL, 8)"], 1),
    (["DELETE FROM games WHERE player = 'eve'", "INSERT INTO towns VALUES ('fay', 'y')"], 1),
    (["DELETE FROM games WHERE player = 'ann'"], 2),
    (["UPDATE games SET points = 20 WHERE player = 'bob'"], 1),
    (["DELETE FROM games WHERE points > 5", "INSERT INTO games VALUES ('hal', 3)"], 2),
    (["DELETE FROM games", "INSERT INTO games VALUES ('ivy', 4)"], 2),
    (["INSERT INTO games VALUES ('ivy', 4), ('joe', 6), ('kim', 5), ('ivy', 4)"], 1),
]


@pytest.fixture
def games(ab: Anabranch) -> Anabranch:
    ab.sql("CREATE TABLE games (player STRING, points INT)")
    ab.sql("CREATE TABLE towns (player STRING, town STRING)")
    ab.sql(f"INSERT INTO games VALUES {START}")
    ab.sql("INSERT INTO towns VALUES ('ann', 'x'), ('bob', 'x'), ('bob', 'y'), ('cy', NULL)")
    ab.create_stream_tables(QUERIES, refresh_mode="DIFFERENTIAL", schedule=None)
    return ab


@pytest.mark.extended
def test_kept_equals_recomputed(games: Anabranch) -> None:
    for statements, writes in WINDOWS:
        with games.transaction():
            for statement in statements:
                games.sql(statement)
        before = actions()
        games.refresh("best")
        assert actions() - before == writes, statements
        for name, query in QUERIES.items():
            games.refresh(name)
            assert bag(games.table(name)) == bag(games.sql(query)), (name, statements)


def test_explain_shows_both_ways(games: Anabranch) -> None:
    told = games.explain("best")
    assert "first rows:" in told
    assert "first rows, where too few are left:" in told
