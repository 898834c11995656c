"""Which source columns the columns of a query come from."""

from __future__ import annotations

import pytest

from anabranch.names import TableName
from anabranch.sql.analyze.analysis import Column, Columns, Relation, analyze
from anabranch.sql.analyze.lineage import Lineage
from anabranch.types import Type

TABLES = {
    "t": {"a": "int", "b": "int", "s": "string", "id": "bigint", "arr": "array<int>"},
    "u": {"id": "bigint", "x": "string", "n": "int"},
}
VIEWS = {"v": "SELECT a + b AS c, s FROM t WHERE id > 1"}


def tables(name: TableName) -> Columns | Relation:
    if name.name in VIEWS:
        return analyze(VIEWS[name.name], tables).relation
    columns = TABLES.get(name.name)
    return None if columns is None else tuple(Column(c, Type.parse(t)) for c, t in columns.items())


def lineage(query: str, *names: str) -> Lineage:
    found = analyze(query, tables)
    assert found.findings == ()
    told = names or tuple(each.name or "?" for each in found.columns or ())
    return Lineage.of(found.relation, told)


def said(query: str, *names: str) -> str:
    """`column: computed | decides` of each column."""
    found = lineage(query, *names)
    shown = []
    for name, _ in found.columns:
        kinds: dict[str, list[str]] = {"computed": [], "decides": []}
        for kind, ref in found.sources(name):
            kinds[kind].append(f"{ref.table.name}.{ref.column}")
        shown.append(
            f"{name}: {' '.join(kinds['computed'])} | {' '.join(kinds['decides'])}".strip()
        )
    return ", ".join(shown)


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT a + b AS c, 1 AS one FROM t", "c: t.a t.b |, one:  |"),
        ("SELECT a FROM t WHERE s = 'x'", "a: t.a | t.s"),
        ("SELECT s, sum(a) AS n FROM t GROUP BY s", "s: t.s |, n: t.a | t.s"),
        ("SELECT s AS k, count(*) AS n FROM t GROUP BY 1 HAVING max(b) > 1",
         "k: t.s | t.b, n:  | t.b t.s"),
        # an alias comes before a column of its name in HAVING, but not inside of an aggregate
        ("SELECT s AS k, a AS b FROM t GROUP BY s, a HAVING b > 1 AND max(b) > 1",
         "k: t.s | t.a t.b, b: t.a | t.b t.s"),
        ("SELECT a AS b FROM t GROUP BY a, b HAVING b > 1", "b: t.a | t.b"),  # b is a key
        ("SELECT a AS b FROM t ORDER BY b LIMIT 1", "b: t.a |"),
        ("SELECT * FROM u WHERE n > 1", "id: u.id | u.n, x: u.x | u.n, n: u.n |"),
        ("SELECT t.a, u.x FROM t JOIN u ON t.id = u.id", "a: t.a | t.id u.id, x: u.x | t.id u.id"),
        ("SELECT id, x FROM t JOIN u USING (id)", "id: t.id | u.id, x: u.x | t.id u.id"),
        ("SELECT id FROM t RIGHT JOIN u USING (id)", "id: u.id | t.id"),
        ("SELECT id, n FROM t FULL JOIN u USING (id)", "id: t.id u.id |, n: u.n | t.id u.id"),
        ("SELECT id, n FROM t NATURAL JOIN u", "id: t.id | u.id, n: u.n | t.id u.id"),
        ("SELECT u.x FROM u LEFT SEMI JOIN t ON t.id = u.id", "x: u.x | t.id u.id"),
        ("WITH q AS (SELECT a AS k, b FROM t WHERE s = 'x') SELECT k * 2 AS d FROM q",
         "d: t.a | t.s"),
        ("WITH q (k) AS (SELECT a FROM t) SELECT k FROM (SELECT k FROM q) AS z", "k: t.a |"),
        ("SELECT c FROM v", "c: t.a t.b | t.id"),
        ("SELECT w.c AS z FROM v AS w JOIN u ON w.s = u.x", "z: t.a t.b | t.id t.s u.x"),
        ("SELECT a FROM t UNION ALL SELECT n FROM u WHERE x = 'y'", "a: t.a u.n | u.x"),
        ("SELECT a, b FROM t UNION SELECT n, n FROM u", "a: t.a u.n | t.b, b: t.b u.n | t.a"),
        ("SELECT a FROM t EXCEPT SELECT n FROM u", "a: t.a | u.n"),
        ("SELECT a, s FROM t INTERSECT SELECT n, x FROM u",
         "a: t.a | t.s u.n u.x, s: t.s | t.a u.n u.x"),
        ("SELECT DISTINCT a, b FROM t", "a: t.a | t.b, b: t.b | t.a"),
        ("SELECT a FROM t ORDER BY b", "a: t.a |"),
        ("SELECT a FROM t ORDER BY b LIMIT 3", "a: t.a | t.b"),
        ("SELECT a, b FROM t ORDER BY 2 LIMIT 3", "a: t.a | t.b, b: t.b |"),
        ("SELECT sum(a) OVER (PARTITION BY s ORDER BY id) AS w, b FROM t",
         "w: t.a | t.id t.s, b: t.b |"),
        ("SELECT sum(a) OVER z AS w FROM t WINDOW z AS (ORDER BY id)", "w: t.a | t.id"),
        ("SELECT sum(a) FILTER (WHERE s = 'x') AS f, max(b) AS m FROM t", "f: t.a | t.s, m: t.b |"),
        ("SELECT CASE WHEN s = 'x' THEN a END AS c FROM t", "c: t.a t.s |"),
        ("SELECT (SELECT max(x) FROM u WHERE u.id = t.id) AS m, a FROM t",
         "m: u.x | t.id u.id, a: t.a |"),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND n > 1)",
         "a: t.a | t.id u.id u.n"),
        ("SELECT a FROM t WHERE id IN (SELECT id FROM u WHERE x = s)", "a: t.a | t.id t.s u.id u.x"),
        ("SELECT a IN (SELECT n FROM u) AS i FROM t", "i: t.a u.n |"),
        ("SELECT a, l.m FROM t, LATERAL (SELECT max(n) AS m FROM u WHERE u.id = t.id) AS l",
         "a: t.a | t.id u.id, m: u.n | t.id u.id"),
        ("SELECT a, v FROM t LATERAL VIEW explode(arr) e AS v", "a: t.a | t.arr, v: t.arr |"),
        ("SELECT a, explode(arr) AS v FROM t", "a: t.a | t.arr, v: t.arr |"),
        ("SELECT a AS k, k + b AS m FROM t", "k: t.a |, m: t.a t.b |"),
        ("SELECT s, count(*) AS n FROM t GROUP BY ALL", "s: t.s |, n:  | t.s"),
        ("SELECT a FROM t QUALIFY row_number() OVER (PARTITION BY s ORDER BY b) = 1",
         "a: t.a | t.b t.s"),
        ("WITH RECURSIVE r AS (SELECT id, n FROM u UNION ALL SELECT t.id, r.n + t.a FROM r "
         "JOIN t ON t.b = r.id) SELECT id, n FROM r",
         "id: t.id u.id | t.b, n: t.a u.n | t.b t.id u.id"),
    ],
)  # fmt: skip
def test_lineage(query: str, columns: str) -> None:
    assert said(query) == columns


def test_columns_that_cannot_be_followed_come_from_all() -> None:
    query = "SELECT * FROM (SELECT a, s FROM t WHERE id > 1) PIVOT (sum(a) FOR s IN ('x', 'y'))"
    assert said(query, "x", "y") == "x: t.a t.s | t.id, y: t.a t.s | t.id"


def test_what_is_kept_is_plain_and_comes_back() -> None:
    found = lineage("SELECT s, sum(a) OVER (ORDER BY b) AS n FROM t WHERE id > 1")
    assert Lineage.read(found.record()) == found
    assert found.record() == {
        "columns": [
            ["s", [["default.t", "s"]], []],
            ["n", [["default.t", "a"]], [["default.t", "b"]]],
        ],
        "decides": [["default.t", "id"]],
    }
