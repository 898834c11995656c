"""Opening a catalog, and what its transactions promise; SQLite (the contract suite does both)."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from anabranch.catalog import cuts, tables
from anabranch.catalog.store import Store, parse_url
from anabranch.errors import InvalidValue, Unreachable


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "catalog.db")


def test_urls() -> None:
    assert parse_url("postgresql://u:p@h/d").drivername == "postgresql+psycopg"
    assert parse_url("sqlite:////a/b?c%20#.db").database == "/a/b?c%20#.db"
    assert parse_url("/a/b.db").database == "/a/b.db"
    for wrong in ("mysql://x/y", "sqlite://", "sqlite:///:memory:"):
        with pytest.raises(InvalidValue):
            parse_url(wrong)


def test_opening_again_finds_the_same_catalog(tmp_path: Path) -> None:
    first, second = Store.open(tmp_path / "c.db"), Store.open(f"sqlite:///{tmp_path}/c.db")
    assert first.catalog_uuid == second.catalog_uuid != ""
    other = Store.open(tmp_path / "other.db")
    assert other.catalog_uuid != first.catalog_uuid


def test_out_of_reach(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="unable to open database file") as caught:
        Store.open(tmp_path / "missing" / "c.db")
    assert "directory exists" in (caught.value.hint or "")
    (tmp_path / "text").write_text("not a database, but long enough to have a header" * 10)
    with pytest.raises(Unreachable, match="text is not an SQLite database"):
        Store.open(tmp_path / "text")
    with pytest.raises(Unreachable, match="check that the server runs"):
        Store.open("postgresql://nobody@127.0.0.1:1/none")


def test_a_catalog_of_another_format(tmp_path: Path, store: Store) -> None:
    with store.writing() as c:
        c.execute(tables.meta.update().values(format_version=99))
    with pytest.raises(Unreachable, match="has format version 99"):
        Store.open(tmp_path / "catalog.db")


def test_a_catalog_made_by_older_libraries(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE iceberg_tables (catalog_name TEXT, table_namespace TEXT, "
            "table_name TEXT, metadata_location TEXT, previous_metadata_location TEXT)"
        )
        connection.execute("INSERT INTO iceberg_tables VALUES ('anabranch', 's', 't', 'm', NULL)")
    connection.close()
    with Store.open(path).reading() as c:
        assert [str(name) for name in cuts.pointers(c, "anabranch")] == ["s.t"]


def test_reading_sees_one_snapshot(store: Store) -> None:
    with store.reading() as c:
        with store.writing() as other:
            cuts.advance(other)
        assert cuts.current(c) == 0
    with store.reading() as c:
        assert cuts.current(c) == 1


def test_nothing_stays_of_a_failed_transaction(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.writing() as c:
        cuts.advance(c)
        raise ZeroDivisionError
    with store.reading() as c:
        assert cuts.current(c) == 0


def test_writers_wait_for_each_other(store: Store) -> None:
    def advance() -> None:
        for _ in range(20):
            with store.writing() as c:
                cuts.advance(c)

    threads = [threading.Thread(target=advance) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store.reading() as c:
        assert cuts.current(c) == 80


def test_wrong_sql_is_not_taken_for_a_broken_disk(store: Store) -> None:
    with pytest.raises(OperationalError), store.reading() as c:
        c.execute(text("SELECT nothing FROM nowhere"))


def test_rows_of_views_and_deep_namespaces_are_left_out(store: Store) -> None:
    row = {"catalog_name": "anabranch", "metadata_location": "m"}
    with store.writing() as c:
        for space, name, kind in [
            ("s", "t", "TABLE"), ("s", "old", None), ("s", "v", "VIEW"), ("a.b.c", "deep", "TABLE"),
        ]:  # fmt: skip
            values = {**row, "table_namespace": space, "table_name": name, "iceberg_type": kind}
            c.execute(tables.iceberg_tables.insert().values(**values))
        assert sorted(map(str, cuts.pointers(c, "anabranch"))) == ["s.old", "s.t"]
        assert cuts.pointers(c, "another") == {}
        assert len(cuts.moved_by_others(c, "anabranch")) == 2


def test_listings_start_without_iceberg_and_spark() -> None:
    code = (
        "import sys; import anabranch.catalog.cuts, anabranch.catalog.streams;"
        "print([m for m in sys.modules if m.split('.')[0] in ('pyiceberg','pyspark','pyarrow')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
