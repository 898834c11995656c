"""Incremental equals recompute on real Spark and Iceberg: many random queries over one database.

The tables of one example share their sources and windows of changes, so that one refresh keeps all
of them; every table is then compared with its query, as bags, at its frontier.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import anabranch
from anabranch.engine.session import Spark
from anabranch.errors import NotIncremental, UnknownName
from tests.oracle.queries import _VALUES, TABLES, columns_of, inserts, queries, rows

EXAMPLES = int(os.environ.get("ANABRANCH_SPARK_EXAMPLES", "1"))
QUERIES = int(os.environ.get("ANABRANCH_SPARK_QUERIES", "12"))


@st.composite
def statements(draw: st.DrawFn) -> str:
    table = draw(st.sampled_from(list(TABLES)))
    cols = columns_of(table)
    column, test = draw(st.sampled_from(cols)), draw(st.sampled_from(cols))
    where = f"{test.text} IS NOT DISTINCT FROM {draw(_VALUES[test.kind])}"
    return draw(
        st.sampled_from(
            [
                f"INSERT INTO {table} VALUES {draw(rows(table))}, {draw(rows(table))}",
                f"DELETE FROM {table} WHERE {where}",
                f"UPDATE {table} SET {column.text} = {draw(_VALUES[column.kind])} WHERE {where}",
            ]
        )
    )


windows = st.lists(st.lists(statements(), min_size=1, max_size=3), min_size=2, max_size=2)


@pytest.mark.timeout(600 * EXAMPLES)
@pytest.mark.parametrize("small_table_rows", [100_000, 0], ids=["rewritten", "marked"])
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="ANABRANCH_SPARK_EXAMPLES" not in os.environ,
    database=None,
    phases=[Phase.generate],  # an example takes a minute: shrink a failure by hand, on DuckDB
    suppress_health_check=list(HealthCheck),
)
@given(
    texts=st.lists(queries(), min_size=QUERIES, max_size=QUERIES, unique=True),
    start=inserts(most=8),
    changes=windows,
)
def test_incremental_equals_recompute(
    spark: Spark,
    tmp_path_factory: pytest.TempPathFactory,
    small_table_rows: int,
    texts: list[str],
    start: list[str],
    changes: list[list[str]],
) -> None:
    assume(len(start) >= 12)  # the generator begins with the simplest case, which proves nothing
    home: Path = tmp_path_factory.mktemp("oracle")
    ab = anabranch.connect(home, spark=spark.session, small_table_rows=small_table_rows)
    for name, columns in TABLES.items():
        ab.sql(f"CREATE TABLE {name} ({columns.replace('VARCHAR', 'STRING')})")
    for name in TABLES:
        given_rows = [text.split(" VALUES ")[1] for text in start if f"INTO {name} " in text]
        if given_rows:
            ab.sql(f"INSERT INTO {name} VALUES {', '.join(given_rows)}")
    kept = {}
    for number, text in enumerate(texts):
        try:
            ab.create_stream_table(f"q{number}", text, refresh_mode="DIFFERENTIAL")
            kept[f"q{number}"] = text
        except NotIncremental as refused:
            # Sums of floating-point averages below the root are the only thing the generator
            # makes that is refused.
            assert "INEXACT_AGGREGATE" in str(refused), refused
        except UnknownName:
            with pytest.raises(UnknownName):  # then Spark itself must not know it either
                ab.sql(text)
    for window in changes:
        with ab.transaction():
            for statement in window:
                ab.sql(statement)
        ab.refresh()
        for name, text in kept.items():
            checked = ab.verify(name)
            latest = ab.history(name)[0]
            assert checked["equal"], (text, start, changes, checked, latest)
            assert latest["action"] in ("DIFFERENTIAL", "NO_DATA"), (text, latest)
