"""Nothing that Spark accepts is blamed, and each of these mistakes is found.

`accepted.sql` and `refused.sql` hold one query in a line; tests/e2e asks Spark for its opinion on each.
Under a refused one stands what is told, after its offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from anabranch.model import Column as TableColumn
from anabranch.names import TableName
from anabranch.plan.exprs import VERBATIM
from anabranch.sql.analyze.analysis import Column, Columns, analyze
from anabranch.sql.batches import batches
from anabranch.sql.lower.query import lower
from anabranch.sql.lower.supported import SUPPORTED
from anabranch.sql.statements.records import CreateTable
from anabranch.types import Type
from benchmarks.tpch import data as tpch
from tests.e2e import traps
from tests.fixtures.analysis.lists import ACCEPTED, REFUSED, TABLES
from tests.oracle import tables as random_tables
from tests.oracle.queries import draw
from tests.unit.delta import test_fixtures as fixtures

Declared = Mapping[str, str | tuple[Column, ...]]
DUCK = {"VARCHAR": "STRING"}


def known(declared: Declared) -> Callable[[TableName], Columns]:
    """Tables that are written as `a INT, b VARCHAR`."""
    found = {
        name.lower(): tuple(columns(each)) if isinstance(each, str) else each
        for name, each in declared.items()
    }
    return lambda name: found.get(name.name.lower())


def columns(text: str) -> Iterator[Column]:
    schema = VERBATIM.parse(f"CREATE TABLE t ({text.replace(chr(34), '`')})")[0]
    assert schema is not None
    for each in schema.this.expressions:
        written = each.args["kind"].sql("spark")
        yield Column(each.name, Type.parse(DUCK.get(written.upper(), written)))


def blamed(query: str, declared: Declared) -> list[str]:
    return [each.message for each in analyze(query, known(declared)).findings]


@pytest.mark.parametrize("query", ACCEPTED)
def test_accepted(query: str) -> None:
    assert blamed(query, TABLES) == []


@pytest.mark.parametrize(("query", "told"), REFUSED)
def test_refused(query: str, told: list[str]) -> None:
    found = analyze(query, known(TABLES)).findings
    assert [f"{each.start + 1}: {each.message}" for each in found] == told


@pytest.mark.parametrize("case", [pytest.param(c, id=c.title) for _, c in fixtures.CASES])
def test_fixtures(case: fixtures.Case) -> None:
    assert blamed(case.query, fixtures.TABLES) == []


def test_random_queries() -> None:
    for seed in range(300, 500):
        query = draw(seed).text
        assert blamed(query, random_tables.TABLES) == [], query


@pytest.mark.parametrize("query", [each.example for each in SUPPORTED])
def test_what_the_documentation_calls_incremental(query: str) -> None:
    declared = {"a": "id INT, k INT, v INT", "b": "id INT, k INT, w INT"}
    assert blamed(query, declared) == []


@pytest.mark.parametrize("path", sorted((traps.TESTS / "fixtures" / "tpch").glob("*.sql")))
def test_tpch(path: Path) -> None:
    assert blamed(path.read_text().strip().rstrip(";"), tpch.TABLES) == []


@pytest.mark.parametrize("name", traps.names())
def test_traps(name: str) -> None:
    trap = traps.load(name)
    made = [
        statement
        for window in trap.windows
        for batch in batches(window.statements)
        for statement in batch.statements
        if isinstance(statement, CreateTable)
    ]
    declared = {
        each.name.name: tuple(Column(c.name, Type.parse(c.type)) for c in each.columns)
        for each in made
    }
    for query in (*trap.queries.values(), *trap.recomputed.values()):
        assert blamed(query, declared) == [], query


@pytest.mark.parametrize("case", [pytest.param(c, id=c.title) for _, c in fixtures.CASES])
def test_plans_have_the_columns_that_the_analysis_tells(case: fixtures.Case) -> None:
    """Both resolve stars, aliases and USING by the same scopes."""
    declared = {name: tuple(columns(text)) for name, text in fixtures.TABLES.items()}
    found = analyze(case.query, known(fixtures.TABLES)).columns
    stored = {
        TableName.of(name): tuple(TableColumn(c.name or "", str(c.type), True) for c in own)
        for name, own in declared.items()
    }
    lowered = lower(case.query, stored, {}, lambda node, exprs: ["int" for _ in exprs])
    if found is not None and lowered.plan is not None:
        told = [each.name.lower() for each in found if each.name]
        named = [
            name.lower()
            for name, each in zip(lowered.plan.columns, found, strict=True)
            if each.name
        ]
        assert named == told
