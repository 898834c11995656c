"""Copies of a home: they may be read, and harm nothing; `adopt` makes them homes of their own."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.errors import Fenced, Refused
from anabranch.lake.fence import Fence
from tests.standin.engine import connect, installed

SUMS = "SELECT k, SUM(v) AS v FROM s.t GROUP BY k"
WRITES: dict[str, Callable[[Anabranch], Any]] = {
    "insert": lambda ab: ab.sql("INSERT INTO s.t VALUES (9, 9)"),
    "create": lambda ab: ab.sql("CREATE TABLE s.n (k BIGINT)"),
    "drop": lambda ab: ab.sql("DROP STREAM TABLE s.d"),
    "refresh": lambda ab: ab.refresh(),
    "tick": lambda ab: ab.tick(),
    "maintain": lambda ab: ab.maintain(),
}
KEEP_NOTHING = {"orphan_grace": 0, "snapshot_retention": 0}


@pytest.fixture(autouse=True)
def standin() -> Iterator[None]:
    with installed():
        yield


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a source table, a stream table and some history."""
    with connect(tmp_path / "home") as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        ab.sql("INSERT INTO s.t VALUES (1, 1), (2, 2)")
        ab.create_stream_table("s.d", SUMS, schedule=None)
        ab.sql("DELETE FROM s.t WHERE k = 1")
        ab.refresh("s.d")
    return tmp_path / "home"


def copied(home: Path, name: str = "copy") -> Path:
    return Path(shutil.copytree(home, home.with_name(name)))


def go_on(home: Path, times: int = 3) -> None:
    """The original writes, and tidies up."""
    with connect(home, **KEEP_NOTHING) as ab:
        for at in range(times):
            ab.sql(f"INSERT INTO s.t VALUES (3, {at})")
            ab.refresh()
        ab.maintain()


def files(home: Path) -> dict[str, bytes]:
    found = (path for path in (home / "warehouse").rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in found}


def check(ab: Anabranch, expected: list[tuple[int, int]]) -> None:
    """Everything is right, and the next refresh is incremental."""
    assert sorted(ab.table("s.t").collect()) == expected
    assert ab.verify("s.d")["equal"]
    ab.sql("INSERT INTO s.t VALUES (7, 7)")
    (line,) = ab.refresh("s.d")
    assert line["action"] == "DIFFERENTIAL" and ab.verify("s.d")["equal"]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_copy_harms_nothing(home: Path, write: str, goes_on: bool) -> None:
    copy = copied(home)
    if goes_on:
        go_on(home)
    before, own = files(home), files(copy)
    with connect(copy, **KEEP_NOTHING) as ab, pytest.raises(Fenced, match="anabranch adopt"):
        WRITES[write](ab)
    assert files(home) == before and files(copy) == own
    with connect(home) as ab:
        assert ab.verify("s.d")["equal"]


def test_a_copy_may_be_read_and_says_what_it_is(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "anabranch"), connect(copied(home)) as ab:
        assert ab.table("s.t").collect() == [(2, 2)]
        with ab.at(2) as world:
            assert sorted(world.table("s.t").collect()) == [(1, 1), (2, 2)]
    assert "was copied or moved from" in caplog.text and "adopt" in caplog.text


def test_an_adopted_copy_goes_on_without_the_original(home: Path) -> None:
    copy = copied(home)
    go_on(home)
    before = files(home)
    with connect(copy, **KEEP_NOTHING) as ab:
        done = ab.adopt()
        assert done["moved_from"] == f"file://{home}/warehouse" and done["files_rewritten"] > 0
        check(ab, [(2, 2)])
        with ab.at(2) as world:
            assert sorted(world.table("s.t").collect()) == [(1, 1), (2, 2)]
        ab.maintain()
        assert files(home) == before
    shutil.rmtree(home)
    with connect(copy) as ab:
        assert sorted(ab.table("s.t").collect()) == [(2, 2), (7, 7)] and ab.verify("s.d")["equal"]


def test_a_home_that_was_moved(home: Path) -> None:
    moved = home.rename(home.with_name("moved"))
    with connect(moved) as ab:
        with pytest.raises(Fenced, match="copied or moved from"):
            ab.table("s.t").collect()
        assert ab.adopt()["moved_from"] == f"file://{home}/warehouse"
        check(ab, [(2, 2)])
    with connect(moved.rename(home)) as ab:  # and back
        ab.adopt()
        assert sorted(ab.table("s.t").collect()) == [(2, 2), (7, 7)]


def test_an_older_catalog_beside_a_newer_warehouse(home: Path) -> None:
    saved = home.with_name("saved.db")
    with closing(sqlite3.connect(home / "catalog.db")) as source:
        source.execute("VACUUM INTO ?", [str(saved)])
    go_on(home, 1)
    for each in home.glob("catalog.db*"):
        each.unlink()
    shutil.copy(saved, home / "catalog.db")
    before = files(home)
    for write in WRITES.values():
        with connect(home, **KEEP_NOTHING) as ab, pytest.raises(Fenced, match="has seen cut"):
            write(ab)
    assert files(home) == before


def test_adopting_an_older_catalog(home: Path) -> None:
    """Its newest rows are there; snapshots whose files are gone are no longer listed."""
    saved = home.with_name("saved.db")
    with closing(sqlite3.connect(home / "catalog.db")) as source:
        source.execute("VACUUM INTO ?", [str(saved)])
    with connect(home) as ab:
        ab.sql("INSERT INTO s.t VALUES (3, 3)")
    for each in home.glob("catalog.db*"):
        each.unlink()
    shutil.copy(saved, home / "catalog.db")
    with connect(home, **KEEP_NOTHING) as ab:
        assert ab.adopt()["moved_from"] is None
        check(ab, [(2, 2)])
        ab.maintain()
        assert ab.verify("s.d")["equal"]


def test_whoever_lost_the_warehouse_stops_at_once(home: Path, tmp_path: Path) -> None:
    """Two catalogs with one warehouse: after one adopted it the other, already at work, refuses."""
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(home / "catalog.db")) as source:
        source.execute("VACUUM INTO ?", [str(other)])
    place = {"catalog": f"sqlite:///{other}", "warehouse": str(home / "warehouse")}
    with connect(home) as first, connect(place) as second:
        first.sql("INSERT INTO s.t VALUES (3, 3)")
        with pytest.raises(Fenced, match="is a copy"):
            second.maintain()
        second.adopt()
        for write in WRITES.values():
            with pytest.raises(Fenced, match="belongs to another catalog"):
                write(first)
        check(second, [(2, 2)])


@pytest.mark.parametrize("overwritten", [False, True])
def test_the_former_owner_deletes_until_it_meets_the_mark(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwritten: bool
) -> None:
    """What it deletes while the copy adopts is noticed: older cuts are forgotten, and where the newest
    rows are gone all stays as it was."""
    other = tmp_path / "other.db"
    with connect(home) as ab:
        ab.sql("DELETE FROM s.t WHERE k = 99; INSERT INTO s.t VALUES (3, 3)")
    with closing(sqlite3.connect(home / "catalog.db")) as source:
        source.execute("VACUUM INTO ?", [str(other)])
    mark, write = home / "warehouse" / "anabranch.json", Fence.write
    before = mark.read_bytes()

    def late(fence: Fence, cut_id: int, *, replace: bool) -> None:
        if overwritten:
            go_on(home)
        else:
            data = (home / "warehouse" / "s").glob("t-*/data/**/*.parquet")
            min(data, key=lambda path: path.stat().st_mtime_ns).unlink()
        monkeypatch.undo()
        write(fence, cut_id, replace=replace)

    place = {"catalog": f"sqlite:///{other}", "warehouse": str(home / "warehouse")}
    with connect(place) as second:
        monkeypatch.setattr(Fence, "write", late)
        if overwritten:
            with pytest.raises(Refused, match="is missing"):
                second.adopt()
            assert mark.read_bytes().split(b'"cut"')[0] == before.split(b'"cut"')[0]
            with pytest.raises(Fenced, match="is a copy"):
                second.sql("INSERT INTO s.t VALUES (4, 4)")
            with connect(home) as first:
                first.sql("INSERT INTO s.t VALUES (5, 5)")
        else:
            second.adopt()
            check(second, [(2, 2), (3, 3)])
            for row in second.cuts():
                with second.at(row["cut_id"]) as world:
                    for name in sorted(world.pointers):
                        world.table(name).collect()


def test_two_processes_of_one_catalog_survive_an_adopt(home: Path) -> None:
    moved = home.rename(home.with_name("moved"))
    with connect(moved) as one, connect(moved) as two:
        with pytest.raises(Fenced):
            two.sql("INSERT INTO s.t VALUES (3, 3)")
        one.adopt()
        two.sql("INSERT INTO s.t VALUES (3, 3)")
        one.sql("INSERT INTO s.t VALUES (4, 4)")
        assert sorted(two.table("s.t").collect()) == [(2, 2), (3, 3), (4, 4)]


def test_a_copy_without_its_files_is_not_adopted(home: Path) -> None:
    copy = copied(home)
    for path in (copy / "warehouse").rglob("*.metadata.json"):
        path.unlink()
    before = files(home)
    with connect(copy) as ab, pytest.raises(Refused, match="not in warehouse"):
        ab.adopt()
    assert files(home) == before
    lost = copied(home, "lost")
    for path in (lost / "warehouse").rglob("*.parquet"):
        path.unlink()
    with connect(lost) as ab, pytest.raises(Refused, match="is missing"):
        ab.adopt()


def test_a_catalog_alone_claims_no_empty_warehouse(home: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    shutil.copy(home / "catalog.db", tmp_path / "new")
    with connect(tmp_path / "new") as ab:
        with pytest.raises(Fenced, match=f"from file://{home}/warehouse"):
            ab.sql("INSERT INTO s.t VALUES (3, 3)")
        with pytest.raises(Refused, match="not in warehouse"):
            ab.adopt()


def test_marks_of_older_versions(home: Path) -> None:
    """They name the catalog only: the paths of tables tell a copy."""
    mark = home / "warehouse" / "anabranch.json"
    with closing(sqlite3.connect(home / "catalog.db")) as c:
        (catalog,) = c.execute("SELECT catalog_uuid FROM ab_meta").fetchone()
    mark.write_text(f'{{"catalog": "{catalog}"}}')
    copy = copied(home)
    with connect(copy) as ab:
        with pytest.raises(Fenced, match=f"from file://{home}/warehouse"):
            ab.sql("INSERT INTO s.t VALUES (3, 3)")
        ab.adopt()
        check(ab, [(2, 2)])
    with connect(home) as ab:
        check(ab, [(2, 2)])
    assert '"location"' in mark.read_text()


def test_a_home_by_another_path_is_the_same(home: Path) -> None:
    """Through a link, files have other names than the catalog knows: all looked like garbage."""
    link = home.with_name("link")
    link.symlink_to(home)
    with connect(link, **KEEP_NOTHING) as ab:
        ab.maintain()
        check(ab, [(2, 2)])
        ab.maintain()
    with connect(home) as ab:
        assert ab.verify("s.d")["equal"] and len(ab.table("s.t").collect()) == 2


@pytest.mark.parametrize("grace", ["1d", 0])
def test_young_files_stay(home: Path, grace: Any) -> None:
    """Of dead stages, too: whatever is not known may be somebody's."""
    (root,) = (home / "warehouse" / "s").glob("t-*")
    stage = "0123456789abcdef" * 2
    orphan = root / "data" / stage / "x" / "part-0.parquet"
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(b"x")
    with connect(home, snapshot_retention=0, orphan_grace=grace) as ab:
        deleted = ab.maintain()["files_deleted"]
        assert orphan.exists() == bool(grace) and (deleted > 0) != bool(grace)
        if grace:
            long_ago = time.time() - 2 * 86400
            os.utime(orphan, (long_ago, long_ago))
            assert ab.maintain()["files_deleted"] == 1 and not orphan.exists()
        assert ab.verify("s.d")["equal"]


def test_a_day_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ANABRANCH_ORPHAN_GRACE")
    with anabranch.connect(tmp_path) as ab:
        (found,) = (row for row in ab.settings() if row["name"] == "orphan_grace")
        assert found["value"] == "1d"


def test_nothing_outside_of_the_warehouse_is_deleted(home: Path, tmp_path: Path) -> None:
    """Also if a link leads there, or an orphan of ours lies in a table elsewhere."""
    outside = tmp_path / "outside"
    shutil.copytree(next((home / "warehouse" / "s").glob("t-*")), outside / "s" / "linked-01234567")
    (home / "warehouse" / "s" / "linked-01234567").symlink_to(outside / "s" / "linked-01234567")
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    with connect(home, **KEEP_NOTHING) as ab:
        ab.maintain()
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before


def test_a_catalog_that_was_lost_is_not_adopted_but_recovered(home: Path) -> None:
    """An empty catalog refers to no file: upkeep would delete the tables it took over."""
    for path in home.glob("catalog.db*"):
        path.unlink()
    with connect(home, **KEEP_NOTHING) as ab:
        with pytest.raises(Fenced, match="this catalog is empty") as no:
            ab.sql("CREATE TABLE s.t (k BIGINT)")
        assert "recover --from-warehouse" in str(no.value.hint)
        with pytest.raises(
            Refused, match="the catalog has no tables, and warehouse .* is not empty"
        ):
            ab.adopt()
        ab.recover()
        ab.maintain()
        assert ab.table("s.t").collect() == ab.table("s.d").collect() == [(2, 2)]


def test_what_was_abandoned_by_an_adopt_is_not_recovered(home: Path) -> None:
    old = (home / "catalog.db").read_bytes()
    with connect(home) as ab:
        for _ in range(3):  # the branch that is given up counts higher
            ab.sql("INSERT INTO s.t VALUES (7, 7)")
    for path in home.glob("catalog.db*"):
        path.unlink()
    (home / "catalog.db").write_bytes(old)
    with connect(home) as ab:
        ab.adopt()
        ab.sql("INSERT INTO s.t VALUES (3, 3)")
    for path in home.glob("catalog.db*"):
        path.unlink()
    with connect(home) as ab:
        ab.recover()
        assert sorted(ab.table("s.t").collect()) == [(2, 2), (3, 3)]
