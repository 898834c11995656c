"""Query text to plan: names, scopes, grouping; what is refused and where."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from anabranch.errors import SqlSyntaxError, UnknownName, UserError
from anabranch.model import Column
from anabranch.names import TableName
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import Aggregate, Join, Node, Project, UnionAll, Window
from anabranch.plan.show import show
from anabranch.plan.walk import walk
from anabranch.sql.lower.query import Lowered, lower
from anabranch.sql.lower.supported import SUPPORTED, Supported

TABLES = {
    TableName.of("a"): tuple(Column(name, "int") for name in ("id", "k", "v")),
    TableName.of("b"): tuple(Column(name, "int") for name in ("id", "k", "w")),
    TableName.of("shop", "Sales"): (
        Column("Id", "bigint"),
        Column("amount", "double"),
        Column("who", "struct<name:string,at:struct<city:string>>"),
    ),
}


def types(node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
    return ["double" if "amount" in expr.text else "int" for expr in exprs]


def lowered(query: str, **views: str) -> Lowered:
    return lower(query, TABLES, {TableName.of(n): text for n, text in views.items()}, types)


def plan(query: str, **views: str) -> Node:
    found = lowered(query, **views)
    assert found.plan is not None, found.obstacles
    return found.plan


def codes(query: str, **views: str) -> list[tuple[str, int, int]]:
    return [(each.code, each.line, each.column) for each in lowered(query, **views).obstacles]


def test_the_plan_reads_like_the_query() -> None:
    text = "SELECT x.v, count(*) AS n FROM a x JOIN b ON x.k = b.k WHERE b.w > 1 GROUP BY x.v"
    assert show(plan(text)) == "\n".join(
        [
            "Project x.v as v, COUNT(*) as n",
            "  Aggregate COUNT(*) by x.v",
            "    Join on x.k = b.k AND b.w > 1",
            "      Project k as x.k, v as x.v",
            "        Scan default.a (k, v)",
            "      Project k as b.k, w as b.w",
            "        Scan default.b (k, w)",
        ]
    )


def test_output_names_are_as_written_and_sources_are_found() -> None:
    found = lowered("SELECT s.ID, WHO.name AS N FROM shop.sales s")
    assert found.output == ("ID", "N")
    assert found.sources == {TableName.of("shop", "Sales")}


def test_given_output_names_win() -> None:
    output = (Column("A", "int"), Column("count(1)", "bigint"))
    found = lower("SELECT k, count(*) FROM a GROUP BY k", TABLES, {}, types, output=output)
    assert found.plan is not None
    assert found.plan.columns == ("A", "count(1)")


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT * FROM a JOIN b USING (k)", ["k", "id", "v", "id", "w"]),
        ("SELECT b.* FROM a JOIN b USING (k)", ["k", "id", "w"]),
        ("SELECT * FROM a NATURAL JOIN b", ["id", "k", "v", "w"]),
        ("SELECT b.*, a.v FROM a, b", ["id", "k", "w", "v"]),
        ("SELECT * EXCEPT (k) FROM a", ["id", "v"]),
        ("SELECT * FROM (SELECT id, k FROM a) AS s(x, y)", ["x", "y"]),
        ("SELECT * FROM (a JOIN b ON a.id = b.id)", ["id", "k", "v", "id", "k", "w"]),
        ("WITH w(p, q, r) AS (TABLE_OF) SELECT r, p FROM w", ["r", "p"]),
        ("SELECT * FROM VALUES (1, 'x'), (2, 'y')", ["col1", "col2"]),
    ],
)
def test_stars_are_spark_s(query: str, columns: list[str]) -> None:
    query = query.replace("TABLE_OF", "SELECT * FROM a")
    outputs = lower(
        f"SELECT count(*) AS n FROM ({query}) q", TABLES, {}, types
    )  # the outer query allows repeated names
    assert outputs.plan is not None
    if len(set(columns)) == len(columns):
        assert list(lowered(query).output) == columns
    else:
        with pytest.raises(UserError, match="two columns of the query are named"):
            lowered(query)


@pytest.mark.parametrize(
    ("query", "expression"),
    [
        ("SELECT s.who.name AS x FROM shop.sales s", "`who`.name"),
        ("SELECT who.at.city AS x FROM shop.sales", "`who`.at.city"),
        ("SELECT shop.sales.who.at.city AS x FROM shop.sales", "`who`.at.city"),
        ("SELECT nvl(v, 0) AS x FROM a", "NVL(`v`, 0)"),
        ("SELECT date_trunc('month', v) AS x FROM a", "DATE_TRUNC('month', `v`)"),
        ("SELECT dateadd(DAY, 1, v) AS x FROM a", "DATEADD(DAY, 1, `v`)"),
        ("SELECT try_cast(v AS INT) AS x FROM a", "TRY_CAST(`v` AS INT)"),
        ("SELECT v::int AS x FROM a", "CAST(`v` AS INT)"),
        ("SELECT 'it''s' AS x FROM a", r"'it\'s'"),
        ("SELECT hash(*) AS x FROM a", "HASH(`id`, `k`, `v`)"),
        (
            "SELECT transform(array(v), e -> e + k) AS x FROM a",
            "TRANSFORM(ARRAY(`v`), e -> e + `k`)",
        ),
        ("SELECT v + 1 AS y, y * 2 AS x FROM a", "(`v` + 1) * 2"),
        ("SELECT k AS v, v AS x FROM a", "`v`"),
        ("SELECT a.v / a.k AS x FROM a", "`v` / `k`"),
    ],
)
def test_expressions_stay_what_they_were(query: str, expression: str) -> None:
    root = plan(query)
    assert isinstance(root, Project)
    assert next(item for item in root.items if item.name == "x").expr.text == expression


def test_where_and_nested_joins_make_one_join() -> None:
    root = plan("SELECT a.v FROM (a CROSS JOIN b) JOIN a c ON c.k = b.k WHERE a.k = b.k")
    joins = [node for node in walk(root) if isinstance(node, Join)]
    assert len(joins) == 1
    assert len(joins[0].parts) == 3


def test_group_by_a_column_before_an_alias() -> None:
    root = plan("SELECT k + 1 AS id, count(*) AS n FROM a GROUP BY k + 1, v")
    assert [key.expr.text for key in _aggregate(root).keys] == ["`a.k` + 1", "`a.v`"]
    with_alias = plan("SELECT k + 1 AS z, count(*) AS n FROM a GROUP BY z")
    assert [key.expr.text for key in _aggregate(with_alias).keys] == ["`a.k` + 1"]


def test_group_expressions_match_in_any_order() -> None:
    root = plan("SELECT (1 + k) * 2 AS x FROM a GROUP BY k + 1")
    assert isinstance(root, Project)
    assert root.items[0].expr.text == "`a.k + 1` * 2"


def test_having_prefers_columns_inside_calls_and_aliases_outside() -> None:
    text = show(plan("SELECT k, sum(v) AS v FROM a GROUP BY k HAVING v > 1 AND max(v) > 2"))
    assert "Filter SUM(a.v) > 1 AND MAX(a.v) > 2" in text


def test_a_cte_sees_the_table_of_its_own_name() -> None:
    found = lowered("WITH a AS (SELECT k FROM a WHERE v > 0) SELECT k FROM a")
    assert found.sources == {TableName.of("a")}
    assert "Filter" in show(plan("WITH a AS (SELECT k FROM a WHERE v > 0) SELECT k FROM a"))


def test_inner_ctes_hide_outer_ones() -> None:
    text = (
        "WITH w AS (SELECT id FROM a) SELECT * FROM (WITH w AS (SELECT w FROM b) SELECT * FROM w)"
    )
    assert lowered(text).output == ("w",)


def test_views_are_read_through() -> None:
    found = lowered("SELECT * FROM big", big="SELECT v FROM small", small="SELECT v, k FROM a")
    assert found.sources == {TableName.of("a")}
    assert found.output == ("v",)


def test_views_in_a_circle() -> None:
    with pytest.raises(UserError, match=r"default\.x → default\.y → default\.x"):
        lowered("SELECT * FROM x", x="SELECT * FROM y", y="SELECT * FROM x")


def test_union_gets_one_type() -> None:
    asked: list[Node] = []

    def widest(node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
        asked.append(node)
        return ["bigint"] * len(exprs)

    tables = {**TABLES, TableName.of("b"): (Column("w", "bigint"),)}
    found = lower("SELECT k FROM a UNION ALL SELECT w FROM b", tables, {}, widest)
    assert [type(node) for node in asked] == [UnionAll], "the sources' own columns are known"
    assert found.plan is not None
    text = show(found.plan)
    assert "CAST(k AS BIGINT) as k" in text
    assert "w as k" in text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT a.v FROM a JOIN b ON EXISTS (SELECT 1 FROM b c WHERE c.k = a.k + b.k)",
            [("SUBQUERY_IN_JOIN", 1, 26)],
        ),
        ("SELECT (SELECT k, w FROM b) AS m FROM a", [("SCALAR_SUBQUERY", 1, 8)]),
        ("SELECT v FROM a\nLIMIT 3", [("LIMIT_WITHOUT_ORDER", 2, 1)]),
        ("SELECT row_number() AS r FROM a", [("WINDOW", 1, 8)]),
        (
            "SELECT last(v) OVER (PARTITION BY k ORDER BY id) AS r FROM a",
            [("ORDER_DEPENDENT_WINDOW", 1, 8)],
        ),
        ("SELECT k FROM a UNION BY NAME SELECT w FROM b", [("SET_OPERATION", 1, 17)]),
        (
            "SELECT id FROM a GROUP BY CUBE (id, k, v, id+1, k+1, v+1, id+2)",
            [("GROUPING_SETS", 1, 27)],
        ),
        ("SELECT a.v FROM a JOIN b ON a.k NOT IN (SELECT k FROM b)", [("SUBQUERY_IN_JOIN", 1, 29)]),
        ("SELECT k FROM a\nWHERE window(v, '2 days', '1 day').start > 1", [("TIME_WINDOW", 2, 7)]),
        ("SELECT session_window(v, '1 day') AS w FROM a", [("TIME_WINDOW", 1, 8)]),
        (
            "SELECT window(v, '1 day') AS w, window(v, '2 days') AS x FROM a",
            [("TIME_WINDOW", 1, 33)],
        ),
        ("SELECT a.k FROM a JOIN b ON window(a.v, '1 day') = b.w", [("TIME_WINDOW", 1, 29)]),
        ("SELECT window(v, concat('1', ' day')) AS w FROM a", [("TIME_WINDOW", 1, 8)]),
        ("SELECT rand() AS r FROM a", [("NONDETERMINISTIC_FUNCTION", 1, 8)]),
        ("SELECT now() AS r FROM a", [("TIME_DEPENDENT_FUNCTION", 1, 8)]),
        ("SELECT unix_timestamp() AS r FROM a", [("TIME_DEPENDENT_FUNCTION", 1, 8)]),
        ("SELECT localtimestamp AS r FROM a", [("TIME_DEPENDENT_FUNCTION", 1, 8)]),
        ("SELECT k, first(v) AS f FROM a GROUP BY k", [("ORDER_DEPENDENT_AGGREGATE", 1, 11)]),
        ("SELECT approx_percentile(v, 0.5) AS n FROM a", [("APPROXIMATE_AGGREGATE", 1, 8)]),
        ("SELECT collect_list(v) AS n FROM a", [("ORDER_DEPENDENT_AGGREGATE", 1, 8)]),
        ("SELECT my_own(v) AS n FROM a", [("UNKNOWN_FUNCTION", 1, 8)]),
        ("SELECT * FROM range(3)", [("TABLE_FUNCTION", 1, 15)]),
        ("SELECT v FROM a TABLESAMPLE (10 PERCENT)", [("SAMPLE", 1, 15)]),
        (
            "WITH RECURSIVE r (v) MAX RECURSION LEVEL 9 AS (SELECT v FROM a UNION ALL "
            "SELECT r.v FROM r JOIN a ON a.v = r.v) SELECT v FROM r",
            [("RECURSION_LEVEL", 1, 16)],
        ),
        ("SELECT v FROM a VERSION AS OF 3", [("TIME_TRAVEL", 1, 15)]),
        ("SELECT CAST(v AS TIME) AS t FROM a", [("UNSUPPORTED_SYNTAX", 1, 13)]),
        ("FROM a |> WHERE v > 1", [("PIPE_SYNTAX", 1, 8)]),
        (
            "SELECT max(s) AS m FROM (SELECT Id, sum(amount) AS s FROM shop.sales GROUP BY Id)",
            [("INEXACT_AGGREGATE", 1, 37)],
        ),
        (
            "SELECT now() AS t, rand() AS r\nFROM a LEFT JOIN b ON a.k = b.k",
            [
                ("TIME_DEPENDENT_FUNCTION", 1, 8),
                ("NONDETERMINISTIC_FUNCTION", 1, 20),
            ],
        ),
    ],
)
def test_obstacles_and_their_places(query: str, expected: list[tuple[str, int, int]]) -> None:
    assert sorted(codes(query)) == sorted(expected)
    assert lowered(query).plan is None
    assert lowered(query).sources or "range" in query


def test_an_obstacle_in_a_view_names_the_view() -> None:
    (found,) = lowered("SELECT * FROM top3", top3="SELECT v FROM a LIMIT 3").obstacles
    assert found.view == TableName.of("top3")
    assert str(found).startswith("LIMIT_WITHOUT_ORDER at in view default.top3, line 1, column 17")


def test_exact_aggregates_may_be_nested_and_floating_ones_stand_at_the_root() -> None:
    assert plan("SELECT Id, sum(amount) AS s FROM shop.sales GROUP BY Id")
    assert plan("SELECT max(s) AS m FROM (SELECT k, sum(v) AS s FROM a GROUP BY k)")


def test_ordered_listings_are_taken() -> None:
    assert plan("SELECT k, listagg(v, ',') WITHIN GROUP (ORDER BY v) AS l FROM a GROUP BY k")
    unordered = codes("SELECT k, listagg(v, ',') WITHIN GROUP (ORDER BY id) AS l FROM a GROUP BY k")
    assert [code for code, _, _ in unordered] == ["ORDER_DEPENDENT_AGGREGATE"]


def test_unknown_names_offer_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r'table shop\.sale does not exist[^"]*"shop\.Sales"'):
        lowered("SELECT 1 FROM shop.sale")
    with pytest.raises(UnknownName, match=r'column amout does not exist[^"]*"amount"'):
        lowered("SELECT amout FROM shop.sales")


def test_a_made_up_name_is_an_obstacle_not_an_error() -> None:
    found = codes("SELECT `count(1)` FROM (SELECT count(*) FROM a)")
    assert [code for code, _, _ in found] == ["NO_COLUMN_NAME"]


def test_ambiguous_repeated_and_reserved_names() -> None:
    with pytest.raises(UserError, match="column k is ambiguous"):
        lowered("SELECT k FROM a, b")
    with pytest.raises(UserError, match="two columns of the query are named k"):
        lowered("SELECT a.k, b.k FROM a, b")
    with pytest.raises(UserError, match="reserved"):
        lowered("SELECT k AS _ab_n FROM a")


def test_syntax_errors_have_a_place() -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        lowered("SELECT v\nFROM a WHERE )")
    assert caught.value.line == 2


def _aggregate(root: Node) -> Aggregate:
    return next(node for node in walk(root) if isinstance(node, Aggregate))


@pytest.mark.parametrize("part", SUPPORTED, ids=lambda part: part.part)
def test_what_is_said_to_be_incremental_is(part: Supported) -> None:
    found = lowered(part.example)
    assert not found.obstacles
    assert found.plan is not None


def test_a_sorted_list_of_a_group_is_incremental() -> None:
    assert not lowered("SELECT k, sort_array(collect_list(v)) AS vs FROM a GROUP BY k").obstacles


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, mode() WITHIN GROUP (ORDER BY v) AS m, mode(v, true) AS n FROM a GROUP BY k",
        "SELECT k, size(collect_set(v)) AS n, array_max(collect_list(v)) AS m FROM a GROUP BY k",
        "SELECT CAST(k AS STRING) LIKE ANY ('1%', '2%') AS l FROM a",
        "SELECT count(DISTINCT *) AS n FROM a",
        "SELECT id FROM a WHERE (SELECT count(*) FROM (SELECT DISTINCT w FROM b WHERE b.k = a.k)) > 1",
    ],
)
def test_what_does_not_depend_on_the_order_of_rows_is_incremental(query: str) -> None:
    assert plan(query)


def test_fields_are_named_as_written_and_not_as_in_the_plan() -> None:
    text = show(plan("SELECT to_json(struct(a.V, b.w + 1, b.*)) AS j FROM a JOIN b ON a.k = b.k"))
    assert "STRUCT(a.v AS V, b.w + 1 AS col2, b.id AS id, b.k AS k, b.w AS w)" in text
    text = show(plan("SELECT max((v, id)).id AS m, k FROM a GROUP BY k"))
    assert "MAX(STRUCT(a.v AS v, a.id AS id))" in text
    text = show(plan("SELECT arrays_zip(x, array(1)) AS z FROM (SELECT array(v) AS x, k FROM a)"))
    assert "STRUCT(_ab_e.0 AS x, _ab_e.1 AS 1)" in text


def test_alternatives_are_no_struct() -> None:
    text = show(plan("SELECT id FROM a WHERE (k, v) IN ((1, 2)) OR id LIKE ANY ('1%', '2%')"))
    assert "(k, v) IN ((1, 2)) OR id LIKE ANY ('1%', '2%')" in text


def test_order_by_all_is_by_every_column() -> None:
    assert "TopK 2 by _ab_by desc, _ab_by#2 desc" in show(
        plan("SELECT k, v FROM a ORDER BY ALL DESC LIMIT 2")
    )


def test_a_name_that_only_spark_finds_is_no_error_of_the_user() -> None:
    seen_by_spark = tuple(Column(name, "int") for name in ("id", "hidden"))
    found = lower("SELECT id, hidden FROM a", TABLES, {}, types, output=seen_by_spark)
    assert found.plan is None
    assert [each.code for each in found.obstacles] == ["UNSUPPORTED_SYNTAX"]


def windows_of(query: str) -> list[Window]:
    return [node for node in walk(plan(query)) if isinstance(node, Window)]


def test_two_orders_of_equal_rows_agree_which_is_which() -> None:
    """Which answer of one stands beside which of the other must not be left to chance."""
    above, below = windows_of(
        "SELECT lead(v) OVER (ORDER BY k, v) AS x, row_number() OVER (ORDER BY v, k) AS y FROM a"
    )
    (first,), (second,) = below.calls, above.calls
    assert first.name in second.expr.columns
    assert not any(name.startswith("_ab_win") for name in first.expr.columns)


@pytest.mark.parametrize(
    "other",
    [
        "lag(v) OVER (ORDER BY k, v)",  # the same order
        "rank() OVER (ORDER BY v)",  # equal rows have the same rank
        "sum(v) OVER ()",
    ],
)
def test_one_order_of_equal_rows_goes_on_as_it_is(other: str) -> None:
    (node,) = windows_of(f"SELECT lead(v) OVER (ORDER BY k, v) AS x, {other} AS y FROM a")
    assert not any(name.startswith("_ab_win") for call in node.calls for name in call.expr.columns)
