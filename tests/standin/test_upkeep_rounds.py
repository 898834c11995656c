"""The scheduler keeps the house tidy by itself, beside its ticks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from anabranch import Anabranch
from anabranch.catalog.rounds import said
from anabranch.errors import Unreachable
from anabranch.scheduler import upkeep
from anabranch.scheduler.upkeep import Upkeep
from tests.standin.engine import connect, installed

SUMS = "SELECT k, SUM(v) AS v FROM s.t GROUP BY k"
GONE = Unreachable("the catalog is away")
KEEP_NOTHING = {"orphan_grace": 0, "snapshot_retention": 0, "keep_all_cuts": 0}


@pytest.fixture(autouse=True)
def standin() -> Iterator[None]:
    with installed():
        yield


def fill(ab: Anabranch, table: str, writes: int) -> None:
    ab.sql(f"CREATE TABLE {table} (k BIGINT, v BIGINT)")
    for at in range(writes):
        ab.sql(f"INSERT INTO {table} VALUES ({at}, {at})")


def files(ab: Anabranch) -> set[str]:
    warehouse = ab._runtime.lake.warehouse
    return set(warehouse.listing(warehouse.location))


def test_a_round_does_everything(tmp_path: Path) -> None:
    with connect(tmp_path / "home", **KEEP_NOTHING, history_retention=0) as ab:
        fill(ab, "s.t", 22)
        ab.create_stream_table("s.d", SUMS, schedule="1s")
        ab.sql("INSERT INTO s.t VALUES (100, 1)")
        ab.tick()
        before, rows = files(ab), sorted(ab.table("s.t").collect())
        assert Upkeep(ab._runtime).round()
        assert len(files(ab)) < len(before) - 20  # but for those that s.d stands on
        assert len(ab.cuts()) <= 2 and ab.history() == []
        assert sorted(ab.table("s.t").collect()) == rows and ab.verify("s.d")["equal"]
        ab.sql("INSERT INTO s.t VALUES (101, 1)")
        assert [line["action"] for line in ab.refresh()] == ["DIFFERENTIAL"]


def test_what_a_round_did_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, Any]] = []
    with connect(tmp_path / "home", **KEEP_NOTHING) as ab:
        fill(ab, "s.t", 22)
        assert ab.upkeep() == []
        ab.on_progress = lambda event, data: told.append((event, dict(data)))
        rounds, before = Upkeep(ab._runtime), files(ab)
        assert rounds.round()
        gone = before - files(ab)
        (row,) = ab.upkeep()
        assert row["initiated_by"] == "scheduler" and row["tables_compacted"] == ["s.t"]
        assert row["files_deleted"] >= len(gone) > 20 and row["bytes_deleted"] > 1000
        assert row["cuts_forgotten"] > 0 and row["snapshots_expired"] > 0 and not row["errors"]
        assert row["duration_ms"] > 0 and row["started_at"] <= datetime.now(timezone.utc)
        ((_, shown),) = [each for each in told if each[0] == "upkeep"]
        assert said(shown) == said(row) and f"deleted {row['files_deleted']} files (" in said(row)
        found = ab.sql("SELECT initiated_by, tables_compacted FROM system.upkeep").collect()
        assert [tuple(each) for each in found] == [
            ("scheduler", "['s.t']")
        ]  # the stand-in has texts only
        assert rounds.round(), "which may forget the cut that was shown when the first one began"
        known = ab.upkeep()
        assert rounds.round(), "which finds nothing to do"
        assert ab.upkeep() == known and known[-1] == row and len(known) <= 2
        for at in range(22):
            ab.sql(f"INSERT INTO s.t VALUES ({at}, {at})")
        ab.maintain()
        assert [each["initiated_by"] for each in ab.upkeep()] == ["maintain"] + len(known) * [
            "scheduler"
        ]
        assert ab.upkeep(1) == ab.upkeep()[:1]
        monkeypatch.setattr("anabranch.catalog.rounds.MOST", 1)
        ab.sql("INSERT INTO s.t VALUES (1, 1)")
        ab.maintain()
        assert len(ab.upkeep()) == 2, "shortened, and then one was added"
    with connect(tmp_path / "home", history_retention=0) as ab:
        Upkeep(ab._runtime).round()
        assert len(ab.upkeep()) <= 1


def test_a_round_that_fails_is_listed_and_the_next_one_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the failure cannot be written down: the thread goes on."""
    tries: list[str] = []

    def fails(self: Upkeep) -> bool:
        tries.append("")
        if len(tries) == 2:  # the catalog is away, which is met again when it is to be noted
            monkeypatch.setattr(Upkeep, "_failed", lambda self, failed: (_ for _ in ()).throw(GONE))
        if len(tries) > 3:
            self._over.set()
        raise GONE

    monkeypatch.setattr(Upkeep, "round", fails)
    with connect(tmp_path / "home", upkeep_interval="10ms") as ab:
        rounds = Upkeep(ab._runtime)
        rounds.start()
        rounds._thread.join(60)
        assert len(tries) > 3
        assert [each["errors"] for each in ab.upkeep()] == [["the catalog is away"]]


def test_one_scheduler_does_the_rounds(tmp_path: Path) -> None:
    with connect(tmp_path / "home") as ab:
        leases = ab._runtime.leases
        with leases.hold_free([upkeep.NAME], 60):
            assert not Upkeep(ab._runtime).round()
        assert Upkeep(ab._runtime).round()


def test_a_table_that_fails_is_said_once_and_stops_no_other(tmp_path: Path) -> None:
    with connect(tmp_path / "home", **KEEP_NOTHING) as ab:
        fill(ab, "s.a", 21)
        fill(ab, "s.b", 21)
        lake = ab._runtime.lake
        broken = lake.current(next(name for name in lake.pointers() if name.name == "a"))
        snapshot = broken.metadata.current_snapshot()
        assert snapshot is not None
        lake.warehouse.delete(snapshot.manifest_list)
    with connect(tmp_path / "home", **KEEP_NOTHING) as ab:
        rounds = Upkeep(ab._runtime)
        for _ in range(2):
            assert rounds.round()
        noted = [each for each in ab.events() if each["kind"] == "UPKEEP"]
        assert [each["table"] for each in noted] == ["s.a"]
        errors = [error for row in ab.upkeep() for error in row["errors"]]
        assert len(errors) == 1 and "s.a" in errors[0], "once, until the reason changes"
        kept = ab._runtime.lake.current(
            next(name for name in ab._runtime.lake.pointers() if name.name == "b")
        )
        assert len(kept.reading().files) == 1


def test_a_running_scheduler_tidies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    real = Upkeep.round

    def seen(self: Upkeep) -> bool:
        found = real(self)
        done.set()
        return found

    monkeypatch.setattr(Upkeep, "round", seen)
    with connect(tmp_path / "home", **KEEP_NOTHING, upkeep_interval="10ms") as ab:
        fill(ab, "s.t", 21)
        stop = threading.Event()
        thread = threading.Thread(target=lambda: ab.run(stop=stop))
        thread.start()
        assert done.wait(60)
        stop.set()
        thread.join(60)
        assert not thread.is_alive()
        assert ab.events() == [] and len(ab.table("s.t").collect()) == 21
