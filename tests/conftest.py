"""What tests of several folders share."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from tempfile import mkdtemp

import pytest
from hypothesis import settings

from anabranch import noted, redaction
from anabranch.catalog.events import ANALYSIS_FAILED
from anabranch.spark.session import Spark, expect_little
from tests.leftovers import pytest_sessionfinish, pytest_sessionstart
from tests.quick import GIVEN, QUICK

__all__ = ["pytest_sessionfinish", "pytest_sessionstart"]  # hooks of this run

expect_little()  # subprocesses inherit it
os.environ.setdefault("ANABRANCH_FSYNC", "false")  # power cuts have tests of their own
os.environ.setdefault("ANABRANCH_ORPHAN_GRACE", "0s")  # and so has the age of files
os.environ["XDG_CONFIG_HOME"] = mkdtemp(
    prefix="anabranch-tests-"
)  # what this user trusts is not ours
# `make test` draws the same cases every time, since a change must not fail by chance; ANABRANCH_RANDOM
# draws others. No deadline: a busy machine is no failure.
settings.register_profile(
    "anabranch", deadline=None, derandomize="ANABRANCH_RANDOM" not in os.environ
)
settings.load_profile("anabranch")
gc.set_threshold(200_000, 20, 100)  # trees of plans are many and short-lived, and hold few circles

LONG = (
    "oracle/test_delta_duckdb",
    "e2e/test_traps",
    "tpch",
    "oracle",
    "e2e",
    "model",
    "faults",
    "contract",
    "spark",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that all workers end at about the same time."""
    items.sort(key=lambda item: place(item.nodeid.removeprefix("tests/")))


def place(path: str) -> int:
    return next((at for at, start in enumerate(LONG) if path.startswith(start)), len(LONG))


@pytest.fixture(autouse=True)
def no_analysis_fails(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test asks: users go on when our analysis of a query fails, tests do not."""
    noted.forget(ANALYSIS_FAILED)
    yield
    failed = [each for each in noted.said(ANALYSIS_FAILED) if "fault of Anabranch" in each]
    if request.node.get_closest_marker("analysis_fails") is None:
        assert failed == []
    noted.forget(ANALYSIS_FAILED)


@pytest.fixture(autouse=True)
def secrets_of_this_test_only() -> Iterator[None]:
    """What one test takes for a secret may be a plain word in the messages of the next."""
    before = set(redaction._known)
    yield
    redaction._known.intersection_update(before)


@pytest.fixture(scope="session")
def spark() -> Iterator[Spark]:
    """One Spark for the whole run; it starts when a test first asks for `spark.session`."""
    running = Spark({"spark.master": "local[2]", "spark.conf.spark.driver.memory": "2g", **GIVEN})
    yield running
    running.stop()


@pytest.fixture(scope="module")
def as_users_run_it(spark: Spark) -> Iterator[None]:
    """Spark with the settings that users have: it generates code."""
    conf = spark.session.conf
    for name in QUICK:
        conf.unset(name)
    assert conf.get("spark.sql.codegen.wholeStage") == "true"
    yield
    for name, value in QUICK.items():
        conf.set(name, value)
