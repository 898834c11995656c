"""A small change reads only the files where its keys can lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anabranch import Anabranch
from anabranch.refresh.execute import scans

FILES = 4
QUERIES = {
    "joined": "SELECT o.id, o.day, i.price FROM orders o JOIN items i ON i.order_id = o.id",
    "outer_joined": "SELECT o.id, i.price FROM orders o LEFT JOIN items i ON i.order_id = o.id",
    "bare": """SELECT id FROM orders o
        WHERE NOT EXISTS (SELECT * FROM items i WHERE i.order_id = o.id)""",
    "dear": "SELECT order_id, max(price) AS p FROM items GROUP BY order_id HAVING max(price) > 5",
    "named": "SELECT o.day, d.name FROM orders o JOIN days d ON d.day = o.day",
}


@pytest.fixture
def shop(ab: Anabranch) -> Anabranch:
    """Four files of each table, with keys of their own."""
    ab.sql("CREATE TABLE orders (id BIGINT, day DATE)")
    ab.sql("CREATE TABLE items (order_id INT, price INT)")
    ab.sql("CREATE TABLE days (day DATE, name STRING)")
    day = "DATE '2024-01-01' + INT(id)"
    for first in range(0, 100 * FILES, 100):
        with ab.transaction():
            for table, row in (
                ("orders", f"id, {day} AS day"),
                ("items", "INT(id) AS order_id, INT(id % 9) AS price"),
                ("days", f"{day} AS day, STRING(id) AS name"),
            ):
                query = f"SELECT {row} FROM range({first}, {first + 90}, 1, 1)"
                ab.append(table, ab.spark.sql(query))
    ab.sql("INSERT INTO items VALUES (NULL, 7)")
    ab.create_stream_tables(QUERIES, refresh_mode="DIFFERENTIAL", schedule=None)
    return ab


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files each scan of a source reads."""
    read: list[int] = []
    frame: Callable[..., Any] = scans.frame

    def counted(session: Any, reading: Any, columns: Any) -> Any:
        read.append(len(reading.files))
        return frame(session, reading, columns)

    monkeypatch.setattr(scans, "frame_once", counted)
    return read


WINDOWS = {
    "together": (
        "UPDATE items SET price = 8 WHERE order_id BETWEEN 110 AND 120",
        "DELETE FROM orders WHERE id = 115",
        "INSERT INTO orders VALUES (195, DATE '2024-05-01')",
    ),
    "apart": (
        "DELETE FROM items WHERE order_id IN (3, 399)",
        "INSERT INTO orders VALUES (1000, NULL), (NULL, DATE '2024-02-02')",
        "UPDATE days SET name = 'x' WHERE name = '150'",
    ),
    "without keys": (
        "UPDATE items SET price = 3 WHERE order_id IS NULL",
        "DELETE FROM orders WHERE id IS NULL",
    ),
}


@pytest.mark.extended
def test_kept_equals_recomputed(shop: Anabranch, files: list[int]) -> None:
    for window, statements in WINDOWS.items():
        with shop.transaction():
            for statement in statements:
                shop.sql(statement)
        files.clear()
        for name in QUERIES:
            shop.refresh(name)
            assert shop.history(name, limit=1)[0]["action"] in ("DIFFERENTIAL", "NO_DATA")
        if window == "together":
            assert files and max(files) <= 2  # where the keys lie, and what the window added
        for name in QUERIES:
            assert shop.verify(name)["equal"], (window, name)


@pytest.mark.extended
def test_more_of_the_table_than_not_is_read_as_all_of_it(shop: Anabranch, files: list[int]) -> None:
    shop.sql("UPDATE items SET price = 1 WHERE order_id % 100 = 5")
    files.clear()
    shop.refresh("joined")
    assert max(files) == FILES
    assert shop.verify("joined")["equal"]
