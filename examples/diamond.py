"""A diamond of stream tables: both branches and their tip move together.

Run with `python examples/diamond.py`; it works in a temporary folder.
"""

from __future__ import annotations

import tempfile

import anabranch


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        ab = anabranch.connect(home)
        ab.sql("CREATE TABLE shop.sales (id BIGINT, region STRING, product STRING, amount BIGINT)")
        ab.sql("INSERT INTO shop.sales VALUES (1, 'eu', 'tea', 10), (2, 'us', 'tea', 7)")
        ab.create_stream_tables(
            {
                "shop.by_region": """
                    SELECT region, sum(amount) AS revenue FROM shop.sales GROUP BY region""",
                "shop.by_product": """
                    SELECT product, sum(amount) AS revenue FROM shop.sales GROUP BY product""",
                "shop.summary": """
                    SELECT r.total AS regional, p.total AS product
                    FROM (SELECT sum(revenue) AS total FROM shop.by_region) r
                    CROSS JOIN (SELECT sum(revenue) AS total FROM shop.by_product) p""",
            }
        )
        with ab.transaction():
            ab.sql("INSERT INTO shop.sales VALUES (3, 'eu', 'coffee', 4)")
            ab.sql("DELETE FROM shop.sales WHERE id = 2")
        ab.refresh()
        with ab.at() as world:
            world.table("shop.summary").show()
        print(ab.history("shop.summary")[0]["action"])
        ab.close()


if __name__ == "__main__":
    main()
