"""kill -9 in a middle round of a fixed point: the old rows stay, and the next refresh goes on."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import anabranch
from anabranch.failpoints import ROUND
from anabranch.spark.session import Spark
from tests.failpoints import python
from tests.oracle.circle import closure_of

REFRESH = """
import sys, anabranch
from tests.quick import GIVEN
ab = anabranch.connect(sys.argv[1], **{"spark.conf.spark.driver.memory": "1g", **GIVEN})
ab.refresh()
"""
CLOSURE = (
    "SELECT src, dst FROM g.edges UNION "
    "SELECT r.src, e.dst FROM g.closure r JOIN g.edges e ON e.src = r.dst"
)


def files(home: Path) -> set[str]:
    return {str(path) for path in (home / "warehouse").rglob("*") if path.is_file()}


@pytest.mark.slow  # tests/e2e/test_circles.py has a failure in a middle round
@pytest.mark.timeout(600)
def test_a_killed_fixed_point_leaves_the_old_state(tmp_path: Path, spark: Spark) -> None:
    ab = anabranch.connect(tmp_path, spark=spark.session, allow_circular=True)
    ab.sql("CREATE TABLE g.edges (src INT, dst INT)")
    ab.sql("INSERT INTO g.edges VALUES (1, 2), (2, 3)")
    ab.create_stream_table("g.closure", CLOSURE, schedule=None)
    old = Counter(tuple(row) for row in ab.table("g.closure").collect())
    ab.sql("INSERT INTO g.edges VALUES (3, 4), (4, 5)")
    ab.maintain()
    cuts, clean = ab.cuts(), files(tmp_path)
    killed = subprocess.run(
        python("-c", REFRESH, str(tmp_path), kill=f"{ROUND}2"),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert ab.cuts() == cuts
    assert Counter(tuple(row) for row in ab.table("g.closure").collect()) == old
    assert files(tmp_path) - clean, "the killed process wrote batches"
    ab.maintain()
    assert files(tmp_path) == clean
    ab.refresh()
    expected = Counter(closure_of([(1, 2), (2, 3), (3, 4), (4, 5)]))
    assert Counter(tuple(row) for row in ab.table("g.closure").collect()) == expected
