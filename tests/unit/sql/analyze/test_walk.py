"""What a query gives and what is wrong with it, told without Spark: sure mistakes only."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from anabranch.names import TableName
from anabranch.sql.analyze.analysis import Column, Columns, Finding, analyze
from anabranch.types import Type
from tests.oracle import tables as random_tables
from tests.oracle.queries import draw
from tests.unit.delta import test_fixtures as fixtures

TABLES = {
    "t": {
        "a": "int",
        "b": "decimal(12,2)",
        "d": "date",
        "arr": "array<int>",
        "s": "string",
        "id": "bigint",
    },
    "u": {"id": "bigint", "x": "string", "n": "double"},
}


def tables(name: TableName) -> Columns:
    columns = TABLES.get(name.name)
    return None if columns is None else tuple(Column(n, Type.parse(t)) for n, t in columns.items())


def said(query: str) -> list[str]:
    """Mistakes as `text at the place: message`."""
    findings = analyze(query, tables).findings
    return [f"{query[each.start :].split()[0].strip(',()')}: {each.message}" for each in findings]


def given(query: str) -> str:
    found = analyze(query, tables)
    columns = found.columns
    assert found.findings == ()
    return (
        "?" if columns is None else ", ".join(f"{c.name or '?'} {c.type or '?'}" for c in columns)
    )


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT a, b AS c, -a AS e FROM t", "a int, c decimal(12,2), e int"),
        ("SELECT * FROM u", "id bigint, x string, n double"),
        ("SELECT u.*, t.a FROM t JOIN u ON t.id = u.id", "id bigint, x string, n double, a int"),
        ("SELECT * FROM u JOIN u AS v USING (id)", "id bigint, x string, n double, x string, n double"),
        ("SELECT * EXCEPT (n, X) FROM u", "id bigint"),
        ("SELECT * FROM (SELECT id AS k FROM u) AS q", "k bigint"),
        ("SELECT * FROM (SELECT id FROM u) AS q(k)", "k bigint"),
        ("WITH u AS (SELECT x FROM u) SELECT * FROM u", "x string"),
        ("WITH q(k) AS (SELECT a FROM t), r AS (SELECT * FROM q) SELECT k FROM r", "k int"),
        ("SELECT id FROM u UNION ALL SELECT id FROM t", "id bigint"),
        ("SELECT id FROM u UNION ALL SELECT a FROM t", "id ?"),
        ("SELECT 1, 1.50, 'x', true, 3000000000, NULL", "? int, ? decimal(3,2), ? string, "
         "? boolean, ? bigint, ? void"),
        ("SELECT count(*) AS c, sum(a) AS i, sum(b) AS e, sum(n) AS f, avg(a) AS g FROM t, u",
         "c bigint, i bigint, e decimal(22,2), f double, g double"),
        ("SELECT max(d) AS m, min(s) AS n FROM t", "m date, n string"),
        ("SELECT a + 1 AS p, a * id AS q, b * 2 AS r, b + a AS s2, a / 2 AS u FROM t",
         "p int, q bigint, r decimal(14,2), s2 decimal(13,2), u double"),
        ("SELECT a > 1 AS p, s LIKE 'x' AS q, s IS NULL AS r, NOT a = 1 AS w FROM t",
         "p boolean, q boolean, r boolean, w boolean"),
        ("SELECT CASE WHEN a = 1 THEN s END AS c, coalesce(a, a) AS e, coalesce(a, id) AS f FROM t",
         "c string, e int, f ?"),
        ("SELECT cast(a AS DECIMAL(10, 3)) AS c, s || 'x' AS e, upper(s) AS f FROM t",
         "c decimal(10,3), e string, f string"),
        ("SELECT row_number() OVER (ORDER BY a) AS r, sum(a) OVER (PARTITION BY s) AS w FROM t",
         "r int, w bigint"),
        ("SELECT a AS k, k + 1 AS m FROM t", "k int, m int"),
        ("SELECT sum(b) / 3 AS q FROM t", "q ?"),
        ("SELECT explode(arr) FROM t", "?"),
        ("SELECT window(d, '1 day'), count(*) AS n FROM t GROUP BY 1", "window ?, n bigint"),
        ("SELECT * FROM nowhere", "?"),
        ("SELECT * FROM t NATURAL JOIN u",
         "id bigint, a int, b decimal(12,2), d date, arr array<int>, s string, x string, n double"),
        ("SELECT * FROM t PIVOT (sum(a) FOR s IN ('x', 'y'))", "?"),
        ("SELECT a, v FROM t LATERAL VIEW explode(arr) e AS v", "a int, v ?"),
        ("SELECT * FROM VALUES (1, 'a') AS v(k, w)", "k ?, w ?"),
        ("VALUES (1, 'a')", "col1 ?, col2 ?"),
    ],
)  # fmt: skip
def test_columns(query: str, columns: str) -> None:
    assert given(query) == columns


@pytest.mark.parametrize(
    "query",
    [
        "SELECT T.A, s.x FROM db.t AS t JOIN (SELECT x FROM u) AS s",
        "SELECT transform(arr, x -> x + a) AS z, filter(arr, x -> x > 1) AS y FROM t",
        "SELECT dateadd(DAY, 1, d), extract(YEAR FROM d), current_date, current_user FROM t",
        "SELECT a AS k FROM t GROUP BY k HAVING k > 1 ORDER BY k",
        "SELECT s, count(*) c FROM t GROUP BY ALL ORDER BY ALL",
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND a = 1)",
        "SELECT a FROM t WHERE id = (SELECT max(id) FROM u WHERE x = s)",
        "SELECT l.x FROM t, LATERAL (SELECT x FROM u WHERE u.id = t.id) AS l",
        "SELECT struct(a AS k, b), named_struct('q', a).q, map(a, b)[1] FROM t",
        "SELECT p.q.r FROM (SELECT named_struct('q', a) AS p FROM t)",
        "SELECT anything FROM t JOIN nowhere",
        "SELECT nowhere.a, `sum(a)` FROM nowhere, (SELECT sum(a) FROM t)",
        "SELECT sum(a) OVER w FROM t WINDOW w AS (PARTITION BY s)",
        "SELECT window.start, count(*) FROM t GROUP BY window(d, '1 day') HAVING window.end > d",
        "SELECT id FROM range(10)",
        "SELECT e.k FROM t LATERAL VIEW explode(map(1, 2)) e AS k, v",
        "SELECT k, v FROM (SELECT explode(map(1, 2)) AS (k, v))",
        "SELECT /*+ BROADCAST(z) */ a FROM t AS z",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
        "SELECT t.id FROM t LEFT SEMI JOIN u ON u.id = t.id AND x = s",
        "SELECT (SELECT count(*) FROM u WHERE n > 1) AS c FROM t",
        "SELECT my_udf(a), my_schema.f(b) FROM t",
        "SELECT a FROM t UNION SELECT a FROM t ORDER BY a",
        "SELECT id FROM t JOIN u USING (id) WHERE u.id > 1 AND t.id > 1",
        "FROM t SELECT a",
        "SELECT d > '2024-01-01', d > date '2024-01-01', s > 1, b > 1 FROM t",
        "SELECT (a) FROM (t JOIN u ON t.id = u.id)",
        "SELECT count(DISTINCT a) FILTER (WHERE s = 'x') FROM t",
    ],
)
def test_what_is_right_is_not_blamed(query: str) -> None:
    assert said(query) == []


@pytest.mark.parametrize(
    ("query", "mistakes"),
    [
        ("SELECT c, a FROM t", ["c: column c does not exist"]),
        ("SELECT a AS k FROM t WHERE k > 1", ["k: column k does not exist"]),
        (
            "SELECT x.a, u.a FROM t, u",
            ["x.a: column x.a does not exist", "u.a: column u.a does not exist"],
        ),
        ("SELECT id FROM t, u", ["id: column id is ambiguous"]),
        ("SELECT q.a FROM (SELECT a AS k FROM t) AS q", ["q.a: column q.a does not exist"]),
        ("SELECT a FROM t JOIN u USING (ids)", ["ids: column ids of USING does not exist"] * 1),
        ("SELECT v.* FROM t", ["v.*: v.* names no table of FROM"]),
        ("SELECT a FROM t UNION SELECT id, x FROM u", ["id: UNION of 1 and 2 columns"]),
        (
            "SELECT t.id FROM t LEFT ANTI JOIN u ON true WHERE u.x = ''",
            ["u.x: column u.x does not exist"],
        ),
        ("SELECT a FROM t WHERE id IN (SELECT idd FROM u)", ["idd: column idd does not exist"]),
        (
            "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE t.x = u.x)",
            ["t.x: column t.x does not exist"],
        ),
        (
            "WITH q AS (SELECT y FROM u) SELECT z FROM q",
            ["y: column y does not exist", "z: column z does not exist"],
        ),
        ("SELECT coutn(a) FROM t", ["coutn(a: there is no function coutn"]),
        ("SELECT a FROM t WHERE d = 20240101", ["d: date cannot be compared with int"]),
        ("SELECT sum(a) OVER (PARTITION BY k) FROM t", ["k: column k does not exist"]),
        ("SELECT a FROM t ORDER BY k", ["k: column k does not exist"]),
    ],
)
def test_what_is_wrong(query: str, mistakes: list[str]) -> None:
    assert said(query) == mistakes


def blamed(query: str, declared: Mapping[str, str]) -> tuple[Finding, ...]:
    """What is said of a query over tables that are written as `a INT, b VARCHAR`."""

    def table(name: TableName) -> Columns:
        columns = declared.get(name.name.lower())
        names = re.findall(r'("[^"]+"|\w+) [A-Z]+(?:\(\d+,\d+\))?', columns or "")
        return tuple(Column(each.strip('"')) for each in names) if columns else None

    return analyze(query, table).findings


@pytest.mark.parametrize("case", [pytest.param(c, id=c.title) for _, c in fixtures.CASES])
def test_queries_that_run_are_not_blamed(case: fixtures.Case) -> None:
    assert blamed(case.query, fixtures.TABLES) == ()


def test_random_queries_are_not_blamed() -> None:
    for seed in range(300):
        query = draw(seed).text
        assert blamed(query, random_tables.TABLES) == (), query
