"""What happens in the demo: the tables, and rounds of changes to the source."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from anabranch.lazy import lazy

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.api import Anabranch
else:
    pa = lazy("pyarrow")

SOURCE = "shop.sales"
SUMMARY = "shop.exec_summary"
REGIONS = ("north", "south", "east", "west")
FIRST_ROWS = 20_000
FIRST_DAY = datetime(2026, 1, 1, tzinfo=timezone.utc)

CREATE_SOURCE = """
CREATE TABLE shop.sales (
    id BIGINT, region STRING, product_id BIGINT, amount DECIMAL(12,2), created_at TIMESTAMP
)"""

QUERIES = {
    "shop.revenue_by_region": """
SELECT region, sum(amount) AS revenue, count(*) AS sale_count
FROM shop.sales GROUP BY region""",
    "shop.revenue_by_product": """
SELECT product_id, sum(amount) AS revenue, count(*) AS sale_count
FROM shop.sales GROUP BY product_id""",
    "shop.exec_summary": """
SELECT 'total' AS label, r.total AS regional_total, p.total AS product_total
FROM (SELECT sum(revenue) AS total FROM shop.revenue_by_region) r
CROSS JOIN (SELECT sum(revenue) AS total FROM shop.revenue_by_product) p""",
}

PICTURE = """\
              shop.sales
             ╱          ╲
revenue_by_region    revenue_by_product
             ╲          ╱
            exec_summary      regional_total = product_total, always"""


@dataclass(frozen=True)
class Round:
    title: str
    change: Callable[[Anabranch], Any]


def sales(first: int, count: int, seed: int) -> pa.Table:
    """Made-up sales with ids from `first`; the same seed gives the same sales."""
    chance = random.Random(seed)
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "region": pa.array([chance.choice(REGIONS) for _ in ids], pa.string()),
            "product_id": pa.array([chance.randint(1, 50) for _ in ids], pa.int64()),
            "amount": pa.array(
                [Decimal(chance.randint(100, 99_999)).scaleb(-2) for _ in ids],
                pa.decimal128(12, 2),
            ),
            "created_at": pa.array(
                [FIRST_DAY + timedelta(minutes=each) for each in ids], pa.timestamp("us", "UTC")
            ),
        }
    )


def set_up(ab: Anabranch) -> None:
    ab.sql(CREATE_SOURCE)
    ab.append(SOURCE, sales(1, FIRST_ROWS, seed=1))
    ab.create_stream_tables(QUERIES, refresh_mode="DIFFERENTIAL", schedule=None)


def sell(ab: Anabranch) -> None:
    ab.append(SOURCE, sales(FIRST_ROWS + 1, 1_000, seed=2))


def correct(ab: Anabranch) -> None:
    ab.sql("UPDATE shop.sales SET amount = amount + 5.00 WHERE region = 'north' AND id % 20 = 0")


def refund(ab: Anabranch) -> None:
    ab.sql("DELETE FROM shop.sales WHERE id % 61 = 0")


def rest(ab: Anabranch) -> None:
    """Nothing is written."""


def close_the_day(ab: Anabranch) -> None:
    with ab.transaction():
        ab.append(SOURCE, sales(FIRST_ROWS + 1_001, 500, seed=3))
        ab.sql("UPDATE shop.sales SET region = 'south' WHERE region = 'west' AND id % 10 = 0")
        ab.sql("DELETE FROM shop.sales WHERE amount < 2.00")


ROUNDS = (
    Round("1,000 new sales arrive", sell),
    Round("prices of some sales in the north are corrected", correct),
    Round("some sales are refunded and deleted", refund),
    Round("nothing happens", rest),
    Round("one transaction sells, moves sales between regions, and deletes", close_the_day),
)
