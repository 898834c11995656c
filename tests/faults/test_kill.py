"""kill -9 of a real process in the middle of a refresh: the old state or the new, nothing between."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

import anabranch
from anabranch.failpoints import IN_TRANSACTION, STEPS
from anabranch.spark.session import Spark
from tests.failpoints import python

REFRESH = """
import sys, anabranch
from tests.quick import GIVEN
ab = anabranch.connect(sys.argv[1], **{"spark.conf.spark.driver.memory": "1g", **GIVEN})
ab.refresh()
"""
QUERIES = {
    "shop.by_region": "SELECT region, sum(amount) AS total FROM shop.sales GROUP BY region",
    "shop.total": "SELECT sum(total) AS total FROM shop.by_region",
}


def files(home: Path) -> set[str]:
    return {str(path) for path in (home / "warehouse").rglob("*") if path.is_file()}


def totals(ab: anabranch.Anabranch) -> tuple[int, int]:
    with ab.at() as world:
        by_region = world.sql("SELECT sum(total) AS t FROM shop.by_region").first()
        total = world.table("shop.total").first()
    assert by_region is not None
    assert total is not None
    return by_region[0], total[0]


# Without Spark, processes are killed at every step: tests/contract/test_processes.py.
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "at",
    [
        pytest.param((IN_TRANSACTION,), id="before the commit"),
        pytest.param(STEPS, id="at every step", marks=pytest.mark.slow),
    ],
)
@pytest.mark.extended
def test_a_killed_refresh_leaves_the_old_or_the_new_state(
    tmp_path: Path, spark: Spark, at: tuple[str, ...]
) -> None:
    ab = anabranch.connect(tmp_path, spark=spark.session)
    ab.sql("CREATE TABLE shop.sales (id BIGINT, region STRING, amount BIGINT)")
    ab.sql("INSERT INTO shop.sales VALUES (1, 'eu', 10), (2, 'us', 5)")
    ab.create_stream_tables(QUERIES, refresh_mode="DIFFERENTIAL", schedule=None)
    expected = 15
    for step in at:
        ab.sql("INSERT INTO shop.sales VALUES (3, 'ap', 100)")
        ab.maintain()  # takes superseded metadata, so that what it takes later is the killed one's
        before, clean = expected, files(tmp_path)
        expected += 100
        killed = subprocess.run(
            python("-c", REFRESH, str(tmp_path), kill=step),
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
        published = step == STEPS[-1]
        assert totals(ab) == ((expected, expected) if published else (before, before)), step
        left = files(tmp_path) - clean
        assert left, "the killed process wrote files"
        if not published:  # what it left is garbage, and the only garbage
            ab.maintain()
            assert files(tmp_path) == clean, step
        ab.refresh()  # the next run goes on
        assert totals(ab) == (expected, expected), step
    for name in QUERIES:
        assert ab.verify(name)["equal"]
