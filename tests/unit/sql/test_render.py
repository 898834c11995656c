"""Plan → SQL text: expressions are written as they are, and stay together."""

from __future__ import annotations

import duckdb
import pytest
from sqlglot import exp, parse_one

from anabranch.names import TableName
from anabranch.plan.exprs import Expr, Tree, Written
from anabranch.plan.nodes import (
    Filter,
    Item,
    KeyFilter,
    MarkJoin,
    Parameter,
    Project,
    ReducedScan,
    Scan,
)
from anabranch.sql.render import Rendering, to_sql
from tests.oracle.duck import plan_text

TABLE = Scan(TableName.of("t"), ("a", "b"))
EITHER = Expr("`a` = 1 OR `b` = 2")
KEYS = Parameter("keys", ("k",))


def name_of(leaf: Scan | Parameter) -> str:
    return leaf.name if isinstance(leaf, Parameter) else leaf.table.name


def test_what_follows_an_or_holds_for_both_sides() -> None:
    by = tuple((KEYS, ((Expr(f"`{name}`"), "k"),)) for name in ("a", "b"))
    text = to_sql(ReducedScan(Filter(TABLE, EITHER), by), name_of)
    assert "WHERE (`a` = 1 OR `b` = 2) AND (`a` IN (" in text


def test_no_subquery_of_a_look_sees_the_rows_around_it() -> None:
    """Below UNION Spark's optimizer would look for its columns outside ("key not found")."""
    keys = Parameter("keys", ("k", "l"))
    pairs = ((Expr("`a`"), "k"), (Expr("`a` + `b`"), "l"))
    for by in (pairs, pairs[:1]):
        text = to_sql(ReducedScan(TABLE, ((keys, by), (KEYS, ((Expr("`b`"), "k"),)))), name_of)
        inner = [each.this for each in parse_one(text, dialect="spark").find_all(exp.Exists)]
        inner += [each.args["query"] for each in parse_one(text, dialect="spark").find_all(exp.In)]
        assert len(inner) == len(by) + 1 + 2  # an EXISTS for each key, and two INs
        seen = {column.name for each in inner for column in each.find_all(exp.Column)}
        assert seen <= {"k", "l"}


def test_an_expression_that_is_compared_is_in_parentheses() -> None:
    text = to_sql(KeyFilter(TABLE, KEYS, ((Expr("`a` + `b`"), "k"),)), name_of)
    assert "ON (`a` + `b`) IS" in text


def test_a_rendering_may_write_expressions_its_own_way() -> None:
    class Shouting(Rendering):
        def written(self, expr: Expr) -> Tree:
            return Written(this=expr.text.upper())

    plan = Project(TABLE, (Item("sum", Expr("`a` + `b`")),))
    text = to_sql(plan, name_of, rendering=Shouting)
    assert text.startswith("SELECT `A` + `B` AS `sum` FROM `t`")


@pytest.mark.parametrize(
    ("condition", "one_to_one", "shape"),
    [
        (Expr("`a` = `b`"), True, "LEFT JOIN"),
        (Expr("`a` = `b` AND `a` > 1 AND `b` < 3"), True, "LEFT JOIN"),
        (Expr("`a` = `b`"), False, "LEFT ANTI JOIN"),  # '1' and '01' would both equal the number 1
        (Expr("`a` > `b`"), True, "LEFT ANTI JOIN"),
        (Expr("`a` = `b` AND `a` > `c`"), True, "LEFT ANTI JOIN"),
        (Expr("`a` > 1 AND `b` < 3"), True, "EXISTS"),
        (None, True, "EXISTS"),
    ],
)
def test_a_mark_is_never_a_correlated_exists(
    condition: Expr | None, one_to_one: bool, shape: str
) -> None:
    """Spark's optimizer fails on one below UNION, when a filter or a join lies above."""
    left, right = (Parameter(name, columns) for name, columns in (("l", ("a",)), ("r", ("b", "c"))))
    node = MarkJoin(left, right, condition, "m", one_to_one)
    text = to_sql(node, lambda leaf: getattr(leaf, "name", ""))
    assert shape in text
    inner = text.partition("EXISTS(")[2].partition(")")[0]
    assert "`a`" not in inner
    db = duckdb.connect()
    db.execute("CREATE TABLE l AS SELECT unnest([1, 1, 2, 4, NULL]) AS a")
    db.execute("CREATE TABLE r AS SELECT unnest([1, 1, 2, 3, NULL]) AS b, 0 AS c")
    asked = condition.text.replace("`", "") if condition else "TRUE"
    some = f"SELECT 1 FROM r WHERE {asked}"
    expected = db.execute(f"SELECT a, EXISTS ({some}) FROM l ORDER BY ALL").fetchall()
    found = db.execute(f"SELECT a, m FROM ({plan_text(node, place_of)}) ORDER BY ALL").fetchall()
    assert found == expected


def place_of(leaf: Scan | Parameter) -> str:
    return f"main.{leaf.name}" if isinstance(leaf, Parameter) else ""
