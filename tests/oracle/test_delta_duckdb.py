"""Incremental equals recompute: random queries, data and windows of changes, on DuckDB."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.oracle.kept import Kept, World
from tests.oracle.queries import TABLES, inserts, queries, windows

EXAMPLES = int(os.environ.get("ANABRANCH_ORACLE_EXAMPLES", "200"))
WORLD = World(TABLES)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="ANABRANCH_ORACLE_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(query=queries(), start=inserts(), changes=windows, noise=st.booleans())
def test_incremental_equals_recompute(
    query: str, start: list[str], changes: list[list[str]], noise: bool
) -> None:
    WORLD.reset()
    WORLD.db.execute("; ".join(start))
    kept = Kept.of(WORLD, query)
    assume(kept is not None)
    assert kept is not None
    for window in changes:
        WORLD.begin()
        for statement in window:
            WORLD.db.execute(statement)
        kept.refresh(WORLD.end(noise))
