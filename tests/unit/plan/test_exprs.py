from __future__ import annotations

import pytest
from sqlglot import exp

from anabranch.names import fold, quote
from anabranch.plan.exprs import (
    Expr,
    call,
    cast,
    column,
    conjunction,
    conjuncts,
    identifier,
    is_not_null,
    meaning,
    when,
)


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


ODD = [
    "a b", "select", "a.b", "x`y", "`", "e\u0301", "😀", "שלום", "t ", " ", "Größe", 'quo"te', "it's",
    "back\\slash", "new\nline", "sum(x)", "*", "1", "--", "/*", "{{y}}", "$1", "%s", ":p", "?",
    "a:b<c>",
]  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_any_name_is_one_quoted_identifier(name: str) -> None:
    own = column(name)
    assert (own.column, own.columns) == (name, {name})
    asked = when(is_not_null(own), call("SUM", own), cast(own, f"array<struct<{quote(name)}:int>>"))
    assert asked.columns == {name}
    assert asked.substitute({name: column("z")}).columns == {"z"}
    field = Expr.of(exp.Dot(this=own.tree.copy(), expression=identifier(name)))
    assert (field.text, field.columns) == (f"{quote(name)}.{quote(name)}", {name})


def test_an_expression_has_no_text_that_only_looks_like_sql() -> None:
    """What people read is asked for by its name, so that nobody writes it into SQL by chance."""
    assert column("a b").readable == "a b"
    assert str(column("a b")).startswith("Expr(")


def test_names_that_spark_takes_for_one() -> None:
    alike = [("A b", "a B"), ("É", "é"), ("ſ", "S"), ("ı", "İ"), ("K", "k"), ("ΣΑΣ", "σας")]
    assert all(fold(one) == fold(other) for one, other in alike)
    other = [("a", "a "), ("é", "e\u0301"), ("ß", "ss"), ("a", "b")]
    assert all(fold(one) != fold(two) for one, two in other)
