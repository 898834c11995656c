"""Upkeep expires no snapshot that somebody came to need while it was at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert

from anabranch.api import Anabranch
from anabranch.catalog import deployments, tables
from anabranch.catalog.store import Connection
from anabranch.errors import PublishConflict
from anabranch.lake import upkeep
from anabranch.lake.fence import Fence
from anabranch.lake.stage import Stage
from anabranch.names import TableName
from tests.standin.engine import connect, installed

SETTINGS = {"snapshot_retention": "0s", "history_retention": "0s", "orphan_grace": "0s"}
T = TableName.parse("s.t")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with installed():
        yield tmp_path / "home"


@pytest.fixture
def ab(home: Path) -> Iterator[Anabranch]:
    with connect(home, **SETTINGS) as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT)")
        for key in range(4):
            opened.sql(f"INSERT INTO s.t VALUES ({key})")
        opened.create_stream_table("s.d", "SELECT k FROM s.t", schedule=None)
        yield opened


def snapshots(ab: Anabranch) -> list[int]:
    version = ab._runtime.world().version(T)
    return [each.snapshot_id for each in version.metadata.snapshots]


def frontier(c: Connection, snapshot: int) -> None:
    """As a refresh leaves one that began upon an older cut."""
    row = {"table_name": "s.other", "source": "s.t", "snapshot_id": snapshot}
    c.execute(insert(tables.frontiers).values(**row))


def roll_back(c: Connection, snapshot: int) -> None:
    """As a promote leaves one."""
    row = {"table_name": "s.other", "source": "s.t", "snapshot_id": snapshot}
    undo = {"pointers": {}, "rows": {"inputs": [], "frontiers": [row]}}
    texts = ("project", "created_by", "host", "process_start")
    lists = ("plan", "wanted", "base", "notes")
    facts = {
        "id": "x",
        "status": deployments.DeploymentStatus.PROMOTED.value,
        "created_at": tables.now(c),
        "pid": 1,
        "undo": undo,
    }
    facts |= {**dict.fromkeys(texts, "x"), **{each: [] for each in lists}}
    c.execute(insert(tables.deployments).values(**facts))


def held_cut(c: Connection, snapshot: int) -> None:
    """A version that a cut shows, and somebody holds the cut."""
    row = {"namespace": "s", "name": "t", "cut_id": 1, "until_cut": 2, "metadata_location": "x"}
    c.execute(delete(tables.versions).where(tables.versions.c.cut_id == 1))
    c.execute(insert(tables.versions).values(**row, snapshot_id=snapshot))


@pytest.mark.parametrize("need", [frontier, roll_back, held_cut], ids=lambda each: each.__name__)
def test_what_is_needed_by_now_stays(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch, need: Callable[[Connection, int], None]
) -> None:
    old, publish, tried = snapshots(ab)[0], upkeep.publish, []

    def meanwhile(stage: Stage, kind: str, *given: Any) -> int | None:
        if not tried:
            with ab._store.writing() as c:
                need(c, old)
        tried.append(kind)
        return publish(stage, kind, *given)

    monkeypatch.setattr(upkeep, "publish", meanwhile)
    assert len(snapshots(ab)) == 4
    done = ab.maintain()
    assert tried and old in snapshots(ab) and done["snapshots_expired"] == 0
    if need is frontier:
        with ab._store.writing() as c:
            c.execute(delete(tables.frontiers).where(tables.frontiers.c.table_name == "s.other"))
        ab.sql("INSERT INTO s.t VALUES (9)")
        ab.refresh()
        ab.maintain()
        assert old not in snapshots(ab)


def test_nothing_expires_without_its_lease(ab: Anabranch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has been taken for dead does not publish, and a stream table in work is left alone."""
    d, publish, tried = TableName.parse("s.d"), upkeep.publish, []
    for key in range(10, 13):
        ab.sql(f"INSERT INTO s.t VALUES ({key})")
        ab.refresh()

    def listed() -> int:
        return len(ab._runtime.world().version(d).metadata.snapshots)

    def meanwhile(stage: Stage, kind: str, *given: Any) -> int | None:
        if not tried:
            with ab._store.writing() as c:
                c.execute(delete(tables.leases))
        try:
            found = publish(stage, kind, *given)
        except PublishConflict as error:
            tried.append(error.message)
            raise
        tried.append("published")
        return found

    before = listed()
    assert before > 1
    with ab._runtime.leases.hold([d], 60, wait=False):
        ab.maintain()
    assert listed() == before
    monkeypatch.setattr(upkeep, "publish", meanwhile)
    ab.sql("INSERT INTO s.t VALUES (20)")
    ab.maintain()
    assert "took over the refresh" in tried[0] and tried[1:] == ["published"] and listed() < before


def test_needs_of_deployments_are_known(ab: Anabranch) -> None:
    with ab._store.writing() as c:
        roll_back(c, 7)
        assert deployments.needed_snapshots(c) == {("s.t", 7)}


@pytest.mark.parametrize("verb", ["refresh", "write", "transaction"])
def test_work_begins_upon_a_cut_that_is_kept(
    ab: Anabranch, home: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Upkeep forgets the cut between the look at it and the stage that holds it."""
    ab.sql("INSERT INTO s.t VALUES (10)")
    real, done = Fence.claim, []

    def claim(fence: Fence) -> None:
        """The last thing before the transaction in which a stage begins."""
        if not done:
            done.append(True)
            with connect(home, **SETTINGS) as other:
                other.sql("INSERT INTO s.t VALUES (11)")
                other.maintain()
        real(fence)

    monkeypatch.setattr(Fence, "claim", claim)
    if verb == "refresh":
        ab.refresh("s.d")
    elif verb == "write":
        ab.sql("INSERT INTO s.t SELECT k + 100 FROM s.t WHERE k = 11")
    else:
        with ab.transaction():
            ab.sql("INSERT INTO s.t SELECT k + 100 FROM s.t WHERE k = 11")
    assert done
    if verb == "refresh":
        (stands,) = [row["frontier"]["s.t"] for row in ab.status() if row["name"] == "s.d"]
        assert stands in snapshots(ab), "it stands on what has expired"
        assert ab.verify("s.d")["equal"] and (11,) in ab.table("s.d").collect()
    else:
        assert (111,) in ab.table("s.t").collect()
