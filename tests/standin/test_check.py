"""check: what is wrong is found, and what is safe is mended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import Anabranch
from anabranch.errors import AnabranchError, Refused, Unreachable
from anabranch.names import TableName
from tests.standin.damage import break_table, flip, forget
from tests.standin.engine import connect, installed
from tests.standin.foreign import foreign

TOTALS = "SELECT k, SUM(v) AS v FROM s.t GROUP BY k"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with installed():
        with opened(tmp_path) as ab:
            ab.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
            ab.sql("INSERT INTO s.t VALUES (1, 1), (2, 20)")
            ab.sql("INSERT INTO s.t VALUES (3, 300)")
            ab.create_stream_table("s.d", TOTALS, schedule=None)
            ab.create_stream_table("s.e", "SELECT k, v + 1 AS v FROM s.d", schedule=None)
        yield tmp_path


def opened(home: Path) -> Anabranch:
    forget()
    return connect(home, fsync=False)


def test_nothing_is_wrong(home: Path) -> None:
    with opened(home) as ab:
        assert ab.check() == [] and ab.check(deep=True) == [] and ab.check(repair=True) == []


@pytest.mark.parametrize(
    ("kind", "way", "deep"),
    [("data", "gone", False), ("data", "flipped", True), ("data", "empty", False),
     ("lists", "flipped", False), ("manifests", "gone", False), ("metadata", "garbled", False)],
)  # fmt: skip
def test_a_stream_table_is_rebuilt(home: Path, kind: str, way: str, deep: bool) -> None:
    break_table(home, "s.d", kind, way)
    with opened(home) as ab:
        found = ab.check(deep=deep)
        assert {each["table"] for each in found} >= {"s.d"}
        assert all(each["cure"] and not each["repaired"] for each in found)
        assert all(each["repaired"] for each in ab.check(repair=True, deep=deep))
    with opened(home) as ab:
        assert ab.check(deep=True) == []
        assert sorted(ab.table("s.d").collect()) == [(1, 1), (2, 20), (3, 300)]
        assert sorted(ab.table("s.e").collect()) == [(1, 2), (2, 21), (3, 301)]


def test_a_source_stays_broken_until_somebody_says_otherwise(home: Path) -> None:
    with opened(home) as ab:
        (newest,) = ab._runtime.lake.current(_name("s.t")).delta(_first(ab)).plus[0].files
    Path(newest.removeprefix("file://")).unlink()
    with opened(home) as ab:
        (row,) = [each for each in ab.check(repair=True) if each["kind"] == "source table"]
        assert not row["repaired"] and "--roll-back-sources" in row["cure"]
        with pytest.raises(AnabranchError):
            ab.table("s.t").collect()
        with pytest.raises(Refused, match="repair"):
            ab.check(roll_back_sources=True)
        assert all(r["repaired"] for r in ab.check(repair=True, roll_back_sources=True))
        assert sorted(ab.table("s.t").collect()) == [(1, 1), (2, 20)]
        assert sorted(ab.table("s.d").collect()) == [(1, 1), (2, 20)]
        assert ab.check(deep=True) == []


def _file_of(ab: Anabranch, place: int) -> Path:
    """The data file of one of the inserts."""
    version = ab._runtime.lake.current(_name("s.t"))
    known = version.state(version.metadata.snapshots[0].snapshot_id).data[0].data_file.file_path
    files = [each.data_file.file_path for each in version.state(version.snapshot_id).data]
    chosen = known if place == 0 else next(each for each in files if each != known)
    return Path(chosen.removeprefix("file://"))


@pytest.mark.parametrize("deep", [True, False])
def test_a_roll_back_ends_at_files_whose_checksums_are_right(home: Path, deep: bool) -> None:
    """Damage that only a checksum shows: of the current file, or of the one before a lost one."""
    with opened(home) as ab:
        newest = _file_of(ab, 1)
        if not deep:
            ab.sql("INSERT INTO s.t VALUES (4, 4000)")
            version = ab._runtime.lake.current(_name("s.t"))
            (lost,) = version.delta(version.metadata.snapshots[1].snapshot_id).plus[0].files
            Path(lost.removeprefix("file://")).unlink()
    flip(newest, newest.stat().st_size * 4)
    with opened(home) as ab:
        if deep:
            (row,) = [r for r in ab.check(deep=True, repair=True) if r["kind"] == "source table"]
            assert not row["repaired"] and "--roll-back-sources" in row["error"]
        found = ab.check(deep=deep, repair=True, roll_back_sources=True)
        assert found and all(each["repaired"] and each["error"] is None for each in found)
        assert sorted(ab.table("s.t").collect()) == [(1, 1), (2, 20)]
        assert sorted(ab.table("s.d").collect()) == [(1, 1), (2, 20)]
        assert ab.check(deep=True) == []


def test_without_a_readable_version_a_repair_says_what_is_left(home: Path) -> None:
    with opened(home) as ab:
        oldest = _file_of(ab, 0)
    flip(oldest, oldest.stat().st_size * 4)
    with opened(home) as ab:
        found = ab.check(deep=True, repair=True, roll_back_sources=True, previous_metadata=True)
        assert found and all(each["error"] and not each["repaired"] for each in found)
        assert found[0]["error"] == (
            "no version of s.t can be read: restore its files from a backup, or DELETE FROM s.t and "
            "load its rows again"
        )
        ab.sql("DELETE FROM s.t")
        ab.sql("INSERT INTO s.t VALUES (1, 1)")
        (row,) = [each for each in ab.check(deep=True) if each["kind"] == "source table"]
        assert "readers are recomputed" in row["cure"]  # it can be read again itself
        assert all(each["repaired"] for each in ab.check(deep=True, repair=True))
        assert ab.table("s.d").collect() == [(1, 1)] and ab.check(deep=True) == []


def test_a_table_without_any_manifest_list_can_be_dropped_and_loaded_again(home: Path) -> None:
    break_table(home, "s.t", "lists", "gone")
    with opened(home) as ab:
        found = ab.check(repair=True, roll_back_sources=True)
        assert "or DROP TABLE s.t and load it again" in found[0]["error"]
        for name in ("s.e", "s.d"):
            ab.drop_stream_table(name)
        ab.sql("DROP TABLE s.t")
        ab.sql("CREATE TABLE s.t (k BIGINT)")
        assert ab.check(deep=True) == []


def test_a_table_over_a_damaged_source_waits_for_it(home: Path) -> None:
    with opened(home) as ab:
        newest = _file_of(ab, 1)
        before = {name: sorted(ab.table(name).collect()) for name in ("s.d", "s.e")}
    flip(newest, newest.stat().st_size * 4)
    with opened(home) as ab:
        for asked in ({}, {"repair": True}):
            (source, *found) = ab.check(deep=True, **asked)
            assert (source["table"], source["problem"]) == ("s.t", "DAMAGED")
            assert [each["table"] for each in found] == ["s.d"]  # s.e is compared with s.d as it is
            for each in found:
                assert each["problem"] == "CANNOT_COMPARE" and not each["repaired"]
                assert each["detail"] == "cannot be compared: s.t is damaged"
                assert each["cure"] == "mend s.t first, then --repair"
                assert each["error"] == ("it waits for s.t" if asked else None)
        assert {name: sorted(ab.table(name).collect()) for name in before} == before
        assert {each["status"] for each in ab.status()} == {"ACTIVE"}
    break_table(home, "s.d", "data", "gone")
    with opened(home) as ab:  # what is damaged itself has to wait as well
        cures = {each["cure"] for each in ab.check(deep=True) if each["table"] == "s.d"}
        assert cures == {"mend s.t first, then --repair"}
        found = ab.check(deep=True, repair=True, roll_back_sources=True)
        assert all(each["repaired"] for each in found) and ab.check(deep=True) == []


def test_a_table_whose_source_is_gone_says_what_can_be_done(home: Path) -> None:
    with opened(home) as ab:
        with foreign(ab) as catalog:
            catalog.drop_table(("s", "t"))
        for asked in ({}, {"repair": True}):
            (row,) = ab.check(deep=True, **asked)
            assert row["table"] == "s.d"
            assert row["problem"] == "CANNOT_COMPARE" and not row["repaired"]
            assert row["detail"] == "cannot be compared: s.t is no longer there"
            assert row["cure"] == (
                "create s.t again, or ALTER STREAM TABLE s.d AS another query, or "
                "DROP STREAM TABLE s.d"
            )
            assert row["error"] == ("it waits for s.t" if asked else None)
        ab.sql("CREATE TABLE s.o (k BIGINT, v BIGINT)")
        ab.sql("ALTER STREAM TABLE s.d AS SELECT k, SUM(v) AS v FROM s.o GROUP BY k")
        ab.refresh()
        assert ab.check(deep=True) == []


def test_a_pointer_goes_back_only_if_told(home: Path) -> None:
    with opened(home) as ab:
        location = ab._runtime.lake.pointers()[_name("s.t")]
    Path(location.removeprefix("file://")).write_text("{}")
    with opened(home) as ab:
        assert not all(each["repaired"] for each in ab.check(repair=True))
        assert all(each["repaired"] for each in ab.check(repair=True, previous_metadata=True))
        assert sorted(ab.table("s.t").collect()) == [(1, 1), (2, 20)]
        assert sorted(ab.table("s.d").collect()) == [(1, 1), (2, 20)]


def _name(text: str) -> TableName:
    return TableName.parse(text)


def _first(ab: Anabranch) -> int:
    return int(ab._runtime.lake.current(_name("s.t")).metadata.snapshots[0].snapshot_id)


@pytest.mark.parametrize("broken", ["s.t", "s.d", "s.t__by_k"])
@pytest.mark.parametrize("kind", ["metadata", pytest.param("lists", marks=pytest.mark.slow)])
def test_a_broken_table_is_in_nobodys_way(home: Path, kind: str, broken: str) -> None:
    with opened(home) as ab:
        ab.sql("CREATE INDEX by_k ON s.t (k)")
        ab.sql("CREATE TABLE s.o (k BIGINT, v BIGINT)")
        ab.sql("INSERT INTO s.o VALUES (1, 1)")
        ab.create_stream_table("s.x", "SELECT SUM(v) AS v FROM s.o", schedule="1ms")
    lost = {path.name for path in break_table(home, broken, kind, "gone")}
    with opened(home) as ab:
        for listing in ("status", "groups", "cuts", "tables", "columns", "history", "indexes"):
            getattr(ab, listing)()
        assert "s.o" in ab.explain("s.x")
        ab.sql("INSERT INTO s.o VALUES (2, 2)")
        ab.tick()
        assert ab.table("s.x").collect() == [(3,)]
        before = set((home / "warehouse").rglob("*.parquet"))
        assert ab.maintain()["tables_damaged"] == [broken]
        kept = {path for path in before if broken.split(".")[1] + "-" in str(path)}
        assert kept and all(path.exists() for path in kept) and lost
        if broken == "s.t__by_k":
            assert ab.check() == []  # upkeep made it again
            ab.sql("INSERT INTO s.t VALUES (4, 4)")
            assert ab.sql("SELECT v FROM s.t WHERE k = 4").collect() == [(4,)]


def test_a_broken_index_stops_neither_reads_nor_writes(home: Path) -> None:
    with opened(home) as ab:
        ab.sql("CREATE INDEX by_k ON s.t (k)")
    break_table(home, "s.t__by_k", "data", "flipped")
    with opened(home) as ab:
        assert [each["kind"] for each in ab.check(deep=True)] == ["index"]
        assert all(each["repaired"] for each in ab.check(repair=True, deep=True))
    break_table(home, "s.t__by_k", "metadata", "gone")
    with opened(home) as ab:
        assert ab.sql("SELECT v FROM s.t WHERE k = 2").collect() == [(20,)]
        ab.sql("INSERT INTO s.t VALUES (4, 4)")
        assert ab.sql("SELECT v FROM s.t WHERE k = 4").collect() == [(4,)]
        assert ab.check(deep=True) == []


def test_checksums_are_right_in_another_place(home: Path, tmp_path: Path) -> None:
    """Files that are written again for another place tell their new checksums."""
    with opened(home) as ab:
        ab.sql("DELETE FROM s.t WHERE k = 2")
    other = tmp_path.parent / f"{tmp_path.name}-moved"
    home.rename(other)
    with opened(other) as ab:
        ab.adopt()
    with opened(other) as ab:
        assert ab.check() == [] and sorted(ab.table("s.t").collect()) == [(1, 1), (3, 300)]
        ab.refresh()
        assert {each["action"] for each in ab.history(limit=2)} == {"DIFFERENTIAL"}
        assert sorted(ab.table("s.d").collect()) == [(1, 1), (3, 300)]
        assert ab.check(deep=True) == []
        manifests = list((other / "warehouse").rglob("metadata/*.avro"))
        assert manifests
    break_table(other, "s.t", "lists", "flipped")
    with opened(other) as ab:
        assert {each["table"] for each in ab.check()} == {"s.t"}


def test_a_lost_catalog_learns_its_tables_again(home: Path) -> None:
    with opened(home) as ab:
        right = {name: sorted(ab.table(name).collect()) for name in ("s.d", "s.e")}
        with pytest.raises(Refused, match="not emptied"):
            ab.recover()
        location = ab._runtime.lake.pointers()[_name("s.t")]
    for path in home.glob("catalog.db*"):
        path.unlink()
    Path(location.removeprefix("file://")).write_text("{}")  # the newest one is damaged
    with opened(home) as ab:
        assert ab.tables() == [] and [each["problem"] for each in ab.check()] == ["EMPTY"]
        assert {each["table"] for each in ab.recover()} == {"s.t", "s.d", "s.e"}
        assert sorted(ab.table("s.t").collect()) == [(1, 1), (2, 20)]
        assert {name: sorted(ab.table(name).collect()) for name in right} == right
        ab.sql("INSERT INTO s.t VALUES (9, 9)")
        assert ab.check(deep=True) == []


def test_a_damaged_catalog_says_so_and_offers_a_way_back(home: Path) -> None:
    with opened(home) as ab:
        with ab._store.writing() as c:
            c.exec_driver_sql("DROP TABLE iceberg_tables")
        with pytest.raises(Unreachable, match="iceberg_tables is gone") as caught:
            ab.tables()
    assert "recover --from-warehouse" in str(caught.value)
    for path in home.glob("catalog.db-*"):
        path.unlink()
    (home / "catalog.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(Unreachable, match="not an SQLite database") as caught:
        opened(home)
    assert "recover --from-warehouse" in str(caught.value)
