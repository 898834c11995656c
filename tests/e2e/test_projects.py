"""Projects on Spark: its analyser agrees with what was told offline, and unit tests compare bags."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from anabranch.cli import projects
from anabranch.cli.main import run
from anabranch.project import Project, load
from anabranch.project.confirm import confirm, differing
from anabranch.project.example import FILES, PROFILES
from anabranch.project.unit_tests import Result, Runner, selected
from anabranch.session import Session
from anabranch.spark.session import Spark
from tests.unit.project.folder import ORDERS, REVENUE, project


def example(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "anabranch.toml").write_text(PROFILES)


@pytest.fixture
def cli(tmp_path: Path, spark: Spark, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands run in this folder, on the session of all tests."""

    @contextmanager
    def shared(_: Any, project: Project, *, spark: bool = True) -> Iterator[Session]:
        own = Session(project.settings)
        own.__dict__["spark"] = running
        yield own

    running = spark
    monkeypatch.setattr(projects, "alone", shared)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_example_compiles_and_passes(cli: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example(cli)
    assert run(["compile", "--spark", "--json"]) == 0
    (overview,) = [
        each
        for each in json.loads(capsys.readouterr().out)["objects"]
        if each["name"] == "shop.report.overview"
    ]
    assert [each["type"] for each in overview["columns"]] == ["bigint", "bigint", "decimal(33,2)"]
    assert run(["test", "--junit", "found.xml"]) == 0
    assert "4 tests, 0 failed" in capsys.readouterr().err
    suite = ElementTree.parse(cli / "found.xml").getroot()
    assert suite.attrib["tests"] == "4" and suite.attrib["failures"] == "0"
    assert run(["test", "--select", "by_*", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


EXPRESSIONS = """
a + 1, a + id, a * id, -a, b + b, b - a, b * b, b * 2, b + 1.50, n + 1, n * a, a / 2, n / a,
1, 1.50, 0.05, 3000000000, 'x', true, cast(a AS STRING), cast(s AS DECIMAL(7, 3)), a > 1, s LIKE 'x%',
s IS NULL, a IN (1, 2), a BETWEEN 1 AND 2, NOT a = 1, s || 'x', upper(s), length(s), year(d),
date_add(d, 1), datediff(d, d), to_date(s), date_trunc('month', d), coalesce(a, a), if(a = 1, b, b),
CASE WHEN a = 1 THEN s END, greatest(a, a), concat(s, s), md5(s), sqrt(a), pow(a, 2), current_date,
nvl(s, 'x'), d, arr, small + small, small * a, round(n, 2), hour(ts), instr(s, 'x')
"""
AGGREGATES = """
count(*), count(a), sum(a), sum(id), sum(b), sum(n), avg(a), avg(b), avg(n), min(d), max(s), first(b),
bool_and(a > 1), stddev(n), count_if(a > 1), approx_count_distinct(a), sum(small), any_value(b)
"""
TYPED = (
    "CREATE TABLE orders (id BIGINT, a INT, b DECIMAL(12,2), n DOUBLE, s STRING, d DATE, "
    "arr ARRAY<INT>, small SMALLINT, ts TIMESTAMP)"
)


def items(text: str) -> str:
    """`e1 AS c1, …`; commas inside brackets part nothing."""
    depth, parts = 0, [""]
    for char in text.replace("\n", " "):
        depth += (char == "(") - (char == ")")
        parts = [*parts, ""] if char == "," and not depth else [*parts[:-1], parts[-1] + char]
    return ", ".join(f"{part} AS c{at}" for at, part in enumerate(parts))


def test_types_told_offline_are_those_of_spark(tmp_path: Path, spark: Spark) -> None:
    compiled = project(
        tmp_path,
        orders=TYPED,
        v=f"CREATE VIEW v AS SELECT {items(EXPRESSIONS)} FROM orders",
        w=f"CREATE STREAM TABLE w AS SELECT {items(AGGREGATES)} FROM orders",
        x="CREATE VIEW x AS SELECT row_number() OVER (ORDER BY a) AS r, sum(b) OVER () AS s, "
        "lag(d) OVER (ORDER BY a) AS l FROM orders",
        y="CREATE VIEW y (p, q) AS SELECT id, s FROM orders UNION SELECT id, s FROM orders",
    ).check()
    confirmed = confirm(compiled, spark.session)
    assert [str(each) for each in confirmed.problems] == []
    assert list(differing(compiled, confirmed)) == []
    known = [c for each in compiled.objects.values() for c in each.columns or ()]
    assert sum(column.type is None for column in known) <= 2
    assert len(known) > 80


def test_spark_finds_what_cannot_be_known_offline(
    tmp_path: Path, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_ALLOW_EXTERNAL_CODE", "true")  # functions may be anybody's
    compiled = project(
        tmp_path,
        orders=ORDERS,
        a="CREATE VIEW a AS SELECT id,\n  my_own_function(region) AS x FROM orders",
        b="CREATE VIEW b AS SELECT x FROM a",
        c="CREATE STREAM TABLE c REFRESH MODE DIFFERENTIAL AS SELECT max(x) AS x FROM (SELECT region, "
        "sum(round(CAST(id AS DOUBLE), 2)) AS x FROM orders GROUP BY region)",
        d="CREATE STREAM TABLE d AS SELECT id FROM orders LIMIT 3",
        e="CREATE VIEW e AS SELECT explode(region) AS x FROM orders",
    ).check()
    confirmed = confirm(compiled, spark.session)
    said = [f"{each.file}:{each.line}:{each.column} {each.message}" for each in confirmed.problems]
    assert len(said) == 3, said
    assert said[0].startswith("models/shop/sales/a.sql:2:3 ") and "my_own_function" in said[0]
    assert "cannot be refreshed incrementally" in said[1]
    assert said[2].startswith("models/shop/sales/e.sql")
    (limit,) = [key for key, found in confirmed.obstacles.items() if found and key.name == "d"]
    assert confirmed.obstacles[limit][0].code == "LIMIT_WITHOUT_ORDER"


TODAY = ", current_date AS today FROM"
TESTS = """;
CREATE TEST right GIVEN orders (region, amount) AS (VALUES ('eu', 1.00), ('eu', 2.00), (NULL, NULL))
  EXPECT (total, region) AS (VALUES (3.00, 'eu'), (NULL, NULL));
CREATE TEST by_position GIVEN orders AS (VALUES (1, 'eu', 4, DATE '2024-01-01'))
  EXPECT (VALUES ('eu', 4, current_date));
CREATE TEST some_columns GIVEN orders AS (SELECT 'eu' AS region) EXPECT (SELECT 'eu' AS Region);
CREATE TEST twice GIVEN orders (region) AS (VALUES ('a'), ('b')) EXPECT (total) AS (VALUES (NULL));
CREATE TEST timely AT '2024-02-29 23:00:00' GIVEN orders (region) AS (VALUES ('eu'))
  EXPECT (today) AS (VALUES (DATE '2024-02-29'));
CREATE TEST wrong GIVEN orders (region, amount) AS (VALUES ('eu', 1.00))
  EXPECT (region, total) AS (VALUES ('us', 1.00), ('us', 1.00));
CREATE TEST broken GIVEN orders (id) AS (VALUES ('x')) EXPECT NO ROWS;
CREATE TEST short GIVEN orders AS (VALUES (1)) EXPECT NO ROWS;
"""


@pytest.fixture
def results(tmp_path: Path, spark: Spark) -> dict[str, Result]:
    compiled = project(
        tmp_path,
        orders=ORDERS,
        seen="CREATE VIEW seen AS SELECT * FROM orders WHERE id IS NULL OR id > 0",
        revenue=REVENUE.replace("FROM orders", "FROM seen").replace(" FROM", TODAY) + TESTS,
    ).check()
    columns = confirm(compiled, spark.session).columns
    with spark.tuned(1):
        found = list(Runner(compiled, spark.session, columns).run(selected(compiled, [])))
    return {result.test.name: result for result in found}


def test_tests_compare_bags_by_column_name(results: dict[str, Result]) -> None:
    outcomes = {name: result.outcome for name, result in results.items()}
    assert outcomes == {
        "right": "passed",
        "by_position": "passed",
        "some_columns": "passed",
        "timely": "passed",
        "twice": "failed",
        "wrong": "failed",
        "broken": "error",
        "short": "error",
    }
    assert results["twice"].unexpected == [{"row": {"total": None}, "count": 1}]
    assert (results["twice"].missing_rows, results["twice"].unexpected_rows) == (0, 1)
    (missing,), (unexpected,) = results["wrong"].missing, results["wrong"].unexpected
    assert missing["count"] == 2 and missing["row"]["region"] == "us"
    assert unexpected["row"]["region"] == "eu"
    assert "1 values are given for 4 columns" in (results["short"].error or "")
    assert results["wrong"].place == "models/shop/sales/revenue.sql:10"


CIRCLE = {
    "edges": "CREATE TABLE edges (a INT, b INT)",
    "reach": """CREATE STREAM TABLE reach AS SELECT a, b FROM edges
        UNION SELECT s.a, e.b FROM step s JOIN edges e ON s.b = e.a;
        CREATE TEST starts GIVEN edges AS (VALUES (1, 2)) EXPECT (a, b) AS (VALUES (1, 2));
        CREATE TEST goes_on
          GIVEN edges AS (VALUES (2, 3)) GIVEN step AS (VALUES (1, 2), (7, 8))
          EXPECT (a, b) AS (VALUES (2, 3), (1, 3));""",
    "step": """CREATE STREAM TABLE step AS SELECT DISTINCT a, b FROM reach;
        CREATE TEST once GIVEN reach AS (VALUES (1, 2), (1, 2)) EXPECT (VALUES (1, 2));
        CREATE TEST wrong GIVEN reach AS (VALUES (1, 2)) EXPECT NO ROWS;""",
    "alone": """CREATE STREAM TABLE alone AS
        SELECT a FROM edges UNION SELECT l.a + 1L FROM alone l WHERE l.a < 5;
        CREATE TEST one_round GIVEN alone AS (VALUES (3)) EXPECT (VALUES (4));""",
    "above": """CREATE STREAM TABLE above AS SELECT count(*) AS n FROM reach;
        CREATE TEST counts GIVEN reach AS (VALUES (1, 2)) EXPECT (VALUES (1));""",
}


def test_members_of_a_circle_are_tested_over_mock_rows_of_the_others(
    tmp_path: Path, spark: Spark
) -> None:
    compiled = project(tmp_path, toml="allow_circular = true", **CIRCLE).check()
    confirmed = confirm(compiled, spark.session)
    assert [str(each) for each in confirmed.problems] == []
    types = {key.name: [c.type for c in found] for key, found in confirmed.columns.items()}
    assert types["reach"] == types["step"] == ["int", "int"]
    assert types["alone"] == ["bigint"]  # what comes round is wider than what it starts from
    with spark.tuned(1):
        tests = selected(compiled, [])
        found = list(Runner(compiled, spark.session, confirmed.columns).run(tests))
    assert {each.test.name: each.outcome for each in found} == {
        "starts": "passed",
        "goes_on": "passed",
        "once": "passed",
        "wrong": "failed",
        "one_round": "passed",
        "counts": "passed",
    }


def test_a_circle_that_starts_nowhere_is_a_mistake(tmp_path: Path, spark: Spark) -> None:
    compiled = project(
        tmp_path,
        toml="allow_circular = true",
        one="CREATE STREAM TABLE one AS SELECT a FROM two",
        two="CREATE STREAM TABLE two AS SELECT a FROM one",
    ).check()
    (problem,) = confirm(compiled, spark.session).problems
    assert "every branch of their queries reads the cycle itself" in problem.message


def test_a_failing_test_exits_with_2(cli: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project(cli, orders=ORDERS, revenue=REVENUE.replace(" FROM", TODAY) + TESTS)
    assert run(["test", "--select", "revenue:[wr]*", "--junit", "out.xml"]) == 2
    out, err = capsys.readouterr()
    assert "failed" in out and "passed" in out
    assert 'missing    {"region": "us", "total": "1.00"} ×2' in err
    assert "2 tests, 1 failed" in err
    (failure,) = ElementTree.parse(cli / "out.xml").getroot().iter("failure")
    assert failure.attrib["message"] == "2 missing and 1 unexpected rows"
    assert load(cli).compiled.problems == ()
