"""One listing of groups: what it says is what the scheduler does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from anabranch import Anabranch
from anabranch.cli import main
from anabranch.errors import AlreadyExists, InvalidValue
from anabranch.names import TableName
from tests.e2e.graphs import failing, overdue, status
from tests.standin.engine import connect, installed

HOUR = "1h"
DIAMOND = {
    "s.b": "SELECT k, SUM(v) AS v FROM s.t GROUP BY k",
    "s.c": "SELECT k, COUNT(*) AS n FROM s.t GROUP BY k",
    "s.d": "SELECT b.k, v, n FROM s.b JOIN s.c ON b.k = c.k",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def ab(home: Path) -> Iterator[Anabranch]:
    with installed(), connect(home) as opened:
        for name in ("s.t", "s.u"):
            opened.sql(f"CREATE TABLE {name} (k BIGINT, v BIGINT)")
            opened.sql(f"INSERT INTO {name} VALUES (1, 1)")
        opened.create_stream_tables(DIAMOND, schedule=HOUR)
        opened.create_stream_table("s.e", "SELECT SUM(v) AS v FROM s.u", schedule=HOUR)
        opened.create_stream_table("s.f", "SELECT MAX(v) AS v FROM s.u", schedule=HOUR)
        opened.create_stream_table("s.g", "SELECT v FROM s.b", schedule=None)
        opened.create_refresh_group("night", ["s.e", "s.f"], isolation="read_committed")
        yield opened


def of(ab: Anabranch, member: str) -> dict[str, Any]:
    return next(row for row in ab.groups() if member in row["members"])


def test_kinds_reasons_and_what_is_in_force(ab: Anabranch) -> None:
    diamond, declared, single = of(ab, "s.d"), of(ab, "s.e"), of(ab, "s.g")
    assert (diamond["kind"], declared["kind"], single["kind"]) == ("diamond", "declared", "single")
    assert diamond["why"] == "s.t reaches s.d through s.b and through s.c"
    assert declared["why"] == "refresh group night declares s.e, s.f"
    assert single["why"] is None and single["next_due"] is None
    assert set(diamond["members"]) == set(DIAMOND)
    assert (diamond["isolation"], declared["isolation"]) == ("repeatable_read", "read_committed")
    assert diamond["epoch"] == 1 and diamond["cut_id"] is not None
    assert diamond["last_cut"] == ab.history("s.d", 1)[0]["cut_id"]
    assert diamond["next_due"] > status(ab, "s.d")["last_refresh_at"]
    assert [row["blocked_by"] for row in ab.groups()] == [None, None, None]
    assert [row["lag_seconds"] for row in ab.groups()] == [0.0, 0.0, 0.0]


def test_the_lag_of_the_data(ab: Anabranch) -> None:
    ab.sql("INSERT INTO s.t VALUES (2, 2)")
    assert of(ab, "s.d")["lag_seconds"] > 0 and of(ab, "s.e")["lag_seconds"] == 0
    ab.refresh()
    assert {row["lag_seconds"] for row in ab.groups()} == {0.0}


def test_the_lag_of_the_data_outlives_cuts_and_snapshots(ab: Anabranch) -> None:
    ab.sql("INSERT INTO s.t VALUES (2, 2)")
    lag = of(ab, "s.d")["lag_seconds"]
    ab.sql("CREATE TABLE s.later (k BIGINT)")
    ab.set("snapshot_retention", "0s")
    ab.maintain()
    stands = of(ab, "s.d")["cut_id"]
    assert stands is not None and stands not in [row["cut_id"] for row in ab.cuts()]
    assert of(ab, "s.d")["lag_seconds"] == lag > 0
    assert of(ab, "s.e")["lag_seconds"] == 0  # upkeep is no commit of rows
    ab.refresh()
    assert {row["lag_seconds"] for row in ab.groups()} == {0.0}
    ab.sql("INSERT INTO s.t VALUES (3, 3)")
    ab.maintain()
    assert of(ab, "s.d")["lag_seconds"] > 0


def test_a_member_held_back_by_a_sibling_says_so(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab.sql("INSERT INTO s.t VALUES (2, 2)")
    overdue(ab, *DIAMOND)
    with failing(monkeypatch, "s.c"):
        ab.tick()
    row = of(ab, "s.d")
    assert row["blocked_by"] == "s.c" and "s.c failed" in row["blocked_reason"]
    assert row["blocked_since"] is not None
    for name in ("s.b", "s.d"):
        shown = status(ab, name)
        assert shown["blocked_by"] == "s.c" and "s.c failed" in shown["blocked_reason"]
        assert shown["blocked_since"] == row["blocked_since"]
    assert status(ab, "s.c")["blocked_by"] is None and status(ab, "s.c")["status"] == "ERROR"
    assert status(ab, "s.e")["blocked_by"] is None


def test_a_table_held_back_by_what_it_reads_says_so(ab: Anabranch) -> None:
    ab.create_stream_table("s.over", "SELECT SUM(v) AS v FROM s.e", schedule=HOUR)
    ab.suspend("s.e")
    assert status(ab, "s.over")["blocked_by"] is None  # it stands where s.e stands
    ab.sql("INSERT INTO s.u VALUES (2, 2)")
    ab.table("s.u")
    assert status(ab, "s.over")["blocked_by"] == "s.e"
    (event,) = ab.events("s.e")
    assert event["kind"] == "SUSPENDED"
    assert status(ab, "s.over")["blocked_since"] == of(ab, "s.over")["blocked_since"] == event["at"]
    overdue(ab, "s.over")
    done = next(each for each in ab.tick() if each["members"] == ["s.over"])
    assert done["reason"] == status(ab, "s.over")["blocked_reason"]
    assert of(ab, "s.over")["blocked_since"] is not None
    ab.resume("s.e")
    assert status(ab, "s.over")["blocked_by"] is None


def test_a_table_held_back_by_a_lease_says_so(ab: Anabranch) -> None:
    ab.create_stream_table("s.h", "SELECT k, v FROM s.t", schedule=HOUR)
    ab.create_stream_table("s.over", "SELECT SUM(v) AS v FROM s.h", schedule=HOUR)
    ab.sql("INSERT INTO s.t VALUES (2, 2)")
    overdue(ab, "s.h", "s.over")
    with ab._runtime.leases.hold([TableName.parse("s.h")], 60, wait=False):
        assert of(ab, "s.over")["blocked_since"] is not None, "before any tick has tried"
        done = next(each for each in ab.tick() if each["members"] == ["s.over"])
        shown = status(ab, "s.over")
        assert (shown["blocked_by"], shown["blocked_reason"]) == ("s.h", done["reason"])
        assert of(ab, "s.over")["blocked_by"] == "s.h" and of(ab, "s.d")["blocked_by"] is None
    assert status(ab, "s.over")["blocked_by"] is None


def test_a_group_that_a_reader_brings_along_is_not_blocked(ab: Anabranch) -> None:
    policy = {"diamond_schedule_policy": "slowest", "schedule": HOUR}
    ab.create_stream_table("s.slow", "SELECT e.v FROM s.e CROSS JOIN s.u", **policy)
    ab.create_stream_table("s.fast", "SELECT v FROM s.slow", schedule=HOUR)
    ab.sql("INSERT INTO s.u VALUES (2, 2)")
    overdue(ab, "s.slow")
    assert of(ab, "s.slow")["blocked_by"] == "s.e"
    overdue(ab, "s.fast")
    assert of(ab, "s.slow")["blocked_by"] is None
    assert {each["outcome"] for each in ab.tick() if "s.slow" in each["members"]} == {"PUBLISHED"}


def test_boundaries_are_named(ab: Anabranch) -> None:
    ab.create_stream_table("s.reader", "SELECT v FROM s.g", schedule=HOUR)
    assert status(ab, "s.g")["boundary"] and not status(ab, "s.b")["boundary"]
    assert status(ab, "s.reader")["boundaries"] == ["s.g"]
    assert "boundary" in str(ab.explain("s.g"))
    assert "reads as sources, because they are refreshed by hand only: s.g" in str(
        ab.explain("s.reader")
    )


def test_the_lag_below_a_former_boundary(ab: Anabranch) -> None:
    """Once a table has a schedule, its readers stand on what it reads; before and after, on itself."""
    ab.create_stream_table("s.h", "SELECT v FROM s.g", schedule=None)
    ab.create_stream_table("s.reader", "SELECT v FROM s.h", schedule=HOUR)
    ab.sql("INSERT INTO s.t VALUES (2, 2)")
    ab.refresh("s.d")
    assert of(ab, "s.reader")["lag_seconds"] == 0 < of(ab, "s.g")["lag_seconds"]
    for name in ("s.h", "s.g"):
        ab.alter_stream_table(name, schedule=HOUR)
    lag = of(ab, "s.reader")["lag_seconds"]
    assert lag == of(ab, "s.h")["lag_seconds"] == of(ab, "s.g")["lag_seconds"] > 0
    ab.alter_stream_table("s.h", schedule=None)
    assert of(ab, "s.reader")["lag_seconds"] == 0 < of(ab, "s.h")["lag_seconds"]
    ab.alter_stream_table("s.h", schedule=HOUR)
    ab.refresh("s.reader")
    assert {row["lag_seconds"] for row in ab.groups()} == {0.0}


def test_the_setting_counts_where_a_table_says_nothing(ab: Anabranch) -> None:
    """What the listings show is what the scheduler does."""

    def policies() -> set[str]:
        return {row["schedule_policy"] for row in ab.diamond_groups() if row["member"] in DIAMOND}

    def outcome() -> str:
        ab.sql("INSERT INTO s.t VALUES (2, 2)")
        overdue(ab, *DIAMOND, hours=0)
        overdue(ab, "s.b")
        done = next(each for each in ab.tick() if "s.d" in each["members"])
        return str(done["outcome"])

    assert policies() == {"fastest"} and outcome() == "PUBLISHED"
    ab.set("diamond_schedule_policy", "slowest")
    assert policies() == {"slowest"} == {of(ab, "s.d")["policy"]}
    assert status(ab, "s.d")["diamond_schedule_policy"] == "slowest"
    assert outcome() == "SKIPPED"
    assert status(ab, "s.d")["blocked_reason"] == "not due: waits for s.c"
    ab.alter_stream_table("s.d", diamond_schedule_policy="fastest")
    assert policies() == {"fastest"} and outcome() == "PUBLISHED"
    ab.sql("ALTER STREAM TABLE s.d SET (diamond_schedule_policy = 'default')")
    assert policies() == {"slowest"} and outcome() == "SKIPPED"


def test_in_sql_and_on_the_command_line(ab: Anabranch, home: Path) -> None:
    found = ab.sql("SELECT group_id, kind FROM system.groups ORDER BY group_id").collect()
    assert [tuple(row) for row in found] == [
        ("s.b", "diamond"),
        ("s.e", "declared"),
        ("s.g", "single"),
    ]
    result = CliRunner().invoke(main.cli, ["--home", str(home), "groups", "--json"])
    assert result.exit_code == 0, result.output
    assert {row["group_id"] for row in json.loads(result.stdout)} == {"s.b", "s.e", "s.g"}


def test_names_of_groups_differ_by_more_than_case(ab: Anabranch) -> None:
    with pytest.raises(AlreadyExists, match="refresh group night already exists"):
        ab.sql("CREATE REFRESH GROUP NIGHT MEMBERS (s.b, s.g)")
    ab.sql("ALTER REFRESH GROUP Night SET SNAPSHOT TIMEOUT 50")
    assert ab.refresh_groups()[0]["snapshot_timeout_ms"] == 50
    ab.sql("DROP REFRESH GROUP NIGHT")
    assert ab.refresh_groups() == []


def test_who_joins_members_of_a_group_is_told_whichever_came_first(ab: Anabranch) -> None:
    joined = "SELECT {0}.v AS one, g.v AS other FROM s.{0} CROSS JOIN s.g"

    def told() -> list[tuple[str, str]]:
        found = [each for each in ab.events() if each["kind"] == "LEFT_OUT"]
        return [(each["table"], each["message"].split(";")[0]) for each in reversed(found)]

    ab.create_stream_table("s.j", joined.format("e"), schedule=HOUR)
    ab.create_stream_table("s.over", "SELECT one FROM s.j", schedule=HOUR)
    assert told() == []
    ab.alter_refresh_group("night", add=["s.g"])
    said = "stream table s.j joins s.e and s.g of refresh group night but is not in it"
    assert told() == [("s.j", said)]
    ab.alter_refresh_group("night", snapshot_timeout_ms=5)
    assert len(told()) == 1  # of nothing new
    ab.drop_refresh_group("night")
    ab.create_refresh_group("day", ["s.g", "s.e"])
    assert told()[1:] == [("s.j", said.replace("night", "day"))]
    ab.alter_refresh_group("day", add=["s.j"])
    ab.create_stream_table("s.k", joined.format("e"), schedule=HOUR)
    assert [table for table, _ in told()[2:]] == ["s.k"]
    ab.create_refresh_group("both", ["s.b", "s.c"])  # s.d moves with them, for it is their diamond
    again = DIAMOND["s.d"].replace("n FROM", "n AS m FROM")
    ab.create_stream_table("s.d2", again, schedule=HOUR)
    assert [table for table, _ in told()[3:]] == []


def test_what_cannot_be_a_member_or_a_time_out(ab: Anabranch) -> None:
    ab.sql("CREATE VIEW s.w AS SELECT k FROM s.t")
    for member, what in (("S.T", "s.t is a source table"), ("s.w", "s.w is a view")):
        with pytest.raises(InvalidValue, match=f"{what}, and a refresh group holds stream tables"):
            ab.sql(f"CREATE REFRESH GROUP other MEMBERS (s.g, {member})")
    with pytest.raises(InvalidValue, match="snapshot_timeout_ms -1 is negative"):
        ab.sql("ALTER REFRESH GROUP night SET SNAPSHOT TIMEOUT -1")
