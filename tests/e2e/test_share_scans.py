"""Large sources are looked at once per refresh; here every source is large."""

from __future__ import annotations

import pytest

from anabranch import Anabranch
from anabranch.refresh import sources
from tests.e2e.world import bag

FACTS = "CREATE TABLE facts (id BIGINT, item BIGINT, place STRING, n DECIMAL(9,2), x DOUBLE)"
QUERIES = {
    "joined": """SELECT i.kind, p.town, sum(f.n) AS n FROM facts f
        JOIN items i ON f.item = i.id JOIN places p ON f.place <=> p.name GROUP BY ALL""",
    "without": "SELECT i.id FROM items i WHERE NOT EXISTS (SELECT * FROM facts f WHERE f.item = i.id)",
    "highest": """SELECT i.id, h.x FROM items i
        LEFT JOIN (SELECT item, max(x) AS x FROM facts GROUP BY item) h ON h.item = i.id""",
}
WINDOWS = (
    ["INSERT INTO facts VALUES (5, 2, 'a', 7, -0.0), (5, 2, 'a', 7, -0.0), (6, NULL, NULL, 1, 9)",
     "UPDATE places SET town = 'z' WHERE name IS NULL", "DELETE FROM facts WHERE id = 1"],
    ["INSERT INTO facts VALUES (7, 3, 'b', 2, 0.0)", "DELETE FROM items WHERE id = 3",
     "DELETE FROM facts WHERE id = 5", "DELETE FROM places WHERE name = 'a'"],
)  # fmt: skip


@pytest.mark.extended
def test_kept_equals_recomputed(ab: Anabranch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LARGE_ROWS", 1)
    with ab.transaction():
        ab.sql(FACTS)
        ab.sql("CREATE TABLE items (id BIGINT, kind STRING)")
        ab.sql("CREATE TABLE places (name STRING, town STRING)")
        ab.sql("""INSERT INTO facts VALUES (1, 1, 'a', 5, 1), (2, 1, 'b', 5, NULL),
            (3, 2, NULL, 4, 0.0), (4, 3, 'b', NULL, -0.0), (4, 3, 'b', NULL, -0.0)""")
        ab.sql("INSERT INTO items VALUES (1, 'x'), (2, 'y'), (3, 'y'), (4, 'y'), (NULL, 'x')")
        ab.sql("INSERT INTO places VALUES ('a', 'p'), ('b', 'q'), (NULL, 'r'), ('b', 'q')")
    ab.create_stream_tables(QUERIES, refresh_mode="DIFFERENTIAL", schedule=None)
    for window in WINDOWS:
        with ab.transaction():
            for statement in window:
                ab.sql(statement)
        ab.refresh()
        with ab.at() as world:
            for name, query in QUERIES.items():
                assert bag(world.table(name)) == bag(world.sql(query)), name
                assert ab.history(name, limit=1)[0]["action"] in ("DIFFERENTIAL", "NO_DATA")
