"""Commits of other programs become a cut of their own before anything reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch import Anabranch
from anabranch.catalog import cuts
from anabranch.lake import observe
from tests.standin.engine import connect, installed
from tests.standin.foreign import append, foreign

SUM = "SELECT SUM(v) AS v FROM s.t"


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        opened.sql("INSERT INTO s.t VALUES (1, 1)")
        yield opened


def newest(ab: Anabranch) -> dict[str, Any]:
    return ab.cuts(1)[0]


def rows_at(ab: Anabranch, cut: int, table: str) -> list[Any]:
    with ab.at(cut) as world:
        return sorted(world.table(table).collect())


def test_the_watermark_of_a_tick_holds_what_the_tick_read(ab: Anabranch) -> None:
    ab.create_stream_table("s.d", SUM, schedule="1ms")
    append(ab, "s.t", (2, 10))
    (done,) = ab.tick()
    line = ab.history("s.d", 1)[0]
    assert done["outcome"] == "PUBLISHED" and ab.table("s.d").collect() == [(11,)]
    assert rows_at(ab, line["tick_watermark"], "s.t") == [(1, 1), (2, 10)]
    found = {each["cut_id"]: each for each in ab.cuts()}
    assert found[line["tick_watermark"]]["kind"] == "observed"
    assert found[line["tick_watermark"]]["tables"] == ["s.t"]
    assert found[line["cut_id"]]["tables"] == ["s.d"]


@pytest.mark.parametrize("read", ["at", "table", "sql", "refresh", "create", "verify", "insert"])
def test_every_way_to_read_records_the_commit_first(ab: Anabranch, read: str) -> None:
    ab.create_stream_table("s.d", SUM, schedule=None)
    before = newest(ab)["cut_id"]
    append(ab, "s.t", (2, 10))
    if read == "at":
        with ab.at() as world:
            assert len(world.table("s.t").collect()) == 2
            assert world.cut_id == before + 1
    elif read == "table":
        assert ab.table("s.t").count() == 2
    elif read == "sql":
        assert ab.sql("SELECT SUM(v) AS v FROM s.t").collect() == [(11,)]
    elif read == "refresh":
        ab.refresh("s.d")
    elif read == "create":
        ab.create_stream_table("s.e", SUM)
    elif read == "verify":
        ab.verify("s.d")
    else:
        ab.sql("INSERT INTO s.t VALUES (3, 100)")
    found = next(each for each in ab.cuts() if each["cut_id"] == before + 1)
    assert (found["kind"], found["tables"]) == ("observed", ["s.t"])
    assert rows_at(ab, before + 1, "s.t") == [(1, 1), (2, 10)]


def test_a_commit_during_a_refresh_is_not_part_of_its_cut(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab.create_stream_table("s.d", SUM, schedule=None)
    ab.sql("INSERT INTO s.t VALUES (2, 10)")
    read = newest(ab)["cut_id"]

    def meanwhile(event: str, facts: Any) -> None:
        if event == "refresh_finished":
            append(ab, "s.t", (3, 100))

    monkeypatch.setattr(ab._runtime, "progress", meanwhile)
    ab.refresh("s.d")
    own, theirs = ab.cuts(2)
    assert (theirs["kind"], theirs["tables"]) == ("observed", ["s.t"])
    assert (own["kind"], own["tables"]) == ("refresh", ["s.d"])
    assert own["cut_id"] == read + 2 and ab.table("s.d").collect() == [(11,)]
    assert ab.history("s.d", 1)[0]["cut_id"] == own["cut_id"]
    assert rows_at(ab, theirs["cut_id"], "s.d") == [(1,)]
    assert rows_at(ab, theirs["cut_id"], "s.t") == [(1, 1), (2, 10), (3, 100)]


def test_a_write_to_a_stream_table_is_told(ab: Anabranch) -> None:
    ab.create_stream_table("s.d", SUM, schedule="1ms")
    append(ab, "s.d", (99,))
    ab.tick()
    told = [each for each in ab.events("s.d") if each["kind"] == "FOREIGN_WRITE"]
    assert len(told) == 1 and "wrote to" in told[0]["message"]
    assert ab.table("s.d").collect() == [(1,)] and ab.verify("s.d")["equal"]
    with foreign(ab) as catalog:
        catalog.drop_table(("s", "d"))
    ab.tick()
    told = [each for each in ab.events("s.d") if each["kind"] == "FOREIGN_WRITE"]
    assert len(told) == 2 and "dropped" in told[0]["message"]
    assert ab.table("s.d").collect() == [(1,)]


def test_a_writer_that_never_rests_holds_nobody_up(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came too late for a cut is left to the next one; what is read is a recorded cut."""
    real, late = observe.observe, iter(range(2, 100))

    def racing(lake: Any) -> int | None:
        found = real(lake)
        append(ab, "s.t", (next(late), 0))
        return found

    monkeypatch.setattr(observe, "observe", racing)
    append(ab, "s.t", (0, 0))
    with ab.at() as world:
        seen = sorted(world.table("s.t").collect())
        assert world.cut_id is not None and rows_at(ab, world.cut_id, "s.t") == seen
    assert len(seen) == 2 + observe.ATTEMPTS - 1


def test_nothing_is_recorded_twice(ab: Anabranch) -> None:
    append(ab, "s.t", (2, 10))
    assert observe.observe(ab._runtime.lake) == newest(ab)["cut_id"]
    assert observe.observe(ab._runtime.lake) is None
    with ab._store.reading() as c:
        assert cuts.newest(c) == ab._runtime.lake.pointers()
        (version,) = [each for each in cuts.known_versions(c) if each.snapshot_id][-1:]
    assert version.snapshot_id == ab._runtime.world().version(version.name).snapshot_id
