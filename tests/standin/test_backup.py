"""Backups: whole or not at all, incremental, and restored into any empty place."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import anabranch
from anabranch import Anabranch
from anabranch.cli.main import run
from anabranch.errors import InvalidValue, Refused, Unreachable
from anabranch.lake.archive import Archive
from anabranch.lake.collect import files_of
from anabranch.names import TableName
from tests.postgres import postgres_url
from tests.standin.engine import connect, installed

__all__ = ["postgres_url"]  # a fixture, found by its name
SUMS = "SELECT k, SUM(v) AS v FROM s.t GROUP BY k"
KEEP_NOTHING = {"orphan_grace": 0, "snapshot_retention": 0}
Rows = dict[str, list[Any]]


@pytest.fixture(autouse=True)
def standin() -> Iterator[None]:
    with installed():
        yield


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with connect(tmp_path / "home") as opened:
        fill(opened)
        yield opened


def fill(ab: Anabranch) -> None:
    """A chain of stream tables, a view, a group and an index, with some history."""
    ab.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
    ab.sql("INSERT INTO s.t VALUES (1, 1), (2, 2), (3, 3)")
    ab.create_stream_table("s.d", SUMS, schedule=None)
    ab.create_stream_table("s.e", "SELECT SUM(v) AS v FROM s.d", schedule=None)
    ab.create_refresh_group("both", ["s.d", "s.e"])
    ab.sql("CREATE VIEW s.v AS SELECT k FROM s.t")
    ab.sql("DELETE FROM s.t WHERE k = 1")
    ab.refresh()


def rows(ab: Anabranch, cut: int | None = None) -> Rows:
    with ab.at(cut) as world:
        return {str(name): sorted(world.table(str(name)).collect()) for name in world.names()}


def facts(ab: Anabranch) -> list[Any]:
    """What a listing shows that a restore must bring back."""
    streams = [(row["name"], row["frontier"], row["group_id"]) for row in ab.status()]
    return [streams, ab.cuts(), ab.history(), ab.refresh_groups(), ab.events()]


def goes_on(ab: Anabranch) -> None:
    """Everything is right, and refreshes are incremental."""
    for row in ab.status():
        assert ab.verify(row["name"])["equal"]
    ab.sql("INSERT INTO s.t VALUES (7, 7)")
    assert {line["action"] for line in ab.refresh()} <= {"DIFFERENTIAL"}
    for row in ab.status():
        assert ab.verify(row["name"])["equal"]
    ab.maintain()


def test_what_was_backed_up_is_restored(ab: Anabranch, tmp_path: Path) -> None:
    done = ab.backup(tmp_path / "backup")
    assert done["files"] == done["files_copied"] > 10 and done["outside"] == []
    before, listed, cuts = rows(ab), facts(ab), [each["cut_id"] for each in ab.cuts()]
    older = {cut: rows(ab, cut) for cut in cuts}
    ab.close()
    shutil.rmtree(tmp_path / "home")
    answer = anabranch.restore(tmp_path / "backup", tmp_path / "again")
    assert answer["cut_id"] == done["cut_id"] and answer["files"] == done["files"]
    with connect(tmp_path / "again", **KEEP_NOTHING) as again:
        assert rows(again) == before and facts(again) == listed
        assert {cut: rows(again, cut) for cut in cuts} == older
        goes_on(again)
    uri = f"sqlite:///{tmp_path}/again/catalog.db"
    with closing(SqlCatalog("anabranch", uri=uri)) as catalog:
        table = catalog.load_table("s.t")
        found = sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())
        assert found == [(2, 2), (3, 3), (7, 7)]
        assert table.location().startswith(f"file://{tmp_path}/again/warehouse/")


def test_both_go_on_by_themselves(ab: Anabranch, tmp_path: Path) -> None:
    ab.backup(tmp_path / "backup")
    anabranch.restore(tmp_path / "backup", tmp_path / "again")
    with connect(tmp_path / "again", **KEEP_NOTHING) as again:
        goes_on(again)
        ab.set("orphan_grace", "0s")
        ab.set("snapshot_retention", "0s")
        goes_on(ab)
        assert rows(ab) == rows(again)


def test_into_the_place_it_came_from(ab: Anabranch, tmp_path: Path) -> None:
    ab.backup(tmp_path / "backup")
    before = rows(ab)
    ab.close()
    shutil.rmtree(tmp_path / "home")
    anabranch.restore(tmp_path / "backup", tmp_path / "home")
    with connect(tmp_path / "home") as again:
        assert rows(again) == before
        goes_on(again)


def test_a_second_backup_copies_what_is_new(ab: Anabranch, tmp_path: Path) -> None:
    first = ab.backup(tmp_path / "backup")
    assert ab.backup(tmp_path / "backup")["files_copied"] == 0
    ab.sql("INSERT INTO s.t VALUES (4, 4)")
    second = ab.backup(tmp_path / "backup")
    assert 0 < second["files_copied"] < 8 and second["files"] > first["files"]
    ab.set("orphan_grace", "0s")
    ab.set("snapshot_retention", "0s")
    ab.refresh()
    ab.maintain()
    ab.backup(tmp_path / "backup")
    expected = rows(ab)
    anabranch.restore(tmp_path / "backup", tmp_path / "newest")
    anabranch.restore(tmp_path / "backup", tmp_path / "first", cut=first["cut_id"])
    with connect(tmp_path / "newest") as newest, connect(tmp_path / "first") as old:
        assert rows(newest) == expected and rows(old)["s.t"] == [(2, 2), (3, 3)]
        goes_on(newest)
        goes_on(old)


@pytest.mark.extended
def test_every_cut_can_be_restored(ab: Anabranch, tmp_path: Path) -> None:
    ab.sql("DROP VIEW s.v")
    ab.sql("INSERT INTO s.t VALUES (4, 4)")
    ab.refresh()
    ab.sql("INSERT INTO s.t VALUES (5, 5)")
    ab.backup(tmp_path / "backup")
    views = set()
    for cut in [each["cut_id"] for each in ab.cuts()]:
        target = tmp_path / f"cut{cut}"
        assert anabranch.restore(tmp_path / "backup", target, cut=cut)["cut_id"] == cut
        with connect(target) as again:
            assert rows(again) == rows(ab, cut) and again.cuts()[0]["cut_id"] == cut
            views.add("s.v" in rows(again))
            goes_on(again)
    assert views == {True, False}
    with pytest.raises(InvalidValue, match="no backup .* knows cut 99"):
        anabranch.restore(tmp_path / "backup", tmp_path / "none", cut=99)


def test_a_query_that_changed_since_is_recomputed(ab: Anabranch, tmp_path: Path) -> None:
    cut = ab.cuts()[0]["cut_id"]
    ab.create_stream_table("s.d", "SELECT k, MAX(v) AS v FROM s.t GROUP BY k", or_replace=True)
    ab.backup(tmp_path / "backup")
    anabranch.restore(tmp_path / "backup", tmp_path / "again", cut=cut)
    with connect(tmp_path / "again") as again:
        assert rows(again)["s.d"] == [(2, 2), (3, 3)]
        again.sql("INSERT INTO s.t VALUES (2, 9)")
        again.refresh()
        assert rows(again)["s.d"] == [(2, 9), (3, 3)] and again.verify("s.d")["equal"]


def test_writers_and_upkeep_go_on_meanwhile(
    ab: Anabranch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup is of one cut, whatever happens while files are copied."""
    before, real = rows(ab), Archive.add_files

    def add_files(self: Archive, *given: Any) -> Any:
        with connect(tmp_path / "home", **KEEP_NOTHING) as other:
            for at in range(3):
                other.sql(f"UPDATE s.t SET v = {at}")
                other.refresh()
            report = other.maintain()
            assert report["cuts_forgotten"] > 0 and report["files_deleted"] == 0
        return real(self, *given)

    monkeypatch.setattr(Archive, "add_files", add_files)
    ab.backup(tmp_path / "backup")
    monkeypatch.undo()
    ab.set("orphan_grace", "0s")
    assert ab.maintain()["files_deleted"] > 0
    anabranch.restore(tmp_path / "backup", tmp_path / "again")
    with connect(tmp_path / "again") as again:
        assert rows(again) == before
        goes_on(again)


def test_an_interrupted_backup_is_none(
    ab: Anabranch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*given: Any) -> None:
        raise KeyboardInterrupt

    for step in ("add_files", "add_record"):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Archive, step, dies)
            ab.backup(tmp_path / "backup")
        with pytest.raises(InvalidValue, match="no complete backup"):
            anabranch.restore(tmp_path / "backup", tmp_path / "again")
    (half, *_) = (tmp_path / "backup" / "files").rglob("*.avro")
    half.write_bytes(half.read_bytes()[:10])  # as an interrupted copy leaves it
    ab.backup(tmp_path / "backup")
    anabranch.restore(tmp_path / "backup", tmp_path / "again")
    with connect(tmp_path / "again") as again:
        goes_on(again)


@pytest.mark.parametrize("kind", ["parquet", "avro", "metadata.json", "rows", "backups"])
def test_damage_is_found(ab: Anabranch, tmp_path: Path, kind: str) -> None:
    ab.backup(tmp_path / "backup")
    whole = kind in ("rows", "backups")
    if whole:
        (path,) = (tmp_path / "backup" / kind).iterdir()
    else:
        (path, *_) = (in_backup(ab, tmp_path, each) for each in shown(ab) if each.endswith(kind))
    rot(path)
    with pytest.raises(Unreachable, match=f"the backup is damaged: .*{path.name}"):
        anabranch.restore(tmp_path / "backup", tmp_path / "again")


def shown(ab: Anabranch, table: str = "s.d") -> list[str]:
    """The files of a table as it is now."""
    version = ab._runtime.lake.current(TableName.parse(table))
    snapshot = version.metadata.current_snapshot()
    assert snapshot is not None
    inside = files_of(version.io, version.root, snapshot, set())
    return [version.location, *inside]


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def in_backup(ab: Anabranch, tmp_path: Path, location: str) -> Path:
    inside = location.removeprefix(ab._runtime.lake.warehouse.location + "/")
    return tmp_path / "backup" / "files" / inside


def rot(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x80
    path.write_bytes(bytes(data))


def old_file(ab: Anabranch, kind: str) -> str:
    """A file that older cuts need, and no newer one after a complete recomputation."""
    before = shown(ab)
    ab.sql("INSERT INTO s.t VALUES (4, 4)")
    ab.refresh("s.d", full=True)
    ab.refresh()
    return next(each for each in before if each.endswith(kind) and each not in shown(ab))


@pytest.mark.parametrize("kind", ["parquet", "avro"])
def test_cuts_whose_files_are_gone_are_left_out(
    ab: Anabranch, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    whole = [each["cut_id"] for each in ab.cuts()]
    ab.backup(tmp_path / "before")
    gone = old_file(ab, kind)
    expected, older = rows(ab), ab.cuts()
    local(gone).unlink()
    ab.close()
    with connect(tmp_path / "home") as ab:
        done = ab.backup(tmp_path / "backup")
    assert done["missing"] == [gone] and gone in caplog.text
    left_out = done["cuts_left_out"]
    assert left_out and max(left_out) < done["cut_id"] and whole[0] in left_out
    with pytest.raises(InvalidValue, match=f"cut {whole[0]} is not in the backup: {gone}"):
        anabranch.restore(tmp_path / "backup", tmp_path / "none", cut=whole[0])
    assert anabranch.restore(tmp_path / "before", tmp_path / "early", cut=whole[0])
    kept = [each["cut_id"] for each in older if each["cut_id"] not in left_out]
    assert min(kept) < min(left_out) < max(kept)
    for at, cut in enumerate((None, min(kept))):
        answer = anabranch.restore(tmp_path / "backup", tmp_path / f"again{at}", cut=cut)
        with connect(tmp_path / f"again{at}", **KEEP_NOTHING) as again:
            found = [each["cut_id"] for each in again.cuts()]
            assert found == [each for each in kept if cut is None or each <= cut]
            assert answer["cuts_left_out"] == ([] if cut else left_out)
            assert cut is not None or rows(again) == expected
            assert again.check(deep=True) == []
            assert again.backup(tmp_path / f"copy{at}")["missing"] == []
            again.sql("INSERT INTO s.t VALUES (7, 7)")
            again.refresh()
            assert all(again.verify(row["name"])["equal"] for row in again.status())
            again.maintain()


def test_a_file_that_is_gone_may_be_in_the_backup_already(ab: Anabranch, tmp_path: Path) -> None:
    gone = old_file(ab, "parquet")
    ab.backup(tmp_path / "backup")
    local(gone).unlink()
    done = ab.backup(tmp_path / "backup")
    assert done["missing"] == [] and done["cuts_left_out"] == []
    anabranch.restore(tmp_path / "backup", tmp_path / "again")
    with connect(tmp_path / "again") as again:
        assert {cut["cut_id"]: rows(again, cut["cut_id"]) for cut in again.cuts()}
        goes_on(again)


@pytest.mark.parametrize("kind", ["parquet", "avro", "metadata.json"])
def test_a_file_of_the_newest_cut_that_is_gone(ab: Anabranch, tmp_path: Path, kind: str) -> None:
    gone = next(each for each in shown(ab) if each.endswith(kind))
    local(gone).unlink()
    ab.close()
    with connect(tmp_path / "home") as ab:
        with pytest.raises(Refused, match=f"{gone} of table s.d is missing") as refused:
            ab.backup(tmp_path / "backup")
        assert "anabranch check --repair" in str(refused.value)
        if kind == "parquet":  # this process remembers manifests
            assert {each["repaired"] for each in ab.check(repair=True)} == {True}
            assert ab.backup(tmp_path / "backup")["cuts_left_out"]


@pytest.mark.extended
@pytest.mark.parametrize(("kind", "lost"), [("parquet", True), ("avro", False)])
def test_damage_of_an_older_cut_is_no_obstacle(
    ab: Anabranch, tmp_path: Path, kind: str, lost: bool
) -> None:
    old = old_file(ab, kind)
    ab.backup(tmp_path / "backup")
    expected = {cut["cut_id"]: rows(ab, cut["cut_id"]) for cut in ab.cuts()}
    path = in_backup(ab, tmp_path, old)
    path.unlink() if lost else rot(path)
    answer = anabranch.restore(tmp_path / "backup", tmp_path / "again")
    assert answer["damaged"] == [f"file://{path}"]
    left_out = answer["cuts_left_out"]
    assert left_out and max(left_out) < answer["cut_id"]
    with connect(tmp_path / "again") as again:
        assert {cut["cut_id"]: rows(again, cut["cut_id"]) for cut in again.cuts()} == {
            cut: found for cut, found in expected.items() if cut not in left_out
        }
        goes_on(again)
        assert again.check(deep=True) == []
    for cut in expected:
        if cut in left_out:
            with pytest.raises(Unreachable, match=f"damaged: .*{path.name}"):
                anabranch.restore(tmp_path / "backup", tmp_path / f"cut{cut}", cut=cut)
        else:
            anabranch.restore(tmp_path / "backup", tmp_path / f"cut{cut}", cut=cut)
            with connect(tmp_path / f"cut{cut}") as again:
                assert rows(again) == expected[cut]


def test_a_backup_is_healed_from_the_warehouse(ab: Anabranch, tmp_path: Path) -> None:
    ab.backup(tmp_path / "backup")
    other, *_, one = shown(ab)
    rot(in_backup(ab, tmp_path, one))
    in_backup(ab, tmp_path, other).write_bytes(b"short")
    assert ab.backup(tmp_path / "backup")["files_copied"] == 1  # sizes are always compared
    assert ab.backup(tmp_path / "backup", verify=True)["files_copied"] == 1
    assert ab.backup(tmp_path / "backup", verify=True)["files_copied"] == 0
    answer = anabranch.restore(tmp_path / "backup", tmp_path / "again")
    assert answer["damaged"] == []


def test_damage_in_the_warehouse_is_reported(
    ab: Anabranch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert ab.backup(tmp_path / "before")["damaged"] == []
    path = next(each for each in shown(ab) if each.endswith("parquet"))
    data = bytearray(local(path).read_bytes())
    data[20] ^= 1  # in a page
    local(path).write_bytes(bytes(data))
    assert ab.backup(tmp_path / "backup")["damaged"] == [path]
    assert path in caplog.text and "anabranch check --deep --repair" in caplog.text


def test_places_that_are_taken(ab: Anabranch, tmp_path: Path) -> None:
    ab.backup(tmp_path / "backup")
    with pytest.raises(Refused, match="is not empty"):
        anabranch.restore(tmp_path / "backup", tmp_path / "home")
    (tmp_path / "full" / "warehouse").mkdir(parents=True)
    (tmp_path / "full" / "warehouse" / "x").write_text("x")
    with pytest.raises(Refused, match="is not empty"):
        anabranch.restore(tmp_path / "backup", tmp_path / "full")
    with pytest.raises(Refused, match="holds no backup"):
        ab.backup(tmp_path / "full")
    with pytest.raises(Refused, match="inside the warehouse"):
        ab.backup(tmp_path / "home" / "warehouse" / "backup")
    with connect(tmp_path / "other") as other, pytest.raises(Refused, match="another catalog"):
        other.backup(tmp_path / "backup")
    with pytest.raises(InvalidValue, match="no complete backup"):
        anabranch.restore(tmp_path / "nothing", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def by_name(folder: Path) -> list[Path]:
    return sorted((folder / "backups").iterdir())


@pytest.mark.parametrize("summed", [True, False])
@pytest.mark.parametrize("kind", ["cut off", "flipped"])
def test_a_damaged_record_of_an_older_backup_is_left_out(
    ab: Anabranch, tmp_path: Path, kind: str, summed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "backup"
    first = ab.backup(folder)
    (old,) = by_name(folder)
    if not summed:  # as an older Anabranch wrote it
        old = old.rename(old.with_name("-".join(old.stem.split("-")[:2]) + ".json"))
    assert anabranch.restore(folder, tmp_path / "whole")["cut_id"] == first["cut_id"]
    ab.sql("INSERT INTO s.t VALUES (4, 4)")
    newest = ab.backup(folder)
    data = bytearray(old.read_bytes())
    flip = data.index(b'"cut"') + 1 if not summed else data.index(b'"made_at": "') + 14
    data[flip] ^= 1
    old.write_bytes(data if kind == "flipped" else data[: len(data) // 2])
    caplog.clear()
    assert anabranch.restore(folder, tmp_path / "newest")["cut_id"] == newest["cut_id"]
    assert old.name in caplog.text
    anabranch.restore(folder, tmp_path / "older", cut=first["cut_id"])  # the newer one has it too
    again, checked = ab.backup(folder), ab.backup(folder, verify=True)
    assert again["damaged_backups"] == checked["damaged_backups"] == [f"file://{old}"]
    assert anabranch.restore(folder, tmp_path / "again")["cut_id"] == again["cut_id"]


def test_a_cut_that_only_a_damaged_record_has(ab: Anabranch, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    first = ab.backup(folder)
    (old,) = by_name(folder)
    ab.set("snapshot_retention", "0s")
    ab.sql("INSERT INTO s.t VALUES (4, 4)")
    ab.refresh()
    ab.maintain()
    newest = ab.backup(folder)
    rot(old)
    with pytest.raises(Unreachable, match=f"damaged: .*{old.name}") as error:
        anabranch.restore(folder, tmp_path / "again", cut=first["cut_id"])
    assert f"--cut {newest['cut_id']}" in str(error.value) and not (tmp_path / "again").exists()
    rot(old)
    rot(by_name(folder)[-1])  # an older one takes the place of the newest only when it is asked for
    with pytest.raises(Unreachable, match=f"damaged: .*{by_name(folder)[-1].name}"):
        anabranch.restore(folder, tmp_path / "again")
    answer = anabranch.restore(folder, tmp_path / "again", cut=first["cut_id"])
    assert answer["cut_id"] == first["cut_id"]


def test_verify_reads_the_rows_of_older_backups(ab: Anabranch, tmp_path: Path) -> None:
    ab.backup(tmp_path / "backup")
    (path,) = (tmp_path / "backup" / "rows").iterdir()
    rot(path)
    assert ab.backup(tmp_path / "backup")["damaged_backups"] == []
    found = ab.backup(tmp_path / "backup", verify=True)["damaged_backups"]
    assert found == [f"file://{path}"]


@pytest.mark.parametrize("cut", [0, 10**6])
def test_a_cut_that_is_not_there_leaves_nothing_behind(
    ab: Anabranch, tmp_path: Path, cut: int
) -> None:
    ab.backup(tmp_path / "backup")
    with pytest.raises(InvalidValue, match=f"cut {cut}"):
        anabranch.restore(tmp_path / "backup", tmp_path / "again", cut=cut)
    assert not (tmp_path / "again").exists()
    anabranch.restore(tmp_path / "backup", tmp_path / "again")


@pytest.mark.parametrize("step", ["relocate", "_write_missing", "_show", "broken_snapshots"])
def test_a_restore_that_fails_can_be_repeated(
    ab: Anabranch, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*given: Any) -> None:
        (warehouse / "s").mkdir(exist_ok=True)
        (warehouse / "s" / "mine").write_text("x")
        raise KeyboardInterrupt

    warehouse, before = tmp_path / "again" / "warehouse", rows(ab)
    ab.backup(tmp_path / "backup")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(f"anabranch.lake.restore.{step}", dies)
        anabranch.restore(tmp_path / "backup", tmp_path / "again")
    assert [each for each in warehouse.rglob("*") if each.is_file()] == [warehouse / "s" / "mine"]
    (warehouse / "s" / "mine").unlink()
    anabranch.restore(tmp_path / "backup", tmp_path / "again")
    with connect(tmp_path / "again") as again:
        assert rows(again) == before
        goes_on(again)


def database(server: str) -> str:
    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{name}"')
    return f"{server}&options=-csearch_path%3D{name}"


def test_from_one_database_to_the_other(ab: Anabranch, tmp_path: Path, postgres_url: str) -> None:
    ab.backup(tmp_path / "one")
    before, listed = rows(ab), facts(ab)
    server = {"catalog": database(postgres_url), "warehouse": str(tmp_path / "pg")}
    anabranch.restore(tmp_path / "one", server)
    with connect(server) as other:
        assert rows(other) == before and facts(other) == listed
        goes_on(other)
        other.backup(tmp_path / "two")
        before, listed = rows(other), facts(other)
    anabranch.restore(tmp_path / "two", tmp_path / "back")
    with connect(tmp_path / "back") as back:
        assert rows(back) == before and facts(back) == listed
        goes_on(back)


def test_commands(ab: Anabranch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = ab.cuts()[1]["cut_id"]
    home, backup, again = (str(tmp_path / each) for each in ("home", "backup", "again"))
    assert run(["--home", home, "backup", backup]) == 0
    assert f"to file://{backup}" in capsys.readouterr().out
    assert run(["--home", again, "restore", backup, "--cut", str(cut)]) == 0
    assert f"cut {cut}:" in capsys.readouterr().out
    assert run(["--home", again, "restore", backup]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert run(["--home", shutil.move(again, f"{again}2"), "adopt"]) == 0
    assert "belongs to this catalog now" in capsys.readouterr().out
    with connect(f"{again}2") as moved:
        goes_on(moved)
