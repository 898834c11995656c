"""Cases that have broken real engines: after every window each table equals its query, as a bag."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from anabranch import Anabranch
from anabranch.names import quote
from tests.e2e.traps import Trap, load, names


@pytest.mark.parametrize("name", names())
def test_traps(ab: Anabranch, name: str) -> None:
    run(ab, load(name))


@pytest.mark.parametrize("name", ["sets"])
def test_traps_with_marks_instead_of_rewriting(ab: Anabranch, name: str) -> None:
    ab.set("small_table_rows", 1)
    run(ab, load(name))


def run(ab: Anabranch, trap: Trap) -> None:
    ab.sql(trap.tables)
    ab.create_stream_tables({f"st.{name}": query for name, query in trap.queries.items()})
    assert different(ab, trap.queries) == {}, trap.title
    turn = list(trap.queries)
    for window in trap.windows:
        ab.sql(window.statements)
        done = {line["table"]: line for line in ab.refresh()}
        assert different(ab, trap.queries) == {}, (window, done)
        actions = {line["action"] for line in done.values()}
        allowed = {"NO_DATA", "DIFFERENTIAL"}
        if "ALTER TABLE" in window.statements:
            allowed.add("REINITIALIZE")
        assert actions <= allowed, (window, done)
        turn.append(turn.pop(0))
        assert ab.verify(f"st.{turn[0]}")["equal"], (window, turn[0])
    for name in trap.queries:
        found = ab.verify(f"st.{name}")
        assert found["equal"], found


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
        found = both.groupBy("name", "row").sum("w").where("`sum(w)` <> 0").collect()
    wrong: dict[str, list[Any]] = {}
    for name, row, weight in found:
        wrong.setdefault(name, []).append((row, weight))
    return wrong
