"""recover: a catalog that is lost gets its stream tables back, and none of them is silently wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import Anabranch
from anabranch.lake import declared
from anabranch.names import TableName
from tests.standin.damage import forget
from tests.standin.engine import connect, installed

TOTALS = "SELECT k, SUM(v) AS v FROM s.t GROUP BY k"
LARGE = "SELECT k, v FROM s.large WHERE v > 5"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with installed():
        with opened(tmp_path) as ab:
            ab.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
            ab.sql("INSERT INTO s.t VALUES (1, 1), (2, 20)")
            ab.create_stream_table("s.d", TOTALS, schedule="1h", refresh_mode="FULL")
            ab.create_stream_table("s.e", "SELECT k, v + 1 AS v FROM s.d", schedule=None)
            ab.sql("CREATE VIEW s.large AS SELECT k, v FROM s.e WHERE v > 1")
            ab.create_stream_table("s.f", LARGE, initialize=False)
            ab.create_refresh_group("g", ["s.d", "s.e"])
            ab.sql("CREATE INDEX by_v ON s.t (v)")
        yield tmp_path


def opened(home: Path) -> Anabranch:
    forget()
    return connect(home, fsync=False)


def lose(home: Path) -> None:
    for path in home.glob("catalog.db*"):
        path.unlink()


def said(ab: Anabranch) -> dict[str, str]:
    return {each["table"] or each["folder"]: each["detail"] for each in ab.recover()}


def test_stream_tables_come_back_with_all_that_was_declared(home: Path) -> None:
    with opened(home) as ab:
        before = declarations(ab)
    lose(home)
    with opened(home) as ab:
        told = said(ab)
        assert {"s.t", "s.d", "s.e", "s.f"} <= set(told)
        assert "source table" in told["s.t"] and "in full" in told["s.d"]
        assert declarations(ab) == before
        ab.sql("INSERT INTO s.t VALUES (3, 300)")  # before anything was refreshed
        ab.refresh()
        assert [each["action"] for each in ab.history("s.d")] == ["REINITIALIZE"]
        assert [each["action"] for each in ab.history("s.e")] == ["REINITIALIZE"]
        assert sorted(ab.table("s.d").collect()) == [(1, 1), (2, 20), (3, 300)]
        assert sorted(ab.table("s.e").collect()) == [(1, 2), (2, 21), (3, 301)]
        assert sorted(ab.table("s.f").collect()) == [(2, 21), (3, 301)]
        ab.check(repair=True)
        assert ab.check(deep=True) == []


def declarations(ab: Anabranch) -> object:
    with ab._store.reading() as c:
        return declared.dump(c)


def test_rows_that_nobody_computed_from_the_sources_are_replaced(home: Path) -> None:
    """The newest metadata of a source cannot be read: an older one is registered."""
    with opened(home) as ab:
        ab.sql("INSERT INTO s.t VALUES (3, 300)")
        ab.refresh()
        location = ab._runtime.lake.pointers()[TableName.of("s", "t")]
    lose(home)
    Path(location.removeprefix("file://")).write_text("{}")
    with opened(home) as ab:
        ab.recover()
        assert len(ab.table("s.d").collect()) == 3
        ab.refresh()
        assert sorted(ab.table("s.d").collect()) == [(1, 1), (2, 20)]
        ab.check(repair=True)
        assert ab.check(deep=True) == []


def test_a_stream_table_without_any_metadata_is_filled_again(home: Path) -> None:
    with opened(home) as ab:
        right = sorted(ab.table("s.d").collect())
    lose(home)
    for path in home.glob("warehouse/s/d-*/metadata/*.metadata.json"):
        path.write_text("{}")
    with opened(home) as ab:
        assert "fills it" in said(ab)["s.d"]
        ab.refresh()
        assert sorted(ab.table("s.d").collect()) == right
        ab.check(repair=True)
        assert ab.check(deep=True) == []


def test_without_the_file_it_says_what_it_does_not_know(home: Path) -> None:
    lose(home)
    (home / "warehouse" / declared.FILE).unlink()
    with opened(home) as ab:
        told = said(ab)
        assert "no file records whether it had a query" in told["s.d"]
        assert any("index of s.t: CREATE INDEX" in each for each in told.values())
        assert ab.status() == []


def test_the_file_follows_every_declaration(home: Path) -> None:
    def same(ab: Anabranch) -> bool:
        found = dict(declared.read(ab._runtime.lake.warehouse))
        tables = {each["name"] for each in found.pop("tables")}
        there = {str(name) for name in ab._runtime.lake.pointers()}
        return found == declarations(ab) and tables == there

    with opened(home) as ab:
        for statement in (
            "ALTER STREAM TABLE s.d SET SCHEDULE '2h'",
            "ALTER STREAM TABLE s.d AS SELECT k, MAX(v) AS v FROM s.t GROUP BY k",
            "CREATE OR REPLACE VIEW s.large AS SELECT k, v FROM s.e WHERE v > 2",
            "CREATE STREAM TABLE s.x AS SELECT k FROM s.t",
            "DROP REFRESH GROUP g",
            "DROP INDEX by_v ON s.t",
            "DROP STREAM TABLE s.x",
            "DROP STREAM TABLE s.f",
            "DROP VIEW s.large",
            "CREATE TABLE s.y (k BIGINT)",
            "DROP TABLE s.y",
        ):
            before = declared.read(ab._runtime.lake.warehouse)
            ab.sql(statement)
            assert same(ab) and declared.read(ab._runtime.lake.warehouse) != before, statement
        path = home / "warehouse" / declared.FILE
        path.unlink()
        ab.sql("INSERT INTO s.t VALUES (4, 4)")
        ab.refresh()
        assert not path.exists(), "rows declare nothing"
        ab.maintain()
        assert same(ab), "upkeep writes what is missing"


def test_names_come_back_as_they_were(home: Path) -> None:
    """A folder spells a name in letters that every file system takes."""
    long = "s.a" + "b" * 60
    with opened(home) as ab:
        ab.sql(f"CREATE TABLE {long} (k BIGINT)")
        ab.sql("CREATE TABLE s.`odd näme` (k BIGINT)")
        ab.sql("INSERT INTO s.`odd näme` VALUES (7)")
        ab.create_stream_table("s.`d d`", "SELECT k FROM s.`odd näme`")
    lose(home)
    with opened(home) as ab:
        assert {long, "s.`odd näme`", "s.`d d`"} <= set(said(ab))
        ab.refresh()
        assert ab.table("s.`d d`").collect() == [(7,)]
        assert ab.check(deep=True, repair=True) is not None and ab.check(deep=True) == []


def test_a_name_that_something_else_has_now_does_not_come_back(home: Path) -> None:
    with opened(home) as ab:
        ab.sql("CREATE TABLE s.Large2 (k BIGINT)")
        ab.sql("DROP TABLE s.Large2")
        ab.sql("CREATE VIEW s.large2 AS SELECT k FROM s.t")
    lose(home)
    with opened(home) as ab:
        assert any("its name is that of s.large2 now" in each for each in said(ab).values())
        assert sorted(ab.table("s.large2").collect()) == [(1,), (2,)]
