"""A bug in our analysis of queries: every statement works all the same, and an event says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import Anabranch, noted
from anabranch.catalog.events import ANALYSIS_FAILED
from anabranch.refresh import definition
from anabranch.sql import offline
from anabranch.sql.analyze import walk
from tests.e2e.graphs import status
from tests.standin.engine import connect, installed

pytestmark = pytest.mark.analysis_fails
QUERY = "SELECT k, SUM(v) AS v FROM s.t GROUP BY k"


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        opened.sql("INSERT INTO s.t VALUES (1, 10)")
        yield opened
    definition._cache.clear()


def failing(*given: object, **named: object) -> object:
    raise KeyError("_ab_v4")


def told(ab: Anabranch) -> dict[str | None, str]:
    return {
        each["table"]: each["message"] for each in ab.events() if each["kind"] == ANALYSIS_FAILED
    }


@pytest.mark.parametrize("mode", ["AUTO", "DIFFERENTIAL"])
def test_an_offline_plan_that_fails(
    ab: Anabranch, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the query is incremental is then told by creation, which has Spark."""
    monkeypatch.setattr(offline, "lower", failing)
    ab.create_stream_table("s.x", QUERY, refresh_mode=mode, schedule=None)
    assert ab.table("s.x").collect() == [(1, 10)]
    if mode == "DIFFERENTIAL":
        assert "KeyError: '_ab_v4'" in told(ab)["s.x"]
    else:
        assert told(ab) == {}  # nobody asks before Spark starts


def test_statements_whose_analysis_fails(ab: Anabranch, monkeypatch: pytest.MonkeyPatch) -> None:
    """What sees names fails; plans are made of it too, so that the table is recomputed."""
    monkeypatch.setattr(walk, "Block", failing)
    assert ab.sql("SELECT k FROM s.t").collect() == [(1,)]
    ab.create_stream_table("s.x", QUERY, schedule=None)
    ab.sql("CREATE VIEW s.v AS SELECT k FROM s.t")
    ab.sql("INSERT INTO s.t SELECT k + 1, v FROM s.t")
    ab.refresh("s.x")
    assert sorted(ab.table("s.x").collect()) == [(1, 10), (2, 10)]
    found = told(ab)
    assert {None, "s.x"} <= found.keys()
    assert all("a fault of Anabranch" in each for each in found.values())
    assert status(ab, "s.x")["status"] == "ACTIVE" and ab.verify("s.x")["equal"]
    assert not [n for n in noted.waiting().values() if n.kind == ANALYSIS_FAILED]
