"""PostgreSQL restarted in the middle of a publish: the old state or the new, and work goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.api import Anabranch
from anabranch.errors import Unreachable
from tests.postgres import Server, running_server
from tests.standin.engine import connect, installed

SUMS = "SELECT k, SUM(v) AS v FROM s.t GROUP BY k"
TOTAL = "SELECT SUM(v) AS v FROM s.sums"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests, as they share a catalog."""
    return tmp_path_factory.mktemp("lake")


@pytest.fixture
def ab(server: Server, lake: Path) -> Iterator[Anabranch]:
    with installed(), connect(server.url, warehouse=str(lake)) as opened:
        opened.sql("DROP STREAM TABLE IF EXISTS s.sums CASCADE")
        opened.sql("DROP TABLE IF EXISTS s.t")
        opened.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        opened.sql("INSERT INTO s.t VALUES (1, 10)")
        opened.create_stream_tables({"s.sums": SUMS, "s.total": TOTAL}, schedule=None)
        yield opened


def seen(ab: Anabranch) -> tuple[int, int, int]:
    """One look: rows of the source, and what both stream tables say."""
    with ab.at() as world:
        ((total,),) = world.table("s.total").collect()
        sums = world.table("s.sums").collect()
        return len(world.table("s.t").collect()), sum(v for _, v in sums), total


def restarting(server: Server, at: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The server goes down and up again when a publish first comes to a step."""
    met: list[str] = []

    def hook(step: str) -> None:
        if step == at and not met:
            met.append(step)
            server.restart()

    monkeypatch.setattr(failpoints, "hook", hook)
    return met


def attempt(act: Callable[[], object]) -> bool:
    """Whether it went through; if not, it says that the catalog is away and what to do."""
    try:
        act()
    except Unreachable as error:
        assert error.hint
        return False
    return True


@pytest.mark.parametrize("step", failpoints.STEPS)
def test_a_write(ab: Anabranch, server: Server, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    met = restarting(server, step, monkeypatch)
    done = attempt(lambda: ab.sql("INSERT INTO s.t VALUES (2, 5)"))
    assert met
    if step in (failpoints.STAGED, failpoints.METADATA_WRITTEN, failpoints.PUBLISHED):
        assert done, "no transaction was open: the process goes on"
    assert seen(ab) == (2 if done else 1, 10, 10)
    ab.sql("INSERT INTO s.t VALUES (2, 5)")
    ab.refresh()
    count = 3 if done else 2
    assert seen(ab) == (count, 5 * count + 5, 5 * count + 5)


@pytest.mark.parametrize("step", failpoints.STEPS)
def test_a_refresh(
    ab: Anabranch, server: Server, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab.sql("INSERT INTO s.t VALUES (2, 5)")
    met = restarting(server, step, monkeypatch)
    done = attempt(ab.refresh)
    assert met
    if step in (failpoints.STAGED, failpoints.METADATA_WRITTEN, failpoints.PUBLISHED):
        assert done
    assert seen(ab) == ((2, 15, 15) if done else (2, 10, 10))
    ab.refresh()
    assert seen(ab) == (2, 15, 15)
    assert {row["status"] for row in ab.status()} == {"ACTIVE"}
    assert ab.verify("s.total")["equal"]
