from __future__ import annotations

import pytest

from anabranch.plan.exprs import Expr, cast, column, conjunction, conjuncts, meaning


def test_columns_are_quoted_identifiers_and_fields_follow() -> None:
    expr = Expr("`o.who`.`name` + `b` + DATEDIFF(DAY, `c`, e)")
    assert expr.columns == {"o.who", "b", "c"}
    assert expr.column is None
    assert column("a`b").text == "`a``b`"
    assert column("a`b").column == "a`b"


def test_substitution_keeps_the_meaning() -> None:
    product = Expr("`a` * 2").substitute({"a": Expr("`x` + 1")})
    assert product.text == "(`x` + 1) * 2"
    assert Expr("`a`").substitute({"a": Expr("`x` + 1")}).text == "`x` + 1"
    assert Expr("-`a`").substitute({"a": Expr("-`x`")}).text == "-(-`x`)"
    assert Expr("`s`.`f`").substitute({"s": column("t.s")}).text == "`t.s`.`f`"
    assert Expr("NOT `a`").substitute({"a": Expr("`x` OR `y`")}).text == "NOT (`x` OR `y`)"


def test_shared_trees_are_not_changed() -> None:
    expr = Expr("`a` + `b`")
    before = expr.tree.sql()
    expr.rename({"a": "z"})
    cast(expr, "bigint")
    assert expr.tree.sql() == before


def test_conjunctions() -> None:
    parts = conjuncts(Expr("(`a` = 1 AND `b` > 2) AND (`c` OR `d`)"))
    assert [part.text for part in parts] == ["`a` = 1", "`b` > 2", "`c` OR `d`"]
    whole = conjunction((*parts, parts[0]))
    assert whole == Expr("`a` = 1 AND `b` > 2 AND (`c` OR `d`)")
    assert conjunction([]) is None
    assert conjuncts(None) == ()


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("`a` + `b`", "`b` + `a`", True),
        ("(`a` + `b`) + 1", "1 + (`b` + `a`)", True),
        ("`a` - `b`", "`b` - `a`", False),
        ("UPPER(`a`)", "upper((`a`))", True),
        ("`a`", "`b`", False),
        ("CAST(`a` AS INT)", "CAST(`a` AS BIGINT)", False),
        ("1", "'1'", False),
    ],
)
def test_meaning(left: str, right: str, same: bool) -> None:
    assert (meaning(Expr(left).tree) == meaning(Expr(right).tree)) is same


@pytest.mark.parametrize(
    "text",
    [
        "NVL(`a`, 0)",
        "DATE_TRUNC('month', `a`)",
        "TRY_CAST(`a` AS INT)",
        "CAST(`a` AS DECIMAL(12, 2))",
        "MY_FUNCTION(`a`)",
        "DATE_ADD(`a`, 1)",
        "SUBSTR(`a`, 1, 2)",
        "`a` DIV 2",
        "`a` / 2",
        r"'it\'s'",
        "COUNT(DISTINCT `a`, `b`)",
        "SUM(`a`) FILTER(WHERE `b` > 1)",
        "FILTER(`a`, e -> e > 1)",
        "`a`[0].b",
    ],
)
def test_text_is_canonical(text: str) -> None:
    assert Expr.of(Expr(text).tree).text == text
