"""One catalog, served: rows are written by the stand-in for Spark, so that no JVM starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import Anabranch
from tests.serve.running import Served, served
from tests.standin.engine import connect, installed


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        yield opened


@pytest.fixture
def here(ab: Anabranch) -> Iterator[Served]:
    with served(ab) as running:
        yield running
