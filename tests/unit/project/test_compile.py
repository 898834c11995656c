"""Resolving a project offline: every mistake, none that is not one, and the order of objects."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from anabranch.deploy.snapshot import ObjectKey
from anabranch.project.example import FILES
from tests.unit.project.folder import ORDERS, REVENUE, mistakes, project


def key(name: str, schema: str = "sales") -> ObjectKey:
    return ObjectKey("shop", schema, name)


def test_names_are_relative_to_the_file(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        orders=ORDERS,
        report__orders="CREATE VIEW orders AS SELECT * FROM sales.orders",
        report__a="CREATE VIEW a AS SELECT o.id FROM orders AS o, Shop.Sales.ORDERS AS s, sales.orders",
    )
    compiled = found.check()
    assert compiled.objects[key("a", "report")].reads == {key("orders"), key("orders", "report")}
    assert compiled.objects[key("a", "report")].query == (
        "SELECT o.id FROM shop.report.orders AS o, shop.sales.orders AS s, shop.sales.orders"
    )


def test_a_cte_reads_the_table_of_its_own_name(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        orders=ORDERS,
        v="CREATE VIEW v AS WITH orders AS (SELECT * FROM orders) SELECT id FROM orders",
        w="CREATE VIEW w AS WITH other AS (SELECT 1 AS a) SELECT a FROM other",
    ).check()
    assert found.objects[key("v")].reads == {key("orders")}
    assert found.objects[key("v")].query == (
        "WITH orders AS (SELECT * FROM shop.sales.orders) SELECT id FROM orders"
    )
    assert found.objects[key("w")].reads == frozenset()


def test_upstreams_come_first_and_columns_flow_down(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        z_orders=ORDERS.replace("orders", "z_orders"),
        b="CREATE STREAM TABLE b AS SELECT region, sum(amount) AS total FROM z_orders GROUP BY ALL",
        a="CREATE VIEW a AS SELECT total * 2 AS t, region FROM b",
    ).check()
    assert [each.name for each in found.objects] == ["z_orders", "b", "a"]
    columns = found.objects[key("a")].columns
    assert columns is not None
    assert [(each.name, str(each.type)) for each in columns] == [
        ("t", "decimal(24,2)"),
        ("region", "string"),
    ]


def test_all_mistakes_of_all_files_each_with_its_place_and_cure(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        orders=ORDERS,
        revenue=REVENUE.replace("region", "regoin"),
        a="CREATE STREAM TABLE a SCHEDULE 'soon' IN CLUSTER fats AS\nSELECT *\nFROM report.orders",
        b="CREATE VIEW b AS SELECT o.idd, x.id\nFROM orders AS o\nWHERE at > 5",
        clusters__fast="CREATE CLUSTER fast",
    )
    assert mistakes(found) == [
        "a.sql:1:32: 'soon' is not a schedule: 'soon' is not a duration | use a duration "
        "such as '2s', a cron text such as '*/5 * * * *' or '@hourly', or 'calculated'",
        'a.sql:1:50: there is no cluster fats | did you mean "fast"?',
        'a.sql:3:6: there is no table shop.report.orders | did you mean "shop.sales.orders"?',
        'b.sql:1:25: column o.idd does not exist | did you mean "o.id"?',
        'b.sql:1:32: column x.id does not exist | did you mean "o.id"?',
        "b.sql:3:7: date cannot be compared with int | CAST one of them",
        'revenue.sql:1:39: column regoin does not exist | did you mean "region"?',
    ]


def test_a_mistake_is_not_blamed_on_those_who_read_it(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        orders="CREATE TABLE orders (id BIGINTT)",
        revenue=REVENUE,
        top="CREATE VIEW top AS SELECT total FROM revenue WHERE nothing = 1",
    )
    assert mistakes(found) == [
        'orders.sql:1:25: "BIGINTT" is not a type | did you mean "BIGINT"?',
        "top.sql:1:52: column nothing does not exist | columns: region, total",
    ]


def test_a_test_may_mock_what_the_query_misspells(tmp_path: Path) -> None:
    test = "; CREATE TEST t GIVEN orders AS (SELECT 1 AS id) EXPECT NO ROWS"
    found = project(tmp_path, orders=ORDERS, revenue=REVENUE.replace("FROM o", "FROM x") + test)
    assert [each.split(" | ")[0] for each in mistakes(found)] == [
        "revenue.sql:1:73: there is no table shop.sales.xrders"
    ]


@pytest.mark.parametrize(
    ("reference", "hint"),
    [
        ("ordrs", 'did you mean "orders"?'),
        ("slaes.orders", 'did you mean "shop.sales.orders"?'),
        ("report.reveneu", 'did you mean "report.revenue"?'),
        ("shp.sales.orders", 'did you mean "shop.sales.orders"?'),
        ("revenue", 'did you mean "shop.report.revenue"?'),
        ("completely.different", "every table a project reads has a file in models/"),
        ("system.cuts", "query it with `anabranch sql`"),
    ],
)
def test_the_cure_for_a_name(tmp_path: Path, reference: str, hint: str) -> None:
    found = project(
        tmp_path,
        orders=ORDERS,
        report__revenue="CREATE VIEW revenue AS SELECT 1 AS a",
        v=f"CREATE VIEW v AS SELECT 1 AS a FROM {reference}",
    )
    (said,) = mistakes(found)
    assert said.startswith("v.sql:1:37: ") and said.endswith(f"| {hint}")


CIRCLE = {
    "a": "CREATE STREAM TABLE a AS\nSELECT x FROM b",
    "b": "CREATE STREAM TABLE b AS SELECT x FROM c UNION SELECT 1 AS x",
    "c": "CREATE STREAM TABLE c AS SELECT x FROM a UNION SELECT 2 AS x",
}


def test_a_circle_prints_its_path(tmp_path: Path) -> None:
    path = "shop.sales.a -> shop.sales.b -> shop.sales.c -> shop.sales.a"
    assert mistakes(project(tmp_path, **CIRCLE)) == [
        f"a.sql:2:15: objects read each other in a cycle: {path} | break the cycle, or set "
        "allow_circular = true for stream tables"
    ]


def test_circles_of_stream_tables_may_be_allowed(tmp_path: Path) -> None:
    found = project(tmp_path, None, "allow_circular = true", **CIRCLE)
    assert mistakes(found) == []
    assert found.snapshot().objects[key("a")].reads == {key("b")}


def test_columns_inside_a_circle_are_checked(tmp_path: Path) -> None:
    wrong = {**CIRCLE, "a": "CREATE STREAM TABLE a AS SELECT xx AS x, x AS y FROM b"}
    found = project(tmp_path, None, "allow_circular = true", **wrong)
    assert mistakes(found) == ['a.sql:1:33: column xx does not exist | did you mean "x"?']


def test_a_circle_through_a_view_is_never_allowed(tmp_path: Path) -> None:
    view = CIRCLE["b"].replace("STREAM TABLE", "VIEW")
    (said,) = mistakes(project(tmp_path, None, "allow_circular = true", **{**CIRCLE, "b": view}))
    assert said.endswith("break the cycle: shop.sales.b is a view")


def test_an_object_that_reads_itself(tmp_path: Path) -> None:
    (said,) = mistakes(project(tmp_path, a="CREATE VIEW a AS SELECT 1 AS x FROM a"))
    assert "cycle: shop.sales.a -> shop.sales.a" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE INDEX i ON revenue (regio)", "2:28: shop.sales.revenue has no column regio | did"),
        ("CREATE INDEX i ON revenue (region) IN CLUSTER c", "2:47: there is no cluster c | write"),
        (
            "CREATE INDEX i ON revenue (total); CREATE INDEX I ON revenue (total)",
            "index I appears twice",
        ),
        ("COMMENT ON COLUMN revenue.totl IS ''", "2:27: shop.sales.revenue has no column totl"),
        (
            "CREATE TEST t EXPECT (totl) AS (VALUES (1))",
            "2:23: shop.sales.revenue has no column totl",
        ),
        (
            "CREATE TEST t GIVEN ordrs AS (SELECT 1) EXPECT NO ROWS",
            "does not read shop.sales.ordrs",
        ),
        ("CREATE TEST t GIVEN orders (x) AS (SELECT 1) EXPECT NO ROWS", "shop.sales.orders has no"),
        ("CREATE TEST t EXPECT NO ROWS; CREATE TEST t EXPECT NO ROWS", "test t appears twice"),
    ],
)
def test_what_belongs_to_an_object_is_checked(tmp_path: Path, text: str, said: str) -> None:
    found = mistakes(project(tmp_path, orders=ORDERS, revenue=f"{REVENUE};\n{text}"))
    assert len(found) == 1 and said in found[0], found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE VIEW v AS SELECT 1 AS a; CREATE INDEX i ON v (a)", "is a view: it has no rows"),
        ("CREATE TABLE v (a ARRAY<INT>); CREATE INDEX i ON v (a)", "is a array<int>: it cannot be"),
        (
            "CREATE TABLE v (a INT); CREATE TEST t EXPECT NO ROWS",
            "is a source table: it has no query",
        ),
        ("CREATE VIEW v (a, b) AS SELECT 1", "the view names 2 columns, its query gives 1"),
        ("CREATE VIEW v AS SELECT 1 AS a, 2 AS A", "gives the column A twice"),
        ("CREATE VIEW v AS SELECT 1 AS _ab_x", "names that start with _ab_ are reserved"),
        ("CREATE STREAM TABLE v WITH (initialise = true) AS SELECT 1 AS a", 'did you mean "init'),
        ("CREATE STREAM TABLE v WITH (initialize = 2) AS SELECT 1 AS a", "use true or false"),
        ("CREATE VIEW v AS SELECT * FROM orders VERSION AS OF 3", "time travel"),
        (
            "CREATE VIEW v AS SELECT 1 AS a FROM sales.. orders",
            '1:43: expected a table name, found "."',
        ),
    ],
)
def test_what_an_object_must_keep_to(tmp_path: Path, text: str, said: str) -> None:
    found = mistakes(project(tmp_path, orders=ORDERS, v=text))
    assert len(found) == 1 and said in found[0], found


def test_tests_may_mock_what_is_read_through_views(tmp_path: Path) -> None:
    test = "CREATE TEST t GIVEN orders AS (SELECT 1 AS id) EXPECT NO ROWS"
    found = project(
        tmp_path,
        orders=ORDERS,
        v="CREATE VIEW v AS SELECT * FROM orders",
        w=f"CREATE VIEW w AS SELECT id FROM v; {test}",
    )
    assert mistakes(found) == []


def test_the_example_compiles_in_every_profile(tmp_path: Path) -> None:
    from anabranch.project import load
    from anabranch.project.example import PROFILES

    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "anabranch.toml").write_text(PROFILES)
    for profile in ("dev", "prod"):
        compiled = load(tmp_path, profile).check()
        assert len(compiled.objects) == 6
        unknown = [
            (str(each.key), column)
            for each in compiled.objects.values()
            for column in each.columns or ()
            if column.name is None or column.type is None
        ]
        assert unknown == []


@pytest.mark.extended
def test_a_thousand_files_take_seconds(tmp_path: Path) -> None:
    """CPU time, since others may be at work on this machine."""
    files = {"o0": ORDERS.replace("orders", "o0")}
    for at in range(1, 1000):
        files[f"o{at}"] = (
            f"CREATE STREAM TABLE o{at} AS SELECT l.id, l.region, l.amount, l.at "
            f"FROM o{at - 1} AS l JOIN o{at // 2} AS r ON l.id = r.id WHERE r.amount > {at}"
        )
    start = time.process_time()
    compiled = project(tmp_path, **files).check()
    assert len(compiled.objects) == 1000
    assert time.process_time() - start < 10


def test_a_query_that_differential_refuses_is_found_with_its_reason(tmp_path: Path) -> None:
    mode = "REFRESH MODE DIFFERENTIAL AS\n"
    found = project(
        tmp_path,
        orders=ORDERS,
        now="CREATE VIEW now AS SELECT id, current_date AS today FROM orders",
        a=f"CREATE STREAM TABLE a {mode}SELECT id,\n  rand() AS x FROM orders",
        b=f"CREATE STREAM TABLE b {mode}SELECT id FROM orders LIMIT 3",
        c=f"CREATE STREAM TABLE c {mode}SELECT max(x) AS x FROM (SELECT region, "
        "sum(CAST(id AS DOUBLE)) AS x FROM orders GROUP BY region)",
        d=f"CREATE STREAM TABLE d {mode}SELECT today FROM now",
        e="CREATE STREAM TABLE e AS SELECT rand() AS x FROM orders",
        f=f"CREATE STREAM TABLE f {mode}SELECT my_own(id) AS x FROM orders",
        g=f"CREATE STREAM TABLE g {mode}SELECT region, sum(amount) AS x FROM orders GROUP BY region",
        h=f"CREATE STREAM TABLE h {mode}SELECT max(x) AS x FROM (SELECT region, "
        "sum(round(CAST(id AS DOUBLE), 2)) AS x FROM orders GROUP BY region)",
    )
    said = [each.partition(" | ")[0] for each in mistakes(found)]
    told = "cannot be refreshed incrementally"
    assert said == [
        f"a.sql:3:3: shop.sales.a {told}: NONDETERMINISTIC_FUNCTION: rand: the function may return "
        "another value for the same row",
        f"b.sql:2:23: shop.sales.b {told}: LIMIT_WITHOUT_ORDER: without ORDER BY any rows may be the "
        "first ones",
        f"c.sql:2:41: shop.sales.c {told}: INEXACT_AGGREGATE: sum: its last bits depend on the order "
        "of the rows, so the old result cannot be taken back exactly",
        f"d.sql:1:1: shop.sales.d {told}: TIME_DEPENDENT_FUNCTION: CURRENT_DATE: the value changes "
        "although no source does",
        "f.sql:2:8: there is no function my_own that Anabranch knows",
    ]


def test_one_mistake_gives_one_error_and_no_hint_names_it(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        orders=ORDERS,
        a="CREATE STREAM TABLE a AS WITH q (regoin) AS (SELECT regoin FROM orders)\n"
        "SELECT regoin, count(*) AS n FROM q WHERE regoin > 1 GROUP BY regoin",
        b="CREATE VIEW b AS SELECT o.regoin AS r, o.region_x FROM a AS o, orders AS p",
    )
    assert mistakes(found) == [
        'a.sql:1:53: column regoin does not exist | did you mean "region"?',
        "b.sql:1:40: column o.region_x does not exist | columns: o.n",
    ]


def test_the_rows_of_unit_tests_are_analyzed_too(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        orders=ORDERS,
        v="CREATE VIEW v AS SELECT id FROM orders;\n"
        "CREATE TEST t GIVEN orders (id) AS (SELECT x FROM VALUES (1) AS r (y))\n"
        "EXPECT (id) AS (SELECT 1, 2)",
    )
    assert mistakes(found) == [
        "v.sql:2:44: column x does not exist | columns: y",
        "v.sql:3:17: 1 columns are named, but the query gives 2 | name as many as there are",
    ]
