"""A file is lost: whose it is decides what a refresh does, and the mode of the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import Anabranch
from anabranch.errors import BaseExpired, FileMissing
from anabranch.names import TableName
from anabranch.refresh.lost import Part, Whose, whose
from tests.standin.damage import KINDS, WAYS, break_table, forget, roots
from tests.standin.engine import connect, installed
from tests.standin.foreign import append

T, D = (TableName.parse(f"s.{name}") for name in "td")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with installed():
        with opened(tmp_path / "home") as ab:
            ab.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
            ab.sql("INSERT INTO s.t VALUES (1, 1), (2, 20), (3, 300)")
        yield tmp_path / "home"


def opened(home: Path) -> Anabranch:
    return connect(home, fsync=False)


def single(home: Path, mode: str) -> None:
    with opened(home) as ab:
        query = "SELECT k, SUM(v) AS v FROM s.t GROUP BY k"
        ab.create_stream_table("s.d", query, schedule=None, refresh_mode=mode)


def cycle(home: Path, mode: str) -> None:
    with opened(home) as ab:
        ab.sql("SET anabranch.allow_circular = true")
        for name, query in (
            ("s.a", "SELECT k FROM s.t"),
            ("s.b", "SELECT k FROM s.a"),
        ):
            ab.create_stream_table(name, query, schedule=None, refresh_mode=mode)
        ab.alter_stream_table("s.a", query="SELECT k FROM s.t UNION SELECT k FROM s.b")


def changed(home: Path) -> set[str]:
    """The source moves on; the names of the files that tell what it is."""
    with opened(home) as ab:
        ab.sql("DELETE FROM s.t WHERE k = 2")
        ab.sql("INSERT INTO s.t VALUES (4, 4)")
        version = ab._runtime.lake.current(T)
        snapshot = version.snapshot(version.snapshot_id)
        assert snapshot is not None
        state = version.state(version.snapshot_id)
        rows = [each.data_file.file_path for each in (*state.data, *state.deletes.entries)]
        lists = [each.manifest_path for each in snapshot.manifests(version.io)]
        paths = [*rows, *lists, snapshot.manifest_list, version.location]
        return {path.rpartition("/")[2] for path in paths}


def lose(home: Path, kinds: str, way: str, now: set[str], *, current: bool) -> list[Path]:
    """Files of the source, as it is or as it was."""
    (root,) = roots(home, "s.t")
    found = [
        path
        for kind in kinds.split()
        for path in root.glob(KINDS[kind])
        if (path.name in now) is current
    ]
    assert found
    for path in found:
        WAYS[way](path)
    forget()
    return found


@pytest.mark.parametrize("way", ["gone", "flipped"])
@pytest.mark.parametrize("kinds", ["data", "data manifests lists"])
def test_rows_that_are_whole_stay_where_a_source_was_lost(home: Path, kinds: str, way: str) -> None:
    single(home, "DIFFERENTIAL")
    files = lose(home, kinds, way, changed(home), current=False)
    with opened(home) as ab:
        with pytest.raises(BaseExpired, match=r"s\.d cannot be refreshed from changes") as caught:
            ab.refresh()
        assert any(path.name in caught.value.message for path in files)
        assert caught.value.hint == "REFRESH STREAM TABLE s.d FULL recomputes it once"
        assert sorted(ab.table("s.d").collect()) == [(1, 1), (2, 20), (3, 300)]
        assert ab.history("s.d", 1)[0]["status"] == "FAILED"
        ab.sql("REFRESH STREAM TABLE s.d FULL")
        assert sorted(ab.table("s.d").collect()) == [(1, 1), (3, 300), (4, 4)]
        ab.sql("INSERT INTO s.t VALUES (5, 5)")
        assert [each["action"] for each in ab.refresh()] == ["DIFFERENTIAL"]


@pytest.mark.parametrize("mode", ["AUTO", "FULL"])
def test_who_may_be_recomputed_is(home: Path, mode: str) -> None:
    single(home, mode)
    lose(home, "data", "gone", changed(home), current=False)
    with opened(home) as ab:
        ab.refresh()
        assert sorted(ab.table("s.d").collect()) == [(1, 1), (3, 300), (4, 4)]
        line = ab.history("s.d", 1)[0]
        if mode == "AUTO":
            assert ".parquet" in line["reason"]
            assert "FALLBACK" in {each["kind"] for each in ab.events("s.d")}


@pytest.mark.parametrize("kinds", ["data", "manifests", "lists", "metadata"])
@pytest.mark.parametrize("mode", ["AUTO", "DIFFERENTIAL", "FULL"])
def test_a_source_as_it_is_cannot_be_done_without(home: Path, mode: str, kinds: str) -> None:
    single(home, mode)
    files = lose(home, kinds, "gone", changed(home), current=True)
    with opened(home) as ab:
        with pytest.raises(FileMissing) as caught:
            ab.refresh()
        assert any(path.name in caught.value.message for path in files)
        assert sorted(ab.table("s.d").collect()) == [(1, 1), (2, 20), (3, 300)]


def test_changes_that_cannot_be_told_are_no_expired_base(home: Path) -> None:
    """Only manifests tell what another program appended: they are also what the source is."""
    single(home, "DIFFERENTIAL")
    with opened(home) as ab:
        append(ab, "s.t", (4, 4))
        version = ab._runtime.lake.current(T)
        snapshot = version.snapshot(version.snapshot_id)
        assert snapshot is not None
        (new,) = (
            each
            for each in snapshot.manifests(version.io)
            if each.added_snapshot_id == version.snapshot_id
        )
        path = Path(new.manifest_path.removeprefix("file://"))
        path.unlink()
        forget()
        with pytest.raises(FileMissing, match=path.name):
            ab.refresh()


@pytest.mark.parametrize("kind", ["data", "metadata"])
def test_a_cycle_whose_own_files_are_lost_is_built_again(home: Path, kind: str) -> None:
    cycle(home, "DIFFERENTIAL")
    changed(home)
    break_table(home, "s.b", kind, "gone")
    with opened(home) as ab:
        ab.refresh()
        assert sorted(ab.table("s.b").collect()) == [(1,), (3,), (4,)]
        assert ab.history("s.b", 1)[0]["action"] == "REINITIALIZE"
        assert "REINITIALIZED" in {each["kind"] for each in ab.events("s.b")}


def test_a_cycle_that_is_whole_is_refused_as_well(home: Path) -> None:
    cycle(home, "DIFFERENTIAL")
    lose(home, "data manifests lists", "gone", changed(home), current=False)
    with opened(home) as ab:
        with pytest.raises(BaseExpired, match="cannot be refreshed from changes") as caught:
            ab.refresh()
        assert "FULL recomputes the cycle once" in (caught.value.hint or "")
        assert sorted(ab.table("s.a").collect()) == [(1,), (2,), (3,)]
        ab.sql("REFRESH STREAM TABLE s.a FULL")
        assert sorted(ab.table("s.b").collect()) == [(1,), (3,), (4,)]


def test_a_file_without_a_name_is_looked_for(home: Path) -> None:
    single(home, "DIFFERENTIAL")
    with opened(home) as ab:
        world = ab._runtime.world()
        at = world.pointers
        unnamed = FileMissing("a data file cannot be read")
        assert whose(world, at, [D], [T], unnamed) == Whose(Part.UNKNOWN)
        break_table(home, "s.d", "data", "flipped")
        assert whose(world, at, [D], [T], unnamed) == Whose(Part.OWN, D)
        root = at[D].removeprefix("file://").rpartition("/metadata/")[0]
        spelt = FileMissing("gone", path=f"file:{root}/data/x.parquet")  # as Spark writes paths
        assert whose(world, at, [D], [T], spelt) == Whose(Part.OWN, D)
