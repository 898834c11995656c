"""Unit tests need no Spark; what is found on a real one stands in tests/spark."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def spark() -> None:
    pytest.fail("unit tests start no Spark: this one belongs into tests/spark")
