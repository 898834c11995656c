"""A catalog with a flipped bit: what SQLite no longer finds was not dropped by anybody."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anabranch import Anabranch
from anabranch.catalog import store
from anabranch.cli.main import run
from anabranch.errors import CatalogDamaged
from anabranch.names import TableName
from tests.standin.damage import forget, roots
from tests.standin.engine import connect, installed

INDEX = "sqlite_autoindex_iceberg_tables_1"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with installed():
        with connect(tmp_path, fsync=False) as ab:
            for name in ("s.a", "s.t"):
                ab.sql(f"CREATE TABLE {name} (k BIGINT, v BIGINT)")
                ab.sql(f"INSERT INTO {name} VALUES (1, 1)")
            query = "SELECT k, SUM(v) AS v FROM s.t GROUP BY k"
            ab.create_stream_table("s.d", query, schedule=None)
        yield tmp_path


def opened(home: Path) -> Anabranch:
    forget()
    store._opened.clear()
    return connect(home, fsync=False)


def rot(home: Path, change: Callable[[bytes], bytes]) -> None:
    """Change the page of the index by which tables are found by their names."""
    file = home / "catalog.db"
    with closing(sqlite3.connect(file)) as c:
        find = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        page = int(c.execute(find, [INDEX]).fetchone()[0])
        size = int(c.execute("PRAGMA page_size").fetchone()[0])
        c.execute("PRAGMA journal_mode = DELETE")
    data, at = file.read_bytes(), (page - 1) * size
    changed = change(data[at : at + size])
    assert changed != data[at : at + size] and len(changed) == size
    file.write_bytes(data[:at] + changed + data[at + size :])


def misnamed(page: bytes) -> bytes:
    """One bit: the index has s.u instead of s.t, which only a comparison with the rows shows."""
    return page.replace(b"anabranchst", b"anabranchsu")


def one_less(page: bytes) -> bytes:
    return page[:4] + bytes([page[4] - 1]) + page[5:]


def recorded(home: Path) -> list[object]:
    with closing(sqlite3.connect(home / "catalog.db")) as c:
        return c.execute("SELECT cut_id, kind FROM ab_cuts ORDER BY cut_id").fetchall()


def test_no_cut_says_that_a_table_was_dropped_that_an_index_hides(home: Path) -> None:
    before = recorded(home)
    rot(home, misnamed)
    with opened(home) as ab:
        write = "INSERT INTO s.a VALUES (2, 2)"
        for ask in (ab.refresh, lambda: ab.table("s.t"), lambda: ab.sql(write)):
            with pytest.raises(CatalogDamaged, match="missing from index") as caught:
                ask()
            assert "recover --from-warehouse" in str(caught.value)
    assert recorded(home) == before


def test_what_cannot_be_walked_is_refused_at_once(home: Path) -> None:
    rot(home, one_less)
    with pytest.raises(CatalogDamaged, match=r"catalog\.db is damaged"):
        opened(home)


@pytest.mark.parametrize("change", [misnamed, one_less])
def test_check_names_the_catalog(
    home: Path, capsys: pytest.CaptureFixture[str], change: Callable[[bytes], bytes]
) -> None:
    rot(home, change)
    store._opened.clear()
    assert run(["--home", str(home), "check", "--json"]) == 2
    said = capsys.readouterr().out
    for word in ('"catalog"', '"DAMAGED"', "catalog.db", "recover --from-warehouse"):
        assert word in said


def test_nothing_is_copied_adopted_or_deleted(home: Path, tmp_path: Path) -> None:
    rot(home, misnamed)
    files = {path for path in (home / "warehouse").rglob("*") if path.is_file()}
    with opened(home) as ab:
        found = ab.check(repair=True)
        assert [(each["table"], each["problem"]) for each in found] == [(None, "DAMAGED")]
        assert found[0]["path"] == str(home / "catalog.db") and not found[0]["repaired"]
        place = tmp_path / "elsewhere"
        for act in (ab.maintain, ab.adopt, lambda: ab.backup(place)):
            with pytest.raises(CatalogDamaged):
                act()
    assert {path for path in (home / "warehouse").rglob("*") if path.is_file()} == files
    assert not list(place.rglob("*.json"))


@pytest.mark.parametrize("kind", ["metadata/snap*.avro", "metadata/*-m0*.avro"])
def test_a_check_sees_what_this_process_remembers_no_more(home: Path, kind: str) -> None:
    with opened(home) as ab:
        assert ab.check() == []
        for path in (each for root in roots(home, "s.t") for each in root.glob(kind)):
            path.unlink()
        assert {(each["table"], each["problem"]) for each in ab.check()} == {("s.t", "MISSING")}


def _metadata(ab: Anabranch, name: str) -> Path:
    location = ab._runtime.lake.pointers()[TableName.parse(name)]
    return Path(location.removeprefix("file://"))


def test_a_directory_in_place_of_a_metadata_file_hides_no_other_damage(home: Path) -> None:
    with opened(home) as ab:
        for name in ("s.a", "s.d"):
            path = _metadata(ab, name)
            path.unlink()
            path.mkdir()
        _metadata(ab, "s.t").unlink()
        found = {(each["table"], each["problem"]) for each in ab.check()}
        assert found == {("s.a", "DAMAGED"), ("s.d", "DAMAGED"), ("s.t", "MISSING")}
        mended = ab.check(repair=True, previous_metadata=True)
        assert mended and all(each["repaired"] for each in mended)
        assert ab.check() == []


@pytest.mark.parametrize(
    ("number", "problem"), [(errno.EIO, "DAMAGED"), (errno.EACCES, "UNREADABLE")]
)
def test_a_file_that_cannot_be_read_is_a_finding(
    home: Path, monkeypatch: pytest.MonkeyPatch, number: int, problem: str
) -> None:
    with opened(home) as ab:
        bad = str(_metadata(ab, "s.a"))
        _metadata(ab, "s.t").unlink()
        lake = ab._runtime.lake
        new_input = lake.warehouse.io.new_input

        def refusing(path: str) -> object:
            if path.endswith(bad):
                raise OSError(number, "not now", path)
            return new_input(path)

        monkeypatch.setattr(lake.warehouse.io, "new_input", refusing)
        for found in (ab.check(), ab.check(repair=True)):
            problems = {each["table"]: each["problem"] for each in found}
            assert problems["s.a"] == problem and problems["s.t"] == "MISSING"
            assert all(each["cure"] for each in found)
