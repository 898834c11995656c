"""Cases that have broken real engines: after every window each table equals its query, as a bag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from anabranch import Anabranch
from anabranch.engine.session import Spark
from anabranch.names import quote
from tests.e2e.traps import Window, load, names

MARKED = {"sets"}  # there removed rows are marked, elsewhere small tables are rewritten


@pytest.fixture(autouse=True)
def interpreted(spark: Spark) -> Iterator[None]:
    """Compiling code for queries that run once over ten rows takes longer than running them."""
    conf = spark.session.conf
    ways = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    for name, value in ways.items():
        conf.set(name, value)
    yield
    for name in ways:
        conf.unset(name)


@pytest.mark.parametrize("name", names())
def test_traps(ab: Anabranch, name: str) -> None:
    trap = load(name)
    if name in MARKED:
        ab.set("small_table_rows", 0)
    ab.sql(trap.tables)
    ab.create_stream_tables({f"st.{name}": query for name, query in trap.queries.items()})
    assert different(ab, trap.queries) == {}, trap.title
    queries = list(trap.queries)
    for number, window in enumerate(trap.windows):
        ab.sql(window.statements)
        done = {line["table"]: line for line in ab.refresh()}
        assert different(ab, trap.queries) == {}, (window, done)
        allowed = {"NO_DATA", "DIFFERENTIAL"}
        if "ALTER TABLE" in window.statements:
            allowed.add("REINITIALIZE")
        assert {line["action"] for line in done.values()} <= allowed, (window, done)
        check(ab, window, queries[number % len(queries)])
    for name in queries[len(trap.windows) :]:
        check(ab, window, name)


def check(ab: Anabranch, window: Window, name: str) -> None:
    found = ab.verify(f"st.{name}")
    assert found["equal"], (window, found)


def different(ab: Anabranch, queries: Mapping[str, str]) -> dict[str, list[Any]]:
    """Stream tables that differ from their query at the current cut: all of them in one job."""
    with ab.at() as world:
        parts = []
        for name, query in queries.items():
            table = world.table(f"st.{name}")
            fresh = world.sql(query).toDF(*table.columns)
            for frame, weight in ((fresh, 1), (table, -1)):
                row = f"to_json(struct({', '.join(quote(column) for column in table.columns)}))"
                parts.append(
                    frame.selectExpr(f"'{name}' AS name", f"{row} AS row", f"{weight} AS w")
                )
        both = parts[0]
        for part in parts[1:]:
            both = both.unionAll(part)
        with ab._runtime.spark.tuned(1):
            found = both.groupBy("name", "row").sum("w").where("`sum(w)` <> 0").collect()
    wrong: dict[str, list[Any]] = {}
    for name, row, weight in found:
        wrong.setdefault(name, []).append((row, weight))
    return wrong
