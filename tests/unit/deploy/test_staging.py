"""Names in staging schemas: raw parts, a suffix that goes exactly once, queries over both worlds."""

from __future__ import annotations

from anabranch.deploy.snapshot import ObjectKey
from anabranch.deploy.staging import Staging, over
from anabranch.names import TableName
from anabranch.sql.analyze.tables import tables_of
from tests.unit.deploy.drawing import key

STAGING = Staging("1a2b", frozenset({key("shop.sales"), key("shop.goods")}))


def test_a_name_goes_there_and_back() -> None:
    for each in (key("shop.sales"), ObjectKey("db", "a.b", "c d"), ObjectKey("db", "x__1a2b", "y")):
        assert STAGING.key(STAGING.name(each)) == each
    assert STAGING.name(key("shop.sales")) == TableName(("db", "shop__1a2b"), "sales")


def test_names_elsewhere_are_not_of_this_deployment() -> None:
    others = ("db.shop.sales", "db.shop__1a2c.sales", "db.shop.sales__1a2b", "shop__1a2b.sales")
    assert [STAGING.key(TableName.parse(name)) for name in others] == [None] * 4


def test_a_query_reads_what_is_staged_and_production_for_the_rest() -> None:
    query = "SELECT s.id FROM db.shop.sales s JOIN db.shop.other o USING (id)"
    assert tables_of(STAGING.query(query)) == {
        TableName.parse("db.shop__1a2b.sales"),
        TableName.parse("db.shop.other"),
    }


def test_columns_keep_their_table_and_case_does_not_matter() -> None:
    query = "SELECT DB.Shop.Sales.id, sales.id FROM DB.Shop.Sales"
    assert STAGING.query(query) == (
        "SELECT `Sales`.id, sales.id FROM `db`.`shop__1a2b`.`sales` AS `Sales`"
    )


def test_a_common_table_expression_of_the_same_name_reads_the_table() -> None:
    query = "WITH sales AS (SELECT * FROM db.shop.sales) SELECT * FROM sales"
    assert STAGING.query(query) == (
        "WITH sales AS (SELECT * FROM `db`.`shop__1a2b`.`sales` AS `sales`) SELECT * FROM sales"
    )


def test_nothing_staged_leaves_the_text_alone() -> None:
    query = "SELECT  *  FROM db.x.y -- as it is"
    assert Staging("1", frozenset()).query(query) == query


def test_texts_that_look_like_marks_stay() -> None:
    query = "SELECT '`_ab_other_0_`' AS t FROM db.shop.sales"
    told = over(query, {TableName.parse("db.shop.sales"): TableName.parse("a.b")})
    assert told == "SELECT '`_ab_other_0_`' AS t FROM `a`.`b` AS `sales`"
