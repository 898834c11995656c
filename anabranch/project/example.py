"""The project that `anabranch init` writes: a small diamond with tests, an index and a cluster."""

from __future__ import annotations

PROFILES = """
# Values for :name in the files of models/ and clusters/; a profile may say otherwise. `--profile prod`
# chooses a profile, and [profiles.prod] may hold settings of its own, such as catalog and warehouse.
[variables]
big_order = 100

[profiles.dev.variables]
regions = ["eu", "us"]
weight = 1

[profiles.prod.variables]
regions = ["eu", "us", "asia"]
weight = 3
"""

FILES = {
    "clusters/reports.sql": """\
-- Stream tables IN CLUSTER reports refresh in this scheduler pool of Spark.
CREATE CLUSTER reports POOL 'reports' WITH (weight = :weight);
""",
    "models/shop/sales/orders.sql": """\
-- A source table: its rows are written by others.
CREATE TABLE orders (
  id BIGINT NOT NULL,
  product_id BIGINT NOT NULL,
  region STRING,
  amount DECIMAL(12, 2)
);

COMMENT ON TABLE orders IS 'one row for each order';
""",
    "models/shop/sales/products.sql": """\
CREATE TABLE products (id BIGINT NOT NULL, category STRING);
""",
    "models/shop/report/order_lines.sql": """\
-- Names without a schema mean this one; sales.orders is shop.sales.orders.
CREATE STREAM TABLE order_lines IN CLUSTER reports AS
SELECT o.id, o.region, p.category, o.amount, o.amount >= :big_order AS is_big
FROM sales.orders AS o
JOIN sales.products AS p ON p.id = o.product_id
WHERE o.region IN (:regions);

-- A sorted copy: looking up one order reads few files.
CREATE INDEX by_id ON order_lines (id);

CREATE TEST knows_the_category
  GIVEN sales.orders (id, product_id, region, amount) AS (
    VALUES (1, 7, 'eu', 100.00), (2, 7, 'us', 99.99), (3, 8, 'eu', 1.00), (4, 7, 'mars', 1.00)
  )
  GIVEN sales.products AS (VALUES (7, 'books'))
  EXPECT (id, category, is_big) AS (VALUES (1, 'books', true), (2, 'books', false));
""",
    "models/shop/report/by_region.sql": """\
CREATE STREAM TABLE by_region IN CLUSTER reports AS
SELECT region, count(*) AS orders, sum(amount) AS revenue
FROM order_lines
GROUP BY region;

CREATE TEST adds_up
  GIVEN order_lines (region, amount) AS (VALUES ('eu', 10.00), ('eu', 5.00), ('us', NULL))
  EXPECT (SELECT 'eu' AS region, 2 AS orders, 15.00 AS revenue UNION ALL SELECT 'us', 1, NULL);
""",
    "models/shop/report/by_category.sql": """\
CREATE STREAM TABLE by_category IN CLUSTER reports AS
SELECT category, sum(amount) AS revenue
FROM order_lines
GROUP BY category;

CREATE TEST nothing_sold EXPECT NO ROWS;
""",
    "models/shop/report/overview.sql": """\
-- Both sides come from order_lines: the three tables are published together, or not.
CREATE STREAM TABLE overview AS
SELECT r.regions, c.categories, r.revenue - c.revenue AS difference
FROM (SELECT count(*) AS regions, sum(revenue) AS revenue FROM by_region) AS r
CROSS JOIN (SELECT count(*) AS categories, sum(revenue) AS revenue FROM by_category) AS c;

CREATE TEST both_ways_give_one_total
  GIVEN by_region (region, revenue) AS (VALUES ('eu', 10.00), ('us', 5.00))
  GIVEN by_category (category, revenue) AS (VALUES ('books', 15.00))
  EXPECT (VALUES (2, 1, 0.00));
""",
}
