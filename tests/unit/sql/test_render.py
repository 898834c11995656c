"""Plan → SQL text: expressions are written as they are, and stay together."""

from __future__ import annotations

from anabranch.names import TableName
from anabranch.plan.exprs import Expr, Tree, Written
from anabranch.plan.nodes import Filter, Given, Item, Look, Project, Scan, Semi
from anabranch.sql.render import Rendering, to_sql

TABLE = Scan(TableName.of("t"), ("a", "b"))
EITHER = Expr("`a` = 1 OR `b` = 2")
KEYS = Given("keys", ("k",))


def name_of(leaf: Scan | Given) -> str:
    return leaf.name if isinstance(leaf, Given) else leaf.table.name


def test_what_follows_an_or_holds_for_both_sides() -> None:
    by = tuple((KEYS, ((Expr(f"`{name}`"), "k"),)) for name in ("a", "b"))
    text = to_sql(Look(Filter(TABLE, EITHER), by), name_of)
    assert "WHERE (`a` = 1 OR `b` = 2) AND (EXISTS(" in text


def test_an_expression_that_is_compared_is_in_parentheses() -> None:
    text = to_sql(Semi(TABLE, KEYS, ((Expr("`a` + `b`"), "k"),)), name_of)
    assert "ON (`a` + `b`) IS" in text


def test_a_rendering_may_write_expressions_its_own_way() -> None:
    class Shouting(Rendering):
        def written(self, expr: Expr) -> Tree:
            return Written(this=expr.text.upper())

    plan = Project(TABLE, (Item("sum", Expr("`a` + `b`")),))
    text = to_sql(plan, name_of, rendering=Shouting)
    assert text.startswith("SELECT `A` + `B` AS `sum` FROM `t`")
