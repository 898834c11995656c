"""What Anabranch does all day, once: run by `python -m tests.matrix` in environments of their own.

Prints the versions and which private parts of libraries were missing; fails where rows are wrong.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.metadata import version
from typing import Any

import anabranch
from anabranch import Anabranch, missing

LIBRARIES = ("pyspark", "pyiceberg", "pyarrow", "sqlglot", "sqlalchemy")
TABLES = """
CREATE TABLE shop.sales (id BIGINT, region STRING, amount DECIMAL(12,2), at TIMESTAMP);
CREATE TABLE shop.regions (region STRING, land STRING);
INSERT INTO shop.sales VALUES (1, 'eu', 10.00, '2024-01-01 10:00:00'), (2, 'us', 5.50, NULL),
  (3, 'eu', 1.25, '2024-01-01 10:07:00'), (4, NULL, 2.00, '2024-01-02 00:00:00');
INSERT INTO shop.regions VALUES ('eu', 'Europe'), ('us', 'America');
"""
QUERIES = {
    "mart.by_land": "SELECT r.land, sum(s.amount) AS total, count(*) AS n, max(s.id) AS last"
    " FROM shop.sales s LEFT JOIN shop.regions r USING (region) GROUP BY r.land",
    "mart.first": "SELECT region, id FROM (SELECT region, id,"
    " row_number() OVER (PARTITION BY region ORDER BY id) AS n FROM shop.sales) WHERE n = 1",
    "mart.wide": "SELECT * FROM (SELECT region, amount FROM shop.sales)"
    " PIVOT (sum(amount) FOR region IN ('eu' AS eu, 'us' AS us))",
    "mart.times": "SELECT window.start AS s, count(*) AS n FROM shop.sales"
    " GROUP BY window(at, '5 minutes')",
    "mart.reach": "WITH RECURSIVE r(a, b) AS (SELECT id, id + 1 FROM shop.sales UNION"
    " SELECT r.a, s.id + 1 FROM r JOIN shop.sales s ON s.id = r.b) SELECT a, b FROM r",
    "mart.top": "SELECT land, total FROM mart.by_land"
    " WHERE total > (SELECT min(amount) FROM shop.sales)",
}
CHANGES = (
    "INSERT INTO shop.sales VALUES (5, 'us', 7.00, '2024-01-02 00:01:00'), (6, 'eu', 0.50, NULL)",
    "UPDATE shop.sales SET region = 'us', amount = amount * 2 WHERE id = 1",
    "DELETE FROM shop.sales WHERE region IS NULL",
    "MERGE INTO shop.sales s USING (SELECT 3 AS id, 'us' AS region UNION ALL SELECT 9, 'eu') n"
    " ON s.id = n.id WHEN MATCHED THEN UPDATE SET region = n.region"
    " WHEN NOT MATCHED THEN INSERT (id, region, amount) VALUES (n.id, n.region, 3.00)",
    "DELETE FROM shop.regions WHERE region = 'eu'",
)


def check(ab: Anabranch) -> None:
    ab.refresh()
    wrong: list[dict[str, Any]] = [
        each for name in QUERIES if not (each := ab.verify(name))["equal"]
    ]
    assert not wrong, wrong


def smoke(home: str, **settings: Any) -> None:
    with anabranch.connect(home, **{"spark.master": "local[2]", **settings}) as ab:
        ab.sql(TABLES)
        ab.create_stream_tables(QUERIES, refresh_mode="DIFFERENTIAL")
        before = ab.cuts()[0]["cut_id"]
        check(ab)
        for change in CHANGES:
            ab.sql(change)
        check(ab)
        used = {each["action"] for each in ab.history() if each["status"] == "COMPLETED"}
        assert used >= {"DIFFERENTIAL"} and not used & {"REINITIALIZE"}, used
        with ab.transaction():
            ab.sql("INSERT INTO shop.sales VALUES (10, 'eu', 1.00, NULL)")
            ab.sql("INSERT INTO shop.regions VALUES ('eu', 'Europe')")
        with ab.at(before) as world:
            assert world.table("mart.by_land").count() == 3
        ab.maintain()
        ab.refresh(full=True)
        check(ab)


def main() -> None:
    print(*(f"{each} {version(each)}" for each in LIBRARIES), sep=", ", flush=True)
    with tempfile.TemporaryDirectory() as rewriting, tempfile.TemporaryDirectory() as marking:
        smoke(rewriting)
        smoke(marking, small_table_rows=0)
    for message in missing.noted():
        print(f"  {message}")
    if "--strict" in sys.argv and missing.noted():
        sys.exit("private parts are missing")


if __name__ == "__main__":
    main()
