"""Who is put out comes back as a whole; groups change at once; events tell of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import Anabranch
from anabranch.errors import AnabranchError, InvalidValue, NotConverged, Refused, UnknownName
from tests.e2e.graphs import failing, no_waiting, overdue, status, wait_is_over
from tests.standin.engine import connect, installed

HOUR = "1h"
DIAMOND = {
    "s.b": "SELECT k, SUM(v) AS v FROM s.t GROUP BY k",
    "s.c": "SELECT k, COUNT(*) AS n FROM s.t GROUP BY k",
    "s.d": "SELECT b.k, v, n FROM s.b JOIN s.c ON b.k = c.k",
}


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        opened.sql("INSERT INTO s.t VALUES (1, 1)")
        opened.create_stream_tables(DIAMOND, schedule=HOUR)
        for name in "efg":
            opened.create_stream_table(f"s.{name}", "SELECT SUM(v) AS v FROM s.t", schedule=HOUR)
        yield opened


def kinds(ab: Anabranch, name: str) -> list[str]:
    return [each["kind"] for each in ab.events(name) if each["kind"] in ("SUSPENDED", "RESUMED")]


# -- resume ----------------------------------------------------------------------------------------


def test_resume_of_one_member_takes_the_group_in(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab.set("max_consecutive_errors", 2)
    for broken in ("s.b", "s.c"):  # one after the other is given up
        ab.sql("INSERT INTO s.t VALUES (2, 2)")
        with failing(monkeypatch, broken), pytest.MonkeyPatch.context() as patch:
            no_waiting(patch)
            for _ in range(2):
                overdue(ab, *DIAMOND)
                wait_is_over(ab, *DIAMOND)
                ab.tick()
        if broken == "s.b":
            assert status(ab, "s.b")["status"] == "SUSPENDED"
            with ab._store.writing() as c:
                c.exec_driver_sql(
                    "UPDATE ab_stream_tables SET status = 'ACTIVE' WHERE name = 's.b'"
                )
    with ab._store.writing() as c:
        c.exec_driver_sql("UPDATE ab_stream_tables SET status = 'SUSPENDED' WHERE name = 's.b'")
    assert {status(ab, name)["status"] for name in ("s.b", "s.c")} == {"SUSPENDED"}
    ab.resume("s.d")  # not even one of those that failed
    assert {status(ab, name)["status"] for name in DIAMOND} == {"ACTIVE"}
    assert {status(ab, name)["consecutive_errors"] for name in DIAMOND} == {0}
    assert kinds(ab, "s.b")[0] == kinds(ab, "s.c")[0] == "RESUMED" and kinds(ab, "s.d") == []
    overdue(ab, *DIAMOND)
    assert {each["outcome"] for each in ab.tick() if "s.d" in each["members"]} == {"PUBLISHED"}


def test_suspended_by_hand(ab: Anabranch) -> None:
    ab.suspend("s.b")
    ab.sql("ALTER STREAM TABLE s.c SUSPEND")
    assert kinds(ab, "s.b") == kinds(ab, "s.c") == ["SUSPENDED"]
    ab.sql("ALTER STREAM TABLE s.b RESUME")
    assert {status(ab, name)["status"] for name in DIAMOND} == {"ACTIVE"}
    assert kinds(ab, "s.c") == ["RESUMED", "SUSPENDED"]
    ab.suspend("s.e")  # another group
    ab.resume("s.d")
    assert status(ab, "s.e")["status"] == "SUSPENDED"


@pytest.mark.parametrize("verb", ["ALTER", "CREATE OR REPLACE"])
def test_a_suspended_reader_stays_where_it_is(ab: Anabranch, verb: str) -> None:
    ab.create_stream_table("s.x", "SELECT SUM(v) AS v FROM s.t", schedule=HOUR)
    ab.create_stream_table("s.y", "SELECT v FROM s.x", schedule=HOUR)
    ab.create_stream_table("s.z", "SELECT v FROM s.y", schedule=HOUR)
    ab.suspend("s.y")
    ab.sql("INSERT INTO s.t VALUES (1, 10)")
    ab.sql(f"{verb} STREAM TABLE s.x AS SELECT 2 * SUM(v) AS v FROM s.t")
    rows = {name: ab.table(f"s.{name}").collect() for name in "xyz"}
    assert rows == {"x": [(22,)], "y": [(1,)], "z": [(1,)]}
    ab.resume("s.y")
    ab.refresh("s.z")
    assert ab.table("s.z").collect() == [(22,)]
    assert all(ab.verify(f"s.{name}")["equal"] for name in "xyz")


def test_a_suspended_member_is_in_the_way_of_its_group(ab: Anabranch) -> None:
    """Others that move would meet the old query through it and the new one directly."""
    ab.suspend("s.c")
    ab.sql("INSERT INTO s.t VALUES (1, 10)")
    with pytest.raises(Refused, match=r"s\.c is suspended") as raised:
        ab.sql("ALTER STREAM TABLE s.b AS SELECT k, 2 * SUM(v) AS v FROM s.t GROUP BY k")
    assert raised.value.hint == "ALTER STREAM TABLE s.c RESUME"


def test_what_is_said_of_a_cycle_that_was_not_created_can_be_done(ab: Anabranch) -> None:
    ab.set("allow_circular", True)
    ab.set("max_fixpoint_iterations", 3)
    one = "SELECT k FROM s.t UNION SELECT k + 1 AS k FROM s.two WHERE k < 6"
    queries = {"s.one": one, "s.two": "SELECT k FROM s.one"}
    with pytest.raises(NotConverged, match="nothing was created") as raised:
        ab.create_stream_tables(queries)
    assert "ALTER" not in (raised.value.hint or "")
    assert "WITH (max_fixpoint_iterations = …)" in (raised.value.hint or "")
    assert " 0 row" not in raised.value.message
    ab.create_stream_tables(queries, max_fixpoint_iterations=30)
    assert len(ab.table("s.two").collect()) == 6


# -- ALTER REFRESH GROUP ---------------------------------------------------------------------------


def group(ab: Anabranch) -> tuple[object, ...]:
    (row,) = [row for row in ab.refresh_groups() if row["group_name"] == "pair"]
    return row["members"], row["isolation"], row["snapshot_timeout_ms"]


def test_everything_at_once_or_nothing(ab: Anabranch) -> None:
    ab.create_refresh_group("pair", ["s.e", "s.f"])
    ab.sql(
        "ALTER REFRESH GROUP pair ADD s.g DROP (s.e) SET ISOLATION READ COMMITTED "
        "SET SNAPSHOT TIMEOUT 500"
    )
    assert group(ab) == (["s.f", "s.g"], "read_committed", 500)
    assert [row["members"] for row in ab.groups() if "s.g" in row["members"]] == [["s.f", "s.g"]]
    ab.alter_refresh_group("pair", add="s.e", snapshot_timeout_ms=0)
    assert group(ab) == (["s.f", "s.g", "s.e"], "read_committed", 0)
    ab.alter_refresh_group("pair", isolation="repeatable_read")
    before = group(ab)
    ab.create_refresh_group("other", ["s.b", "s.c"])
    wrong: list[tuple[type[AnabranchError], dict[str, object]]] = [
        (InvalidValue, {}),
        (UnknownName, {"add": ["s.nowhere"], "drop": ["s.e"]}),
        (UnknownName, {"drop": ["s.d"], "isolation": "read_committed"}),
        (InvalidValue, {"drop": ["s.e", "s.f"]}),
        (InvalidValue, {"add": ["s.e"], "drop": ["s.e"]}),
        (InvalidValue, {"drop": ["s.e"], "isolation": "serial"}),
        (InvalidValue, {"drop": ["s.e"], "snapshot_timeout_ms": -1}),
        (Refused, {"add": ["s.b"], "drop": ["s.e"]}),  # a member of the other
    ]
    for error, changes in wrong:
        with pytest.raises(error):
            ab.alter_refresh_group("pair", **changes)  # type: ignore[arg-type]
        assert group(ab) == before, changes
    with pytest.raises(UnknownName, match="there is no refresh group"):
        ab.alter_refresh_group("par", add=["s.e"])
    ab.sql("INSERT INTO s.t VALUES (3, 3)")
    (cut,) = {line["cut_id"] for line in ab.refresh("s.e") if line["table"] in before[0]}  # type: ignore[operator]
    assert cut is not None
