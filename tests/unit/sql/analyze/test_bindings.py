"""What the analysis binds to the names of a query, and plans that rely on it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from sqlglot import exp

import anabranch.sql.lower
from anabranch.model import Column
from anabranch.names import TableName
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import Node
from anabranch.plan.show import show
from anabranch.sql.analyze.analysis import bind_texts
from anabranch.sql.analyze.bindings import answer_of, answering_fields, bound_cte, meaning_of
from anabranch.sql.analyze.reach import Reach
from anabranch.sql.analyze.scope import Alias
from anabranch.sql.lower.query import Lowered, lower
from anabranch.sql.text.source_text import SourceText

TABLES = {
    TableName.of("a"): tuple(Column(name, "int") for name in ("id", "k", "v")),
    TableName.of("b"): tuple(Column(name, "int") for name in ("id", "k", "w")),
    TableName.of("t"): (
        Column("id", "int"),
        Column("arr", "array<int>"),
        Column("ts", "timestamp"),
    ),
}
Types = Callable[[Node, Sequence[Expr]], Sequence[str]]


def always(type_: str) -> Types:
    return lambda node, exprs: [type_ for _ in exprs]


def lowered(query: str, types: Types | None = None, **views: str) -> Lowered:
    texts = {TableName.of(name): text for name, text in views.items()}
    return lower(query, TABLES, texts, types or always("int"))


def bound(query: str) -> exp.Expr:
    text = SourceText(query)
    bind_texts(Reach.of(text, TABLES, {}), {})
    return text.tree


def meant(query: str) -> dict[str, list[tuple[str, ...]]]:
    """Every name with the tables whose columns it may mean."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for node in bound(query).find_all(exp.Column):
        answer = answer_of(node)
        fields = answer.fields if answer is not None else ()
        found[node.sql()] = [field.qualifier[-1:] for field in fields]
    return found


def test_names_mean_the_nearest_table_that_has_them() -> None:
    query = (
        "SELECT k AS x, x + 1 AS y FROM a WHERE EXISTS (SELECT 1 FROM b WHERE w = v AND k = a.k)"
    )
    assert meant(query) == {
        "k": [("b",)],  # the last of that name
        "x": [],  # an alias
        "w": [("b",)],
        "v": [("a",)],
        "a.k": [("a",)],
    }


def test_copies_of_a_tree_keep_what_is_bound_to_it() -> None:
    tree = bound("SELECT id, k FROM a")
    assert list(answering_fields(tree.copy())) == list(answering_fields(tree)) != []


@pytest.mark.parametrize(
    ("query", "meanings"),
    [
        ("SELECT k AS v FROM a WHERE v > 1", ["v of a"]),
        ("SELECT k AS v, v + 1 FROM a", ["v of a"]),
        ("SELECT k AS x, x + 1 FROM a", ["item x"]),
        ("SELECT k AS v FROM a GROUP BY v", ["v of a"]),
        ("SELECT k AS v FROM a QUALIFY row_number() OVER (ORDER BY v) = 1", ["v of a"]),
        ("SELECT k AS v FROM a ORDER BY v", ["item v"]),
        ("SELECT k AS v FROM a ORDER BY a.v", ["v of a"]),
        ("SELECT k AS v FROM a GROUP BY k HAVING v > 1", ["item v"]),
        ("SELECT k AS v FROM a GROUP BY k HAVING max(v) > 1", ["v of a"]),
        ("SELECT k AS v FROM a GROUP BY k, a.v HAVING v > 1", ["v of a", "v of a"]),
        ("SELECT k AS v, a.v AS w FROM a GROUP BY 1, 2 HAVING v > 1", ["v of a", "v of a"]),
        ("SELECT k AS v, id AS w FROM a GROUP BY 1, 2 HAVING v > 1", ["item v"]),
        ("SELECT k AS v FROM a GROUP BY ROLLUP (k, (a.v)) HAVING v > 1", ["v of a", "v of a"]),
        (
            "SELECT 1 FROM b WHERE EXISTS (SELECT id AS w FROM a GROUP BY id HAVING w > 1)",
            ["item w"],
        ),
        ("SELECT k AS v FROM a UNION ALL SELECT w FROM b ORDER BY v", ["w of b", "item v"]),
    ],
)
def test_what_the_name_of_an_item_means(query: str, meanings: list[str]) -> None:
    found: list[str] = []
    for node in bound(query).find_all(exp.Column):
        meaning = meaning_of(node)
        if isinstance(meaning, Alias):
            found.append(f"item {meaning.name}")
        elif meaning is not None and meaning.fields[0].name in ("v", "w"):
            found.append(f"{meaning.fields[0].name} of {meaning.fields[0].qualifier[-1]}")
    assert sorted(found) == sorted(meanings)


def test_every_mention_of_a_cte_means_the_one_that_is_in_scope_in_copies_too() -> None:
    tree = bound(
        "WITH a AS (SELECT id FROM a), c AS (SELECT id FROM a) "
        "SELECT id FROM c WHERE id IN (WITH c AS (SELECT k AS id FROM b) SELECT id FROM c)"
    )
    first, second, inner = tree.find_all(exp.CTE)

    def ctes(part: exp.Expr) -> dict[str, list[exp.CTE | None]]:
        meant: dict[str, list[exp.CTE | None]] = {}
        for table in part.find_all(exp.Table):
            meant.setdefault(table.name, []).append(bound_cte(table))
        return meant

    expected = {"a": [None, first], "b": [None], "c": [second, inner]}
    for part in (tree, tree.copy()):
        found = ctes(part)
        assert found.keys() == expected.keys()
        for name, each in expected.items():
            assert sorted(map(id, found[name])) == sorted(map(id, each))
    (subquery,) = tree.find_all(exp.In)
    assert ctes(subquery.copy())["c"] == [inner]  # nothing of the query around is needed


@pytest.mark.parametrize(
    "query",
    [
        # the alias of VALUES stands in no table: it is not of the query around
        "SELECT id FROM a WHERE k IN (SELECT b.w FROM (VALUES (1), (2)) AS x(p)"
        " LEFT JOIN b ON x.p = b.k)",
        # a column of the query around without its table's name, in ON
        "SELECT id, (SELECT count(*) FROM b JOIN t ON t.id = b.id AND v = b.w) AS n FROM a",
        # Spark calls CAST(k AS …) k
        "SELECT k FROM (SELECT CAST(k AS STRING) FROM a)",
        # the columns before a PIVOT have the name of their table
        "SELECT * FROM a PIVOT (sum(a.id) AS s FOR a.k IN (1 AS one, 2 AS two)) AS p WHERE p.one > 1",
        "SELECT x.kk FROM (SELECT id, k AS kk FROM a UNION ALL BY NAME SELECT k AS kk, id FROM b) x",
        "SELECT x.k FROM (a JOIN (SELECT id AS i FROM b) c ON c.i = a.id) x",
    ],
)
def test_names_that_a_plan_needs(query: str) -> None:
    assert lowered(query).obstacles == ()


def test_window_time_of_a_column_with_a_table_name() -> None:
    windows = "SELECT window(ts, '1 hour') AS w FROM t GROUP BY window(ts, '1 hour')"
    found = lowered(f"SELECT window_time(x.w) AS z FROM ({windows}) x", always("timestamp"))
    assert found.plan is not None, found.obstacles


def test_a_pivot_of_a_join_is_no_join() -> None:
    """(a JOIN b) PIVOT (…) used to lose its PIVOT."""
    made = lowered(
        "SELECT arr, p, q FROM (a CROSS JOIN t) PIVOT (sum(v) FOR k IN (1 AS p, 2 AS q))"
    )
    assert made.output[-2:] == ("p", "q")


def test_columns_of_a_generator_that_only_spark_can_name() -> None:
    query = "SELECT z.key, u.col FROM t LATERAL VIEW explode(f(arr)) z LATERAL VIEW explode(arr) u"
    query = query.replace("f(arr)", "map_filter(map(1, 2), (k, v) -> v > 1)")
    found = lowered(query, always("map<int,int>"))
    assert found.plan is not None, found.obstacles
    assert "EXPLODE(MAP_FILTER(MAP(1, 2), (k, v) -> v > 1)) as z.key, z.value" in show(found.plan)
    assert "EXPLODE(t.arr) as u.col" in show(found.plan)


def test_columns_of_a_generator_in_a_view() -> None:
    view = "SELECT explode(transform(arr, x -> x + 1)), id FROM t"
    found = lowered("SELECT v.col, a.k FROM v JOIN a USING (id)", always("array<int>"), v=view)
    assert found.plan is not None, found.obstacles


def test_lowering_looks_up_no_names() -> None:
    """It reads what the analysis has bound to them; only what changes the text of a query, before it is
    analyzed, asks for itself what a name in FROM means."""
    allowed = {
        "anabranch.sql.analyze.scope": {"Answer", "Field", "unknown"},
        "anabranch.sql.analyze.ctes": {"bare", "is_recursive", "mentions_cte"},
    }
    for path in sorted(Path(*anabranch.sql.lower.__path__).glob("*.py")):
        if path.stem in ("base_branches", "locate"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module in allowed:
                assert {each.name for each in node.names} <= allowed[node.module], path
