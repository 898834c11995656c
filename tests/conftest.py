"""What tests of several folders share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anabranch.engine.session import Spark, expect_little

expect_little()  # subprocesses inherit it


@pytest.fixture(scope="session")
def spark() -> Iterator[Spark]:
    """One Spark for the whole run; it starts when a test first asks for `spark.session`."""
    running = Spark({"spark.master": "local[2]", "spark.conf.spark.driver.memory": "2g"})
    yield running
    running.stop()
