"""A serializable transaction compares all that it has read, whichever way it read it.

In each case one transaction looks at something and writes i.s.  Meanwhile somebody else changes what it
has looked at: publishing it then would be write skew if that other one had read i.s before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.api import Anabranch
from anabranch.errors import AnabranchError, PublishConflict, Refused
from anabranch.listing import SYSTEM_VIEWS
from anabranch.verbs.table import VERBS
from tests.isolation.worker import prepare, values
from tests.standin.engine import connect, installed
from tests.standin.theirs import Theirs

Look = Callable[[Anabranch], object]


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home", fsync=False) as ab:
        prepare(ab)
        ab.sql("CREATE VIEW i.w AS SELECT v FROM i.r")
        ab.sql("CREATE INDEX by_v ON i.r (v)")
        ab.sql(
            "CREATE STREAM TABLE i.t SCHEDULE NONE AS SELECT v, COUNT(*) AS n FROM i.r GROUP BY v"
        )
        yield ab


@pytest.fixture
def two(one: Anabranch, tmp_path: Path) -> Iterator[Anabranch]:
    with connect(tmp_path / "home", fsync=False) as ab:
        yield ab


def sql(text: str) -> Look:
    """A query is also run; a statement that is refused tells something as well."""

    def look(ab: Anabranch) -> None:
        with suppress(AnabranchError):
            found = ab.sql(text)
            if hasattr(found, "collect"):
                found.collect()

    return look


def held(act: Look) -> Look:
    def look(ab: Anabranch) -> None:
        with ab.at() as world, suppress(AnabranchError):
            act(world)  # type: ignore[arg-type]

    return look


CHANGED = "UPDATE i.r SET v = 'two'"
LOOKS: dict[str, tuple[Look, str]] = {
    # rows
    "table": (lambda ab: ab.table("i.r").collect(), CHANGED),
    "table that is not read to its end": (lambda ab: ab.table("i.r"), CHANGED),
    "table by a condition": (lambda ab: ab.table("i.r", "v = '0'").collect(), CHANGED),
    "query": (sql("SELECT v FROM i.r"), CHANGED),
    "query by another case": (sql("SELECT v FROM I.R"), CHANGED),
    "query of an index": (sql("SELECT v FROM i.r__by_v"), CHANGED),
    "subquery": (sql("SELECT 1 AS one WHERE EXISTS (SELECT v FROM i.r)"), CHANGED),
    "CTE": (sql("WITH c AS (SELECT v FROM i.r) SELECT * FROM c"), CHANGED),
    "view": (sql("SELECT v FROM i.w"), CHANGED),
    "view, replaced": (sql("SELECT v FROM i.w"), "CREATE OR REPLACE VIEW i.w AS SELECT 'x' AS v"),
    "stream table": (sql("SELECT n FROM i.t"), f"{CHANGED}; REFRESH STREAM TABLE i.t"),
    "query that is refused": (sql("SELECT more FROM i.r"), "ALTER TABLE i.r ADD COLUMN more INT"),
    # statements that read
    "INSERT SELECT": (sql("INSERT INTO i.s SELECT v FROM i.r"), CHANGED),
    "UPDATE with a subquery": (sql("UPDATE i.s SET v = (SELECT MAX(v) FROM i.r)"), CHANGED),
    "UPDATE where": (sql("UPDATE i.s SET v = 'x' WHERE EXISTS (SELECT v FROM i.r)"), CHANGED),
    "DELETE where": (sql("DELETE FROM i.s WHERE v IN (SELECT v FROM i.r)"), CHANGED),
    "MERGE": (
        sql("MERGE INTO i.s USING i.r ON i.s.v = i.r.v WHEN MATCHED THEN UPDATE SET v = 'x'"),
        CHANGED,
    ),
    "MERGE of a query": (
        sql(
            "MERGE INTO i.s USING (SELECT v FROM i.r) n ON i.s.v = n.v "
            "WHEN NOT MATCHED THEN INSERT (v) VALUES (n.v)"
        ),
        CHANGED,
    ),
    "CREATE TABLE AS": (sql("CREATE TABLE i.c AS SELECT v FROM i.r"), CHANGED),
    "DELETE that finds nothing": (sql("DELETE FROM i.r WHERE v = 'nowhere'"), CHANGED),
    "INSERT that is refused": (
        sql("INSERT INTO i.r (more) VALUES (1)"),
        "ALTER TABLE i.r ADD COLUMN more INT",
    ),
    # columns and comments
    "DESCRIBE": (sql("DESCRIBE i.r"), "ALTER TABLE i.r ADD COLUMN more INT"),
    "DESCRIBE, a comment": (sql("DESCRIBE i.r"), "COMMENT ON COLUMN i.r.v IS 'other'"),
    "DESCRIBE a view": (sql("DESCRIBE i.w"), "CREATE OR REPLACE VIEW i.w AS SELECT 'x' AS v"),
    "columns": (lambda ab: ab.columns(), "ALTER TABLE i.r ADD COLUMN more INT"),
    "columns, a table": (lambda ab: ab.columns(), "CREATE TABLE i.q (v STRING)"),
    "ADD COLUMN IF NOT EXISTS": (
        sql("ALTER TABLE i.x ADD COLUMN IF NOT EXISTS v STRING"),
        "ALTER TABLE i.x RENAME COLUMN v TO w",
    ),
    "DROP COLUMN IF EXISTS": (
        sql("ALTER TABLE i.r DROP COLUMN IF EXISTS more"),
        "ALTER TABLE i.r ADD COLUMN more INT",
    ),
    "COMMENT that is there": (sql("COMMENT ON TABLE i.r IS NULL"), "COMMENT ON TABLE i.r IS 'x'"),
    # what is not there
    "no table": (sql("SELECT * FROM i.q"), "CREATE TABLE i.q (v STRING)"),
    "no table, made in another case": (sql("SELECT * FROM i.q"), "CREATE TABLE I.Q (v STRING)"),
    "no table, made as a view": (sql("SELECT * FROM i.q"), "CREATE VIEW i.q AS SELECT 1 AS v"),
    "no table to describe": (sql("DESCRIBE i.q"), "CREATE TABLE i.q (v STRING)"),
    "no table to insert into": (sql("INSERT INTO i.q VALUES (1)"), "CREATE TABLE i.q (v STRING)"),
    "DROP TABLE IF EXISTS": (sql("DROP TABLE IF EXISTS i.q"), "CREATE TABLE i.q (v STRING)"),
    "DROP VIEW IF EXISTS": (sql("DROP VIEW IF EXISTS i.q"), "CREATE VIEW i.q AS SELECT 1 AS v"),
    "DROP INDEX IF EXISTS": (sql("DROP INDEX IF EXISTS b ON i.r"), "CREATE INDEX b ON i.r (v)"),
    # what is there
    "CREATE TABLE IF NOT EXISTS": (
        sql("CREATE TABLE IF NOT EXISTS i.x (v STRING)"),
        "DROP TABLE i.x",
    ),
    "CREATE TABLE, refused": (sql("CREATE TABLE i.x (v STRING)"), "DROP TABLE i.x"),
    "CREATE VIEW IF NOT EXISTS": (
        sql("CREATE VIEW IF NOT EXISTS i.w AS SELECT 1 AS v"),
        "DROP VIEW i.w",
    ),
    "CREATE INDEX IF NOT EXISTS": (
        sql("CREATE INDEX IF NOT EXISTS by_v ON i.r (v)"),
        "DROP INDEX by_v ON i.r",
    ),
    "CREATE INDEX, refused": (sql("CREATE INDEX by_v ON i.r (v)"), "DROP INDEX by_v ON i.r"),
    "DROP TABLE that a view reads": (sql("DROP TABLE i.r"), "DROP VIEW i.w"),
    "DROP TABLE that a stream table reads": (
        sql("DROP TABLE i.r"),
        "ALTER STREAM TABLE i.t AS SELECT v, COUNT(*) AS n FROM i.x GROUP BY v",
    ),
    # listings
    "tables": (lambda ab: ab.tables(), "CREATE TABLE i.q (v STRING)"),
    "tables, one less": (lambda ab: ab.tables(), "DROP TABLE i.x"),
    "tables, a view": (lambda ab: ab.tables(), "CREATE VIEW i.q AS SELECT 1 AS v"),
    "tables, a status": (lambda ab: ab.tables(), "ALTER STREAM TABLE i.t SUSPEND"),
    "SHOW TABLES": (sql("SHOW TABLES"), "CREATE TABLE i.q (v STRING)"),
    "SHOW STREAM TABLES": (sql("SHOW STREAM TABLES"), "DROP STREAM TABLE i.t"),
    # a held cut
    "held, a table": (held(lambda w: w.table("i.r").collect()), CHANGED),
    "held, a query": (held(lambda w: w.sql("SELECT v FROM i.r").collect()), CHANGED),
    "held, a view": (held(lambda w: w.table("i.w").collect()), CHANGED),
    "held, a view, replaced": (
        held(lambda w: w.table("i.w").collect()),
        "CREATE OR REPLACE VIEW i.w AS SELECT 'x' AS v",
    ),
    "held, no table": (held(lambda w: w.table("i.q")), "CREATE TABLE i.q (v STRING)"),
}


@pytest.mark.parametrize("case", LOOKS)
def test_what_was_read_has_not_changed(one: Anabranch, two: Anabranch, case: str) -> None:
    look, other = LOOKS[case]
    with pytest.raises(PublishConflict), one.transaction(isolation="serializable"):
        look(one)
        two.sql(other)
        one.sql("UPDATE i.s SET v = 'one'")
    assert values(two, "i.s") == ["0"]


@pytest.mark.extended
@pytest.mark.parametrize("case", LOOKS)
def test_nobody_is_refused_because_of_what_did_not_change(
    one: Anabranch, two: Anabranch, case: str
) -> None:
    """Others may write what it did not look at; a list of columns looks at every table."""
    look, _ = LOOKS[case]
    with one.transaction(isolation="serializable"):
        look(one)
        if not case.startswith("columns"):
            two.append("i.y", pa.table({"v": ["a"]}))
        one.sql("UPDATE i.s SET v = 'one'")
    assert set(values(two, "i.s")) <= {"one"}


def test_who_writes_nothing_is_never_refused(one: Anabranch, two: Anabranch) -> None:
    with one.transaction(isolation="serializable"):
        for case in ("table", "view", "no table", "tables", "DESCRIBE", "held, a table"):
            LOOKS[case][0](one)
        two.sql(f"{CHANGED}; CREATE TABLE i.q (v STRING)")


# -- two transactions that each decide by what the other one makes --------------------------------


def both(one: Anabranch, two: Anabranch, first: tuple[Look, str], second: tuple[Look, str]) -> None:
    with one.transaction(isolation="serializable"):
        first[0](one)
        with two.transaction(isolation="serializable"):
            second[0](two)
            two.sql(second[1])
        one.sql(first[1])


SKEWS: dict[str, tuple[tuple[Look, str], tuple[Look, str]]] = {
    "absence": (
        (sql("SELECT * FROM i.q"), "CREATE TABLE i.p (v INT)"),
        (sql("SELECT * FROM i.p"), "CREATE TABLE i.q (v INT)"),
    ),
    "absence of views": (
        (sql("DESCRIBE i.q"), "CREATE VIEW i.p AS SELECT 1 AS v"),
        (sql("DESCRIBE i.p"), "CREATE VIEW i.q AS SELECT 1 AS v"),
    ),
    "a held cut": (
        (held(lambda w: w.table("i.r").collect()), "UPDATE i.s SET v = 'one'"),
        (held(lambda w: w.table("i.s").collect()), "UPDATE i.r SET v = 'two'"),
    ),
    "a list": (
        (lambda ab: ab.tables(), "CREATE TABLE i.p (v INT)"),
        (lambda ab: ab.tables(), "CREATE TABLE i.q (v INT)"),
    ),
}


@pytest.mark.parametrize("case", SKEWS)
def test_skew_is_refused(one: Anabranch, two: Anabranch, case: str) -> None:
    with pytest.raises(PublishConflict):
        both(one, two, *SKEWS[case])


# -- held cuts ------------------------------------------------------------------------------------


def test_a_cut_that_was_held_before(one: Anabranch, two: Anabranch) -> None:
    with (
        one.at() as world,
        pytest.raises(PublishConflict, match=r"i\.r was changed"),
        one.transaction(isolation="serializable"),
    ):
        assert world.table("i.r").collect() == [("0",)]
        two.sql(CHANGED)
        one.sql("UPDATE i.s SET v = 'one'")


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_a_held_cut_is_that_of_the_transaction(
    one: Anabranch, two: Anabranch, isolation: str
) -> None:
    with suppress(PublishConflict), one.transaction(isolation=isolation):
        one.sql("UPDATE i.s SET v = 'one'")
        two.sql(CHANGED)
        two.sql("CREATE OR REPLACE VIEW i.w AS SELECT 'x' AS v")
        with one.at() as world:
            assert [world.table(f"i.{name}").collect() for name in "rsw"] == [[("0",)]] * 3


def test_a_held_cut_of_an_empty_catalog(tmp_path: Path) -> None:
    with (
        installed(),
        connect(tmp_path / "home") as ab,
        ab.transaction(isolation="serializable"),
        ab.at() as world,
    ):
        assert world.names() == set()


def test_history_stays_what_it_is(one: Anabranch, two: Anabranch) -> None:
    """What had been overwritten before the transaction began is no part of what may change."""
    cut = one.cuts()[0]["cut_id"]
    one.sql("UPDATE i.r SET v = 'now'")
    with one.transaction(isolation="serializable"):
        with one.at(cut) as world:
            assert world.table("i.r").collect() == [("0",)]
        two.sql(CHANGED)
        one.sql("UPDATE i.s SET v = 'one'")
    with (
        pytest.raises(PublishConflict, match=r"i\.x was changed"),
        one.transaction(isolation="serializable"),
    ):
        with one.at(cut) as world:
            assert world.table("i.x").collect() == []  # as it still is
        two.sql("INSERT INTO i.x VALUES ('two')")
        one.sql("UPDATE i.s SET v = 'two'")


def test_no_cut_is_newer_than_the_transaction(one: Anabranch, two: Anabranch) -> None:
    with one.transaction(isolation="serializable"):
        two.sql(CHANGED)
        newest = two.cuts()[0]["cut_id"]
        with pytest.raises(Refused, match=f"cut {newest} is newer"), one.at(newest):
            pass
    with one.transaction(), one.at(newest) as world:
        assert world.table("i.r").collect() == [("two",)]


# -- names and appends ------------------------------------------------------------------------------


def test_a_name_that_is_looked_up_may_get_more_rows(one: Anabranch, two: Anabranch) -> None:
    """CREATE … IF NOT EXISTS and INSERT do not read the table: others may insert as well."""
    with one.transaction(isolation="serializable"):
        one.sql("CREATE TABLE IF NOT EXISTS i.x (v STRING)")
        one.sql("INSERT INTO i.x VALUES ('one')")
        two.sql("INSERT INTO i.x VALUES ('two')")
    assert sorted(values(two, "i.x")) == ["one", "two"]


def test_what_it_made_itself_it_may_look_up(one: Anabranch) -> None:
    with one.transaction(isolation="serializable"):
        one.sql("DROP TABLE IF EXISTS i.q")
        one.sql("CREATE TABLE i.q (v STRING); INSERT INTO i.q VALUES ('q'); DROP TABLE i.x")
        assert values(one, "i.q") == ["q"]
        one.sql("CREATE VIEW i.p AS SELECT * FROM i.q")
        assert values(one, "i.p") == ["q"]
        shown = {row["table"] for row in one.tables()}
        assert {"i.p", "i.q"} <= shown
        assert "i.x" not in shown
    assert values(one, "i.p") == ["q"]


# -- attached catalogs ------------------------------------------------------------------------------


def test_attached_catalogs_are_asked_once_more(one: Anabranch, tmp_path: Path) -> None:
    theirs = Theirs(tmp_path / "theirs")
    theirs.table()
    theirs.append("orders", (1, 10))
    one.attach("prod", "sql", **theirs.properties)
    assert one.table("prod.sales.orders").count() == 1
    with (
        pytest.raises(PublishConflict, match="orders was changed"),
        one.transaction(isolation="serializable"),
    ):
        assert one.table("prod.sales.orders").count() == 1
        theirs.append("orders", (2, 20))
        one.sql("UPDATE i.s SET v = 'one'")
    with one.transaction(isolation="serializable"):
        assert one.table("prod.sales.orders").count() == 2
        one.sql("UPDATE i.s SET v = 'one'")
    assert values(one, "i.s") == ["one"]


def test_a_foreign_table_that_is_not_there(one: Anabranch, tmp_path: Path) -> None:
    theirs = Theirs(tmp_path / "theirs")
    theirs.table()
    one.attach("prod", "sql", **theirs.properties)
    with (
        pytest.raises(PublishConflict, match="more was made"),
        one.transaction(isolation="serializable"),
    ):
        with suppress(AnabranchError):
            one.table("prod.sales.more")
        theirs.table("more")
        one.sql("UPDATE i.s SET v = 'one'")


# -- what cannot be compared --------------------------------------------------------------------------

COMPARED = {
    *("table", "query", "held", "tables", "columns"),  # see above
    *("settings", "change_setting", "grants"),  # nobody else changes what they show
    *("compile_project", "test_project"),  # files
}


@pytest.mark.parametrize(
    "verb",
    [each for each in VERBS if not each.changes and each.name not in COMPARED],
    ids=lambda each: each.name,
)
def test_what_looks_past_the_transaction_is_refused(one: Anabranch, verb: object) -> None:
    act = verb.act()  # type: ignore[attr-defined]
    given = () if verb.name != "backup" else ("/nowhere",)  # type: ignore[attr-defined]
    with (
        one.transaction(isolation="serializable"),
        pytest.raises(Refused, match="transaction"),
    ):
        act(one._session, *given)


@pytest.mark.parametrize("view", SYSTEM_VIEWS)
def test_views_of_the_catalog_are_refused(one: Anabranch, view: str) -> None:
    query = f"SELECT * FROM system.{view}"
    with one.transaction(isolation="serializable"), one.at() as world:
        for act in (one.sql, one.table, world.sql, world.table):
            with pytest.raises(Refused, match=f"system.{view} looks past"):
                act(query if act in (one.sql, world.sql) else f"system.{view}")
    with one.transaction():
        one.sql(query).collect()


# -- what commits by itself -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    ["ALTER REFRESH GROUP g SET SNAPSHOT TIMEOUT 5", "DROP REFRESH GROUP g", "CALL system.adopt()"],
)
def test_what_would_commit_by_itself_is_refused(one: Anabranch, statement: str) -> None:
    with (
        ExitStack() as stack,
        pytest.raises(Refused, match=r"inside a transaction"),
    ):
        stack.enter_context(one.transaction())
        one.sql(statement)
