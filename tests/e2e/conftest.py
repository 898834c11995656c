"""A home of its own for every test, one Spark for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.spark.session import Spark
from tests.e2e.world import Outside


@pytest.fixture
def ab(tmp_path: Path, spark: Spark) -> Iterator[Anabranch]:
    with anabranch.connect(tmp_path, spark=spark.session) as opened:
        yield opened


@pytest.fixture
def outside(ab: Anabranch, tmp_path: Path) -> Iterator[Outside]:
    found = Outside(tmp_path)
    yield found
    found.catalog.close()
