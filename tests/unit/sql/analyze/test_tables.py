"""Which tables a text reads, and the same text over others."""

from __future__ import annotations

import pytest

from anabranch.errors import AnabranchError, InvalidValue, SqlSyntaxError, Unsupported
from anabranch.names import TableName
from anabranch.sql.analyze.tables import rebind, references, tables_of
from anabranch.sql.text.tokens import Place


def names(query: str, *, expression: bool = False) -> set[str]:
    return {str(name) for name in tables_of(query, expression=expression)}


def rebound(query: str, *, expression: bool = False) -> str:
    """Each table becomes a view called by its last part and `_1`."""
    views = {name: f"{name.name}_1" for name in tables_of(query, expression=expression)}
    return rebind(query, views, expression=expression)


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT 1", set()),
        ("VALUES (1)", set()),
        ("SELECT * FROM t", {"default.t"}),
        ("SELECT * FROM shop.t, cat.shop.u", {"shop.t", "cat.shop.u"}),
        ("SELECT * FROM `my shop`.`a.b`", {"`my shop`.`a.b`"}),
        ("SELECT * FROM system.cuts", {"system.cuts"}),
        ("WITH p AS (SELECT * FROM p) SELECT * FROM p", {"default.p"}),
        ("WITH p AS (SELECT * FROM x) SELECT * FROM P", {"default.x"}),
        ("WITH p AS (SELECT 1) SELECT * FROM shop.p", {"shop.p"}),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM b", {"default.b"}),
        ("WITH a AS (SELECT 1) SELECT * FROM (WITH b AS (SELECT * FROM a) SELECT * FROM b)", set()),
        ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) x JOIN a", {"default.a"}),
        ("WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT * FROM r) SELECT * FROM r", set()),
        ("WITH a AS (SELECT 1) SELECT * FROM t WHERE x IN (SELECT * FROM a)", {"default.t"}),
        (
            "SELECT * FROM t WHERE x IN (SELECT y FROM u) OR EXISTS (FROM v SELECT 1)",
            {"default.t", "default.u", "default.v"},
        ),
        (
            "SELECT (SELECT max(x) FROM u) FROM t HAVING (SELECT 1 FROM v) > 1",
            {"default.t", "default.u", "default.v"},
        ),
        ("SELECT * FROM range(10) JOIN explode(array(1)) e", set()),
        ("SELECT * FROM t LATERAL VIEW explode(x) l AS y", {"default.t"}),
        ("SELECT * FROM t, LATERAL (SELECT * FROM u WHERE u.a = t.a)", {"default.t", "default.u"}),
        ("SELECT * FROM t JOIN LATERAL explode(t.a) AS e(x)", {"default.t"}),
        ("SELECT * FROM (a JOIN b)", {"default.a", "default.b"}),
        (
            "SELECT * FROM a UNION SELECT * FROM b INTERSECT (SELECT * FROM c)",
            {"default.a", "default.b", "default.c"},
        ),
        (
            "SELECT extract(year FROM d), trim(both 'x' FROM s) FROM t WHERE a IS DISTINCT FROM b",
            {"default.t"},
        ),
        ("SELECT /*+ BROADCAST(u) */ * FROM t u", {"default.t"}),
        ("SELECT 'FROM x', `FROM y` FROM t -- FROM z\n /* FROM w */", {"default.t"}),
        ("SELECT * FROM VALUES (1) AS v(a)", set()),
        ("FROM t |> WHERE x > 1 |> SELECT x", {"default.t"}),
        ("SELECT * FROM t ANTI JOIN u USING (k)", {"default.t", "default.u"}),
    ],
)
def test_tables_of(query: str, tables: set[str]) -> None:
    assert names(query) == tables


def test_tables_of_a_condition() -> None:
    assert names("a IN (SELECT b FROM shop.u) AND c", expression=True) == {"shop.u"}
    assert names("a = 1", expression=True) == set()


def test_references_stand_where_they_are_written() -> None:
    found = references("SELECT *\r\nFROM é.`b` x,\r\n  t WHERE a IN (SELECT 1 FROM t)")
    assert [(str(r.name), r.at) for r in found] == [
        ("`é`.b", Place(2, 6)),
        ("default.t", Place(3, 3)),
        ("default.t", Place(3, 31)),
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT 1", "SELECT 1"),
        ("SELECT x FROM shop.sales", "SELECT x FROM `sales_1` AS `sales`"),
        ("SELECT s.x FROM shop.sales s", "SELECT s.x FROM `sales_1` s"),
        ("SELECT s.x FROM shop.sales AS s(x)", "SELECT s.x FROM `sales_1` AS s(x)"),
        (
            "select shop.sales.x, SALES.y, shop.sales.*, shop . sales . z.f[0].g from shop.sales",
            "select `sales`.x, SALES.y, `sales`.*, `sales` . z.f[0].g from `sales_1` AS `sales`",
        ),
        (
            "SELECT default.t.x, s.u.y, c.s.u.z FROM t, c.s.u",
            "SELECT `t`.x, `u`.y, `u`.z FROM `t_1` AS `t`, `u_1` AS `u`",
        ),
        ("SELECT shop.sales.x FROM foo AS shop", "SELECT shop.sales.x FROM `foo_1` AS shop"),
        (
            "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM s.u WHERE s.u.a = default.t.a)",
            "SELECT * FROM `t_1` AS `t` WHERE EXISTS (SELECT 1 FROM `u_1` AS `u` WHERE `u`.a = `t`.a)",
        ),
        (
            "WITH p AS (SELECT * FROM p) SELECT p.a FROM p",
            "WITH p AS (SELECT * FROM `p_1` AS `p`) SELECT p.a FROM p",
        ),
        (
            "SELECT * FROM t TABLESAMPLE (10 PERCENT) REPEATABLE (1) JOIN u TABLESAMPLE (5 ROWS) v",
            "SELECT * FROM `t_1` TABLESAMPLE (10 PERCENT) REPEATABLE (1) AS `t` "
            "JOIN `u_1` TABLESAMPLE (5 ROWS) v",
        ),
        (
            "SELECT * FROM s.t PIVOT (sum(x) FOR y IN (1, 2)) AS p",
            "SELECT * FROM `t_1` AS `t` PIVOT (sum(x) FOR y IN (1, 2)) AS p",
        ),
        (
            "SELECT/*x*/'a;FROM t'--y\r\nFROM\tt",
            "SELECT/*x*/'a;FROM t'--y\r\nFROM\t`t_1` AS `t`",
        ),
        ("SELECT * FROM `a``b`", "SELECT * FROM `a``b_1` AS `a``b`"),
        ("SELECT * FROM date.`order`", "SELECT * FROM `order_1` AS `order`"),
        ("SELECT 'é😀' FROM é", "SELECT 'é😀' FROM `é_1` AS `é`"),
        (
            "SELECT t.a, t.y FROM s.t LATERAL VIEW explode(x) t AS y",
            "SELECT t.a, t.y FROM `t_1` AS `t` LATERAL VIEW explode(x) t AS y",
        ),
        (
            "SELECT (SELECT 1) AS t, s.t.x, t.y FROM s.t",
            "SELECT (SELECT 1) AS t, `t`.x, t.y FROM `t_1` AS `t`",
        ),
    ],
)
def test_rebind(query: str, expected: str) -> None:
    assert rebound(query) == expected


def test_tables_of_one_name_stay_apart() -> None:
    views = {TableName.of("a", "t"): "v1", TableName.of("b", "t"): "v2"}
    assert rebind("SELECT a.t.x FROM a.t JOIN b.t ON a.t.id = b.t.id", views) == (
        "SELECT `a.t`.x FROM `v1` AS `a.t` JOIN `v2` AS `b.t` ON `a.t`.id = `b.t`.id"
    )


def test_tables_without_a_new_name_stay() -> None:
    assert rebind("SELECT s.t.x FROM s.t, u", {TableName.of("u"): "v"}) == (
        "SELECT s.t.x FROM s.t, `v` AS `u`"
    )


def test_rebind_of_a_condition() -> None:
    sales = TableName.of("shop", "sales")
    text = "shop.sales.y > 1 AND x IN (SELECT a FROM s.u WHERE s.u.b = shop.sales.b)"
    assert rebind(
        text, {TableName.of("s", "u"): "v"}, expression=True, outer={sales: "target"}
    ) == ("`target`.y > 1 AND x IN (SELECT a FROM `v` AS `u` WHERE `u`.b = `target`.b)")


@pytest.mark.parametrize(
    ("query", "kind", "says"),
    [
        ("SELECT * FROM t VERSION AS OF 3", Unsupported, "ab.at(cut=…)"),
        ("SELECT * FROM t TIMESTAMP AS OF '2024-01-01'", Unsupported, "time travel"),
        ("SELECT * FROM IDENTIFIER('t')", Unsupported, "IDENTIFIER"),
        ("SELECT * FROM f(TABLE(t))", Unsupported, "TABLE"),
        ("SELECT * FROM a.b.c.d", InvalidValue, "4 parts"),
        ("SELECT * FROM 'a b'", SqlSyntaxError, "line 1, column 15"),
    ],
)
def test_what_cannot_be_told_is_refused(query: str, kind: type[AnabranchError], says: str) -> None:
    with pytest.raises(kind) as error:
        tables_of(query)
    assert says in str(error.value)


def test_long_queries() -> None:
    union = " UNION ALL ".join(f"SELECT x FROM s.t{i}" for i in range(400))
    assert len(tables_of(union)) == 400
    chain = " AND ".join(f"x <> {i}" for i in range(3000))
    assert names(f"SELECT * FROM t WHERE {chain}") == {"default.t"}
