"""After many writes the metadata files of old cuts are gone: everything that reads old cuts goes on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.lake.publish import PREVIOUS_METADATA, SUPERSEDED
from anabranch.lake.recorded import LISTED
from tests.standin.engine import connect, installed

SUMS = "SELECT k, SUM(v) AS v FROM s.t GROUP BY k"
MANY = LISTED + PREVIOUS_METADATA + SUPERSEDED
Rows = dict[str, list[tuple[object, ...]]]


@pytest.fixture(autouse=True)
def standin() -> Iterator[None]:
    with installed():
        yield


def rows(ab: Anabranch, cut: int | None = None) -> Rows:
    with ab.at(cut) as world:
        return {str(name): sorted(world.table(str(name)).collect()) for name in world.names()}


def fill(home: Path) -> tuple[int, Rows, Rows]:
    """A home with many cuts; one of the first, what it shows, and what the last one shows."""
    with connect(home) as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        ab.sql("INSERT INTO s.t VALUES (1, 1), (2, 2), (3, 3)")
        ab.create_stream_table("s.d", SUMS, schedule=None)
        ab.sql("DELETE FROM s.t WHERE k = 1")
        ab.refresh()
        early = ab.cuts()[0]["cut_id"]
        shown = rows(ab)
        for at in range(MANY):
            ab.sql(f"INSERT INTO s.t VALUES ({at}, {at})")
        named = ab._runtime.lake.pointers_at(early)
        there = ab._runtime.lake.warehouse.listing(ab._runtime.lake.warehouse.location)
        assert [str(name) for name, at in named.items() if at not in there] == ["s.t"]
        assert rows(ab, early) == shown
        return early, shown, rows(ab)


def goes_on(ab: Anabranch) -> None:
    ab.sql("INSERT INTO s.t VALUES (7, 7)")
    assert {line["action"] for line in ab.refresh()} <= {"DIFFERENTIAL"}
    assert ab.verify("s.d")["equal"]
    assert ab.check() == []


def test_everything_that_reads_older_versions_goes_on(tmp_path: Path) -> None:
    early, shown, last = fill(tmp_path / "home")
    with connect(tmp_path / "home") as ab:
        ab.backup(tmp_path / "backup")
        assert ab.verify("s.d")["equal"]  # it stands on a snapshot that is not listed any more
        assert ab.check() == []
    (tmp_path / "home").rename(tmp_path / "moved")
    with connect(tmp_path / "moved") as ab:
        assert ab.adopt()["cuts_forgotten"] == 0
        assert rows(ab) == last and rows(ab, early) == shown
        goes_on(ab)
    shutil.rmtree(tmp_path / "moved")
    for cut in (early, None):
        place = tmp_path / f"restored-{cut}"
        anabranch.restore(tmp_path / "backup", place, cut=cut)
        with connect(place) as ab:
            assert rows(ab) == (last if cut is None else shown)
            assert rows(ab, early) == shown
            goes_on(ab)
