"""A stream table stands at one cut: it equals its query over all its sources at that cut."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from anabranch import Anabranch
from anabranch.catalog import streams
from anabranch.errors import Refused, UserError
from anabranch.names import TableName
from anabranch.refresh import isolation
from tests.e2e.graphs import failing, last, overdue, status, wait_is_over
from tests.standin.engine import connect, installed
from tests.standin.foreign import append

HOUR = "1h"
TOTAL = "SELECT x.v + y.v AS v, x.v AS part FROM s.s1 x CROSS JOIN s.s2 y"
OVER = "SELECT t.v + a.v AS v FROM s.total t CROSS JOIN s.a3 a"
CHAIN = ["s.s1", "s.s2", "s.total"]


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        for name in ("s.a1", "s.a2", "s.a3"):
            opened.sql(f"CREATE TABLE {name} (k BIGINT, v BIGINT)")
            opened.sql(f"INSERT INTO {name} VALUES (1, 50)")
        yield opened


def bank(ab: Anabranch, **total: Any) -> None:
    """Two sums, and a total over both that is 100 in every cut."""
    ab.create_stream_table("s.s1", "SELECT SUM(v) AS v FROM s.a1", schedule=HOUR)
    ab.create_stream_table("s.s2", "SELECT SUM(v) AS v FROM s.a2", schedule=HOUR)
    ab.create_stream_table("s.total", TOTAL, **{"schedule": HOUR, **total})


def move(ab: Anabranch, amount: int = 10) -> None:
    with ab.transaction():
        ab.sql(f"INSERT INTO s.a1 VALUES (2, {-amount})")
        ab.sql(f"INSERT INTO s.a2 VALUES (2, {amount})")


def newest(ab: Anabranch) -> int:
    return int(ab.cuts(1)[0]["cut_id"])


def value(ab: Anabranch, name: str) -> int:
    (row,) = ab.table(name).collect()
    return int(row[0])


def outcomes(ab: Anabranch) -> dict[str, tuple[str, str | None]]:
    return {each["members"][0]: (each["outcome"], each["reason"]) for each in ab.tick()}


def check_law(ab: Anabranch, *names: str) -> None:
    """Each equals its query over its sources as its cut shows them, and that is recorded everywhere."""
    for name in names:
        shown = status(ab, name)
        found = ab.verify(name)
        assert found["equal"], (name, found)
        assert shown["cut_id"] is not None and shown["mixed_cuts"] == [], (name, shown)
        assert found["cut_id"] == shown["cut_id"]
        with ab.at(shown["cut_id"]) as world:
            for source, snapshot in shown["frontier"].items():
                assert world.version(TableName.parse(source)).snapshot_id == snapshot


@contextmanager
def meanwhile(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch, table: str, act: Any, on: str
) -> Iterator[None]:
    """Something happens once, when the refresh of a table begins or ends."""
    left = [act]

    def progress(event: str, facts: Any) -> None:
        if event == on and facts.get("table") == table and left:
            left.pop()()

    with monkeypatch.context() as patch:
        patch.setattr(ab._runtime, "progress", progress)
        yield


# -- the story ---------------------------------------------------------------------------------


def test_half_of_a_transaction_is_never_seen(ab: Anabranch) -> None:
    """s2 was refreshed by hand and is not due; the others are."""
    bank(ab)
    overdue(ab, *CHAIN)
    ab.refresh("s.s2")
    move(ab)
    watermark = newest(ab)
    done = {each["members"][0]: each["outcome"] for each in ab.tick()}
    assert done == dict.fromkeys(CHAIN, "PUBLISHED")
    assert value(ab, "s.total") == 100
    assert {status(ab, name)["cut_id"] for name in CHAIN} == {watermark}
    assert {last(ab, name)["stands_at"] for name in CHAIN} == {watermark}
    version = ab._runtime.world().version(TableName.parse("s.total"))
    assert version.metadata.current_snapshot().summary["anabranch.cut"] == str(watermark)
    check_law(ab, *CHAIN)


def test_every_cut_shows_a_whole_total(ab: Anabranch) -> None:
    bank(ab)
    first = newest(ab)
    for at, name in enumerate(["s.s1", "s.s2", "s.total", "s.s1"]):
        move(ab, at + 1)
        overdue(ab, name)
        ab.tick()
    for cut in range(first, newest(ab) + 1):
        with ab.at(cut) as world:
            assert [row[0] for row in world.table("s.total").collect()] == [100]
    check_law(ab, *CHAIN)


def test_a_table_without_changes_only_notes_the_cut(ab: Anabranch) -> None:
    bank(ab)
    overdue(ab, "s.s1", "s.total")
    before = status(ab, "s.s2")
    ab.sql("INSERT INTO s.a1 VALUES (3, 1)")
    watermark = newest(ab)
    lines = len(ab.history("s.s2"))
    ab.tick()
    after = status(ab, "s.s2")
    assert before["cut_id"] < watermark == after["cut_id"]
    assert after["last_refresh_at"] == before["last_refresh_at"]
    assert len(ab.history("s.s2")) == lines and value(ab, "s.total") == 101
    check_law(ab, *CHAIN)


def test_an_idle_tick_notes_the_cut_once(ab: Anabranch) -> None:
    bank(ab)
    ab.sql("CREATE TABLE s.other (k BIGINT)")
    overdue(ab, *CHAIN)
    ab.tick()
    assert {status(ab, name)["cut_id"] for name in CHAIN} == {newest(ab)}
    assert {last(ab, name)["stands_at"] for name in CHAIN} == {newest(ab)}
    check_law(ab, *CHAIN)


# -- drifting schedules ------------------------------------------------------------------------


def test_a_chain_is_brought_along_as_far_as_it_goes(ab: Anabranch) -> None:
    bank(ab)
    ab.create_stream_table("s.twice", "SELECT 2 * v AS v FROM s.total", schedule=HOUR)
    ab.create_stream_table("s.beside", "SELECT v FROM s.s1", schedule=HOUR)
    move(ab)
    watermark, aside = newest(ab), status(ab, "s.beside")
    overdue(ab, "s.twice")
    done = outcomes(ab)
    assert {name for name, each in done.items() if each[0] == "PUBLISHED"} == set(CHAIN)
    assert done["s.twice"][0] == "NO_DATA" and done["s.beside"] == ("SKIPPED", "not due")
    assert {status(ab, name)["cut_id"] for name in (*CHAIN, "s.twice")} == {watermark}
    assert status(ab, "s.beside")["cut_id"] == aside["cut_id"]
    check_law(ab, *CHAIN, "s.twice", "s.beside")


def test_groups_are_pulled_whole(ab: Anabranch) -> None:
    """The upstream is a diamond: all of it comes along, in one publish."""
    ab.create_stream_tables(
        {
            "s.b": "SELECT k, SUM(v) AS v FROM s.a1 GROUP BY k",
            "s.c": "SELECT k, COUNT(*) AS n FROM s.a1 GROUP BY k",
            "s.d": "SELECT b.k, v, n FROM s.b JOIN s.c ON b.k = c.k",
            "s.top": "SELECT SUM(v) AS v FROM s.b",
        },
        schedule=HOUR,
    )
    ab.sql("INSERT INTO s.a1 VALUES (1, 5)")
    overdue(ab, "s.top")
    ab.tick()
    assert set(ab.cuts(2)[1]["tables"]) == {"s.b", "s.c", "s.d"}
    assert value(ab, "s.top") == 55
    check_law(ab, "s.b", "s.c", "s.d", "s.top")


def test_slowest_waits_until_what_it_reads_is_due(ab: Anabranch) -> None:
    bank(ab, diamond_schedule_policy="slowest")
    overdue(ab, "s.s1", "s.total")
    ab.sql("INSERT INTO s.a1 VALUES (2, 10)")
    assert outcomes(ab)["s.total"][0] == "PUBLISHED"  # s2 has nothing to do and does not block
    move(ab)
    overdue(ab, "s.s1", "s.total")
    done = outcomes(ab)
    assert done["s.s1"][0] == "PUBLISHED" and done["s.s2"] == ("SKIPPED", "not due")
    assert done["s.total"] == ("SKIPPED", "not due: waits for s.s2")
    assert value(ab, "s.total") == 110
    overdue(ab, "s.s2")
    done = outcomes(ab)
    assert (done["s.s2"][0], done["s.total"][0]) == ("PUBLISHED", "PUBLISHED")
    assert value(ab, "s.total") == 110
    check_law(ab, *CHAIN)


# -- somebody cannot get there -----------------------------------------------------------------


def test_a_suspended_upstream_is_waited_for_by_name(ab: Anabranch) -> None:
    bank(ab)
    ab.suspend("s.s2")
    overdue(ab, *CHAIN)
    done = outcomes(ab)
    assert done["s.total"][0] == "NO_DATA"  # it stands at the cut although s2 is suspended
    move(ab)
    for _ in range(3):
        overdue(ab, *CHAIN)
        done = outcomes(ab)
        assert done["s.total"] == ("SKIPPED", "waits for s.s2: s.s2 is suspended")
    assert value(ab, "s.total") == 100
    told = [each for each in ab.events("s.total") if each["kind"] == "WAITING"]
    assert len(told) == 1 and "s.s2" in told[0]["message"]
    skipped = [each for each in ab.history("s.total") if each["action"] == "SKIP"]
    assert [each["reason"] for each in skipped] == ["waits for s.s2: s.s2 is suspended"]
    ab.resume("s.s2")
    overdue(ab, *CHAIN)
    assert outcomes(ab)["s.total"][0] == "PUBLISHED" and value(ab, "s.total") == 100
    check_law(ab, *CHAIN)


def test_a_failing_upstream_is_waited_for_by_name(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank(ab)
    ab.create_stream_table("s.twice", "SELECT 2 * v AS v FROM s.total", schedule=HOUR)
    move(ab)
    overdue(ab, *CHAIN, "s.twice")
    with failing(monkeypatch, "s.s2"):
        done = outcomes(ab)
        assert (done["s.s1"][0], done["s.s2"][0]) == ("PUBLISHED", "FAILED")
        for reader in ("s.total", "s.twice"):
            assert done[reader][0] == "SKIPPED"
            assert (done[reader][1] or "").startswith("waits for s.s2: s.s2: the disk is gone")
        overdue(ab, *CHAIN, "s.twice")
        assert (outcomes(ab)["s.total"][1] or "").startswith("waits for s.s2: s.s2 failed and is")
    assert value(ab, "s.total") == 100
    assert len([each for each in ab.events("s.total") if each["kind"] == "WAITING"]) == 1
    wait_is_over(ab, "s.s2")
    overdue(ab, *CHAIN, "s.twice")
    ab.tick()
    assert value(ab, "s.total") == 100
    check_law(ab, *CHAIN, "s.twice")


def test_an_upstream_in_other_hands_is_waited_for(ab: Anabranch) -> None:
    bank(ab)
    move(ab)
    overdue(ab, *CHAIN)
    with ab._runtime.leases.hold([TableName.parse("s.s2")], 60, wait=False):
        done = outcomes(ab)
    assert done["s.s2"][0] == "SKIPPED" and "another process" in (done["s.s2"][1] or "")
    assert (done["s.total"][1] or "").startswith("waits for s.s2: s.s2 is being refreshed")
    assert value(ab, "s.total") == 100
    overdue(ab, *CHAIN)
    ab.tick()
    check_law(ab, *CHAIN)


@pytest.mark.parametrize("on", ["refresh_started", "refresh_finished"])
@pytest.mark.parametrize("table", CHAIN)
def test_another_process_publishes_an_upstream_in_between(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, table: str, on: str
) -> None:
    """A reader never combines an upstream of a newer cut with its other inputs."""
    bank(ab)
    move(ab)
    overdue(ab, *CHAIN)
    with connect(tmp_path / "home") as other:

        def act() -> None:
            move(other, 7)
            for each in CHAIN[:2]:
                if each != table:
                    other.refresh(each)

        with meanwhile(ab, monkeypatch, table, act, on):
            ab.tick()
        assert value(ab, "s.total") == 100
        check_law(ab, *CHAIN)
        overdue(ab, *CHAIN)
        ab.tick()
    assert value(ab, "s.total") == 100
    check_law(ab, *CHAIN)


def test_a_refresh_by_hand_that_fails_in_part_leaves_readers_where_they_are(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank(ab)
    move(ab)
    with failing(monkeypatch, "s.s2"), pytest.raises(Exception, match="the disk is gone"):
        ab.refresh()
    assert value(ab, "s.s1") == 40 and value(ab, "s.total") == 100
    line = last(ab, "s.total")
    assert line["action"] == "SKIP" and line["reason"].startswith("waits for s.s2")
    ab.refresh()
    check_law(ab, *CHAIN)


# -- without a watermark, new tables, other ways -----------------------------------------------


def test_without_a_watermark_each_table_still_stands_at_one_cut(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank(ab)
    ab.set("tick_watermark_enabled", False)
    move(ab)
    overdue(ab, *CHAIN)
    with meanwhile(ab, monkeypatch, "s.s1", lambda: move(ab, 7), "refresh_finished"):
        ab.tick()
    assert value(ab, "s.total") == 100 and value(ab, "s.s2") == 67
    assert last(ab, "s.s2")["tick_watermark"] is None
    check_law(ab, *CHAIN)


def test_a_new_table_stands_at_one_cut(ab: Anabranch) -> None:
    bank(ab)
    move(ab)
    ab.refresh("s.s1")
    move(ab)
    ab.create_stream_table("s.again", TOTAL, schedule=HOUR)
    assert value(ab, "s.again") == 100
    check_law(ab, "s.again", "s.s1", "s.s2")
    move(ab)
    ab.refresh("s.s2")
    ab.alter_stream_table("s.again", query=TOTAL.replace("+", "- 0 +"))
    assert value(ab, "s.again") == 100
    check_law(ab, "s.again", "s.s1", "s.s2")


def test_a_query_of_the_current_time_is_not_waited_for(ab: Anabranch) -> None:
    """It is stale whenever it is due, and stands at its cut all the same."""
    ab.create_stream_table(
        "s.today", "SELECT current_date() AS d, SUM(v) AS v FROM s.a1", schedule=HOUR
    )
    ab.create_stream_table("s.reader", "SELECT v FROM s.today", schedule=HOUR)
    lines = len(ab.history("s.today"))
    overdue(ab, "s.reader")
    assert outcomes(ab)["s.reader"][0] == "NO_DATA"
    assert len(ab.history("s.today")) == lines
    ab.sql("INSERT INTO s.a1 VALUES (9, 9)")
    overdue(ab, "s.reader")
    assert outcomes(ab)["s.reader"][0] == "PUBLISHED" and value(ab, "s.reader") == 59


# -- boundaries --------------------------------------------------------------------------------


def test_a_table_without_a_schedule_is_a_source_for_its_readers(ab: Anabranch) -> None:
    bank(ab, schedule=None)
    ab.create_stream_table("s.over", OVER, schedule=HOUR)
    ab.sql("INSERT INTO s.a2 VALUES (5, 5)")
    ab.sql("UPDATE s.a3 SET v = 40")
    overdue(ab, "s.over")
    done = outcomes(ab)
    assert done["s.total"] == ("SKIPPED", "refreshed by hand only")
    assert done["s.over"][0] == "PUBLISHED" and value(ab, "s.over") == 140
    assert set(status(ab, "s.over")["frontier"]) == {"s.total", "s.a3"}
    check_law(ab, "s.over")
    ab.refresh("s.total")
    overdue(ab, "s.over")
    ab.tick()
    assert set(status(ab, "s.over")["frontier"]) == {"s.total", "s.a3"}
    assert value(ab, "s.over") == 145
    check_law(ab, "s.over", "s.total", "s.s1", "s.s2")


def test_a_boundary_refreshed_together_with_its_reader(ab: Anabranch) -> None:
    """Everything stands at the same cut, down to the sources below the boundary."""
    bank(ab, schedule=None)
    ab.create_stream_table("s.over", OVER, schedule=HOUR)
    ab.sql("INSERT INTO s.a2 VALUES (5, 5)")
    cut = newest(ab)
    ab.refresh("s.over")
    assert value(ab, "s.over") == 155
    assert {status(ab, name)["cut_id"] for name in (*CHAIN, "s.over")} == {cut}
    check_law(ab, *CHAIN, "s.over")
    ab.sql("INSERT INTO s.a2 VALUES (6, 6)")  # the boundary falls behind, its reader does not
    overdue(ab, "s.over")
    assert outcomes(ab)["s.over"][0] == "NO_DATA"
    shown = status(ab, "s.over")
    assert shown["cut_id"] == newest(ab) and set(shown["frontier"]) == {"s.total", "s.a3"}
    check_law(ab, "s.over")


def test_a_boundary_refreshed_before_its_reader(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that fails makes a refresh of all try groups one by one: they stand at one cut as well,
    which does not show the boundary as its reader has read it."""
    bank(ab, schedule=None)
    ab.create_stream_table("s.over", OVER, schedule=HOUR)
    ab.create_stream_table("s.last", "SELECT v FROM s.over", schedule=HOUR)
    ab.sql("INSERT INTO s.a2 VALUES (5, 5)")
    cut = newest(ab)
    with failing(monkeypatch, "s.last"), pytest.raises(Exception, match="the disk is gone"):
        ab.refresh()
    assert value(ab, "s.over") == 155
    assert {status(ab, name)["cut_id"] for name in (*CHAIN, "s.over")} == {cut}
    assert set(status(ab, "s.over")["frontier"]) == {"s.a1", "s.a2", "s.a3"}
    check_law(ab, *CHAIN, "s.over")


def test_a_boundary_that_was_never_filled_is_no_empty_source(ab: Anabranch) -> None:
    ab.create_stream_table("s.b", "SELECT v FROM s.a1", schedule=None, initialize=False)
    count = "SELECT COUNT(*) AS v FROM s.b"
    ab.create_stream_table("s.n", count, schedule=HOUR, initialize=False)
    out = {"diamond_consistency": "none", "initialize": False}
    ab.create_stream_table("s.out", count, schedule=HOUR, **out)
    ab.create_stream_table("s.over", "SELECT v FROM s.n", schedule=HOUR, initialize=False)
    said = ("SKIPPED", "waits for s.b: it has not been filled yet")
    done = outcomes(ab)
    assert {name: done[name] for name in ("s.n", "s.out", "s.over")} == dict.fromkeys(
        ("s.n", "s.out", "s.over"), said
    )
    assert status(ab, "s.over")["blocked_by"] == "s.b" and not status(ab, "s.n")["populated"]
    ab.refresh("s.n")
    assert value(ab, "s.n") == 1
    check_law(ab, "s.b", "s.n")


def test_creating_and_altering_a_reader_leaves_a_boundary_alone(ab: Anabranch) -> None:
    ab.create_stream_table("s.b", "SELECT v FROM s.a1", schedule=None)
    ab.create_stream_table("s.below", "SELECT v FROM s.b", schedule=None)
    ab.sql("INSERT INTO s.a1 VALUES (8, 8)")
    before = {name: status(ab, name)["last_refresh_at"] for name in ("s.b", "s.below")}
    count = "SELECT COUNT(*) AS v FROM s.b"
    ab.create_stream_table("s.n", count, schedule=HOUR)
    ab.create_stream_table("s.by_hand", "SELECT COUNT(*) AS v FROM s.below", schedule=None)
    assert value(ab, "s.n") == value(ab, "s.by_hand") == 1
    ab.sql("ALTER STREAM TABLE s.n AS SELECT COUNT(*) + 10 AS v FROM s.b")
    assert value(ab, "s.n") == 11 and set(status(ab, "s.n")["frontier"]) == {"s.b"}
    assert {name: status(ab, name)["last_refresh_at"] for name in before} == before
    check_law(ab, "s.b", "s.n")
    ab.refresh("s.n")  # which brings along all it reads
    assert value(ab, "s.n") == 12
    check_law(ab, "s.b", "s.n")


def test_a_reader_of_an_unfilled_boundary_is_created_and_waits(ab: Anabranch) -> None:
    ab.create_stream_table("s.b", "SELECT v FROM s.a1", schedule=None, initialize=False)
    batch = {
        "s.n": "SELECT COUNT(*) AS v FROM s.b",
        "s.over": "SELECT v FROM s.n",
        "s.apart": "SELECT COUNT(*) AS v FROM s.a1",
    }
    ab.create_stream_tables(batch, schedule=HOUR)
    assert value(ab, "s.apart") == 1
    for name in ("s.n", "s.over"):
        line = ab.history(name)[0]
        assert line["status"] == "SKIPPED" and line["initiated_by"] == "create"
        assert line["reason"] == "waits for s.b: it has not been filled yet"
        assert not status(ab, name)["populated"] and status(ab, name)["blocked_by"] == "s.b"
    assert not status(ab, "s.b")["populated"]
    with pytest.raises(Refused, match=r"s.apart waits for s.b: it has not been filled yet"):
        ab.sql("ALTER STREAM TABLE s.apart AS SELECT COUNT(*) AS v FROM s.b")
    assert "s.a1" in status(ab, "s.apart")["query"]
    ab.refresh("s.b")
    ab.tick()
    assert value(ab, "s.over") == value(ab, "s.n") == 1
    check_law(ab, "s.b", "s.n", "s.over")


def test_create_or_replace_fills_a_table_that_was_not_filled(ab: Anabranch) -> None:
    one, two = "SELECT COUNT(*) AS v FROM s.a1", "SELECT COUNT(*) + 1 AS v FROM s.a1"
    for at, again in enumerate((one, two)):
        name = f"s.n{at}"
        ab.create_stream_table(name, one, initialize=False)
        ab.create_stream_table(name, again, or_replace=True, initialize=False)
        assert not status(ab, name)["populated"]
        ab.sql(f"ALTER STREAM TABLE {name} AS {again}")
        assert not status(ab, name)["populated"]
        ab.sql(f"CREATE OR REPLACE STREAM TABLE {name} AS {again}")
        assert status(ab, name)["populated"] and value(ab, name) == 1 + at
        check_law(ab, name)


def test_a_boundary_that_another_program_wrote_to_is_not_passed_on(ab: Anabranch) -> None:
    ab.create_stream_table("s.b", "SELECT k, v FROM s.a1", schedule=None)
    ab.create_stream_table("s.n", "SELECT COUNT(*) AS v FROM s.b", schedule=HOUR)
    append(ab, "s.b", (9, 9))
    overdue(ab, "s.n")
    cure = "REFRESH STREAM TABLE s.b rebuilds it"
    said = f"waits for s.b: another program wrote to it; {cure}"
    assert outcomes(ab)["s.n"] == ("SKIPPED", said) and value(ab, "s.n") == 1
    (event,) = [each for each in ab.events() if each["kind"] == "FOREIGN_WRITE"]
    assert event["message"].endswith(cure)
    ab.suspend("s.b")
    assert [line["status"] for line in ab.refresh()] == ["SKIPPED"] and value(ab, "s.n") == 1
    ab.resume("s.b")
    ab.refresh("s.b")
    assert outcomes(ab)["s.n"][0] in ("PUBLISHED", "NO_DATA") and value(ab, "s.n") == 1
    check_law(ab, "s.b", "s.n")


def test_a_suspended_table_that_need_not_move_is_in_nobodys_way(ab: Anabranch) -> None:
    bank(ab)
    ab.suspend("s.s2")
    ab.sql("INSERT INTO s.a1 VALUES (2, 1)")
    ab.refresh("s.total")
    assert value(ab, "s.total") == 101 and status(ab, "s.s2")["status"] == "SUSPENDED"
    ab.alter_stream_table("s.s1", query="SELECT SUM(v) + 1 AS v FROM s.a1")
    assert value(ab, "s.total") == 102 and status(ab, "s.s2")["status"] == "SUSPENDED"
    check_law(ab, *CHAIN)
    ab.sql("INSERT INTO s.a2 VALUES (2, 1)")
    for act in (
        lambda: ab.refresh("s.total"),
        lambda: ab.refresh("s.s2"),
        lambda: ab.alter_stream_table("s.s1", query="SELECT SUM(v) AS v FROM s.a1"),
    ):
        with pytest.raises(Refused, match=r"s\.s2 is suspended"):
            act()


# Who is suspended, what is written, and the table that waits for it, if any does.
SUSPENDED = {
    "above, up to date": (["s.s2"], "s.a1", None),
    "above, behind": (["s.s2"], "s.a2", "s.s2"),
    "in the group, up to date": (["s.p"], "s.a1", "s.p"),
    "a boundary, behind but fit to be read": (["s.h"], "s.a2", None),
}
READERS = {
    "above, up to date": "s.total",
    "above, behind": "s.total",
    "in the group, up to date": "s.q",
    "a boundary, behind but fit to be read": "s.over",
}


def suspended_scene(ab: Anabranch, title: str) -> str:
    bank(ab)
    ab.create_stream_table("s.p", "SELECT SUM(v) AS v FROM s.a3", schedule=HOUR)
    ab.create_stream_table("s.q", "SELECT SUM(v) AS v FROM s.a1", schedule=HOUR)
    ab.create_refresh_group("pair", ["s.p", "s.q"])
    ab.create_stream_table("s.h", "SELECT SUM(v) AS v FROM s.a2", schedule=None)
    over = "SELECT h.v + SUM(a.v) AS v FROM s.h h CROSS JOIN s.a1 a GROUP BY h.v"
    ab.create_stream_table("s.over", over, schedule=HOUR)
    who, written, _ = SUSPENDED[title]
    for name in who:
        ab.suspend(name)
    ab.sql(f"INSERT INTO {written} VALUES (2, 1)")
    if written != "s.a1":
        ab.sql("INSERT INTO s.a1 VALUES (2, 1)")
    ab.table("s.a1")
    return READERS[title]


@pytest.mark.parametrize("title", SUSPENDED)
@pytest.mark.parametrize("verb", ["tick", "refresh", "refresh by name"])
def test_everybody_agrees_who_waits_for_a_suspended_table(
    ab: Anabranch, title: str, verb: str
) -> None:
    """Ticks, refreshes of all and of one, and both listings go by one rule."""
    reader = suspended_scene(ab, title)
    by = SUSPENDED[title][2]
    overdue(ab, reader, *CHAIN)
    listed = next(each for each in ab.groups() if reader in each["members"])
    assert listed["blocked_by"] == status(ab, reader)["blocked_by"] == by
    before = value(ab, reader)
    if verb == "tick":
        done = next(each for each in ab.tick() if reader in each["members"])
        assert done["outcome"] == ("SKIPPED" if by else "PUBLISHED") and done["waits_for"] == by
    elif verb == "refresh":
        done = next(each for each in ab.refresh() if each["table"] == reader)
        assert (done["action"] == "SKIP") == bool(by)
        assert not by or done["reason"] == f"{by} is suspended"
    elif by:
        with pytest.raises(Refused, match=rf"{by} is suspended"):
            ab.refresh(reader)
    else:
        ab.refresh(reader)
    assert (value(ab, reader) != before) == (by is None)
    check_law(ab, reader)


def test_a_table_that_was_left_out_does_not_come_back_after_a_lost_race(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked for again is without what waits for a suspended table as well."""
    ab.create_stream_table("s.h", "SELECT SUM(v) AS v FROM s.a2", schedule=None)
    ab.sql("CREATE VIEW s.w AS SELECT v FROM s.a1")
    ab.create_stream_table("s.over", "SELECT h.v + w.v AS v FROM s.h h CROSS JOIN s.w w")
    ab.suspend("s.h")
    ab.sql("INSERT INTO s.a2 VALUES (2, 1)")
    ab.sql("UPDATE s.a1 SET v = 51")

    def change() -> None:
        ab.sql("CREATE OR REPLACE VIEW s.w AS SELECT v + 100 AS v FROM s.a1")

    with meanwhile(ab, monkeypatch, "s.over", change, "refresh_finished"):
        ab.refresh("s.over")
    assert value(ab, "s.over") == 201 and status(ab, "s.h")["status"] == "SUSPENDED"
    check_law(ab, "s.over")


# -- opting out --------------------------------------------------------------------------------


def test_who_opts_out_mixes_cuts_and_says_which(ab: Anabranch) -> None:
    bank(ab, diamond_consistency="none")
    first = status(ab, "s.s2")["cut_id"]
    move(ab)
    overdue(ab, "s.s1", "s.total")
    done = outcomes(ab)
    assert done["s.total"][0] == "PUBLISHED" and value(ab, "s.total") == 90
    shown = status(ab, "s.total")
    assert shown["cut_id"] is None
    assert shown["mixed_cuts"] == [status(ab, "s.s2")["cut_id"], status(ab, "s.s1")["cut_id"]]
    assert status(ab, "s.s2")["cut_id"] >= first
    assert last(ab, "s.total")["stands_at"] is None
    found = ab.verify("s.total")
    assert found["equal"] and found["mixed_cuts"] == shown["mixed_cuts"]
    overdue(ab, *CHAIN)
    ab.tick()
    assert value(ab, "s.total") == 100
    check_law(ab, *CHAIN)


def test_who_reads_a_table_that_opted_out_takes_it_as_it_is(ab: Anabranch) -> None:
    bank(ab, diamond_consistency="none")
    ab.create_stream_table("s.twice", "SELECT 2 * v AS v FROM s.total", schedule=HOUR)
    move(ab)
    overdue(ab, "s.s1", "s.total", "s.twice")
    ab.tick()
    assert value(ab, "s.total") == 90 and value(ab, "s.twice") == 180
    mixed = status(ab, "s.total")["mixed_cuts"]
    assert len(mixed) == 2 and status(ab, "s.twice")["mixed_cuts"] == mixed
    assert ab.verify("s.twice")["equal"]
    ab.refresh("s.twice")  # by hand everything comes along, and nothing is mixed
    assert value(ab, "s.twice") == 200
    check_law(ab, *CHAIN, "s.twice")


@pytest.mark.parametrize("watermark", [True, False])
def test_read_committed_reads_the_newest_and_says_so(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch, watermark: bool
) -> None:
    ab.set("tick_watermark_enabled", watermark)
    bank(ab)
    ab.create_refresh_group("pair", CHAIN[:2], isolation="read_committed")
    move(ab)
    cut = newest(ab)
    overdue(ab, *CHAIN[: 3 if watermark else 2])
    with meanwhile(ab, monkeypatch, "s.s1", lambda: move(ab, 7), "refresh_finished"):
        ab.tick()
    assert (value(ab, "s.s1"), value(ab, "s.s2")) == (40, 67)
    assert status(ab, "s.s1")["cut_id"] == cut < status(ab, "s.s2")["cut_id"]
    if watermark:
        assert value(ab, "s.total") == 107
        assert status(ab, "s.total")["mixed_cuts"] == [cut, status(ab, "s.s2")["cut_id"]]
    for name in CHAIN:
        assert ab.verify(name)["equal"]


def test_a_source_that_did_not_move_mixes_no_cuts(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab.create_stream_table("s.s1", "SELECT SUM(v) AS v FROM s.a1", schedule=HOUR)
    two = "SELECT SUM(a2.v) AS v FROM s.a2 CROSS JOIN s.a3"
    ab.create_stream_table("s.s2", two, schedule=HOUR)
    ab.create_refresh_group("pair", CHAIN[:2], isolation="read_committed")
    move(ab)
    overdue(ab, *CHAIN[:2])
    with meanwhile(ab, monkeypatch, "s.s1", lambda: move(ab, 7), "refresh_finished"):
        ab.tick()
    assert value(ab, "s.s2") == 67
    check_law(ab, *CHAIN[:2])


@pytest.mark.parametrize("moves", [False, True], ids=["it stays", "it moves"])
def test_a_boundary_below_read_committed_mixes_no_cuts(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch, moves: bool
) -> None:
    """A boundary is a source for its readers, which read the newest there is."""
    ab.create_stream_table("s.b", "SELECT SUM(v) AS n FROM s.a3", schedule=None)
    ab.create_stream_table("s.s1", "SELECT SUM(v) AS v FROM s.a1", schedule=HOUR)
    two = "SELECT SUM(a2.v) + MAX(b.n) AS v FROM s.a2 CROSS JOIN s.b"
    ab.create_stream_table("s.s2", two, schedule=HOUR)
    ab.create_refresh_group("pair", CHAIN[:2], isolation="read_committed")
    (n,) = ab.table("s.b").collect()[0]
    move(ab)
    overdue(ab, *CHAIN[:2])

    def others() -> None:
        move(ab, 7)
        if moves:
            ab.sql("INSERT INTO s.a3 VALUES (9, 1000)")
            ab.refresh("s.b")

    with meanwhile(ab, monkeypatch, "s.s1", others, "refresh_finished"):
        ab.tick()
    assert value(ab, "s.s2") == 67 + n + (1000 if moves else 0)
    check_law(ab, *CHAIN[:2])


@pytest.mark.parametrize("watermark", [True, False])
def test_a_group_that_holds_its_cut_too_long_goes_on_as_read_committed(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch, watermark: bool
) -> None:
    ab.set("tick_watermark_enabled", watermark)
    bank(ab)
    ab.create_refresh_group("pair", CHAIN[:2], snapshot_timeout_ms=1000)
    clock = [0.0]
    monkeypatch.setattr(isolation.time, "monotonic", lambda: clock[0])
    move(ab)
    overdue(ab, *CHAIN[:2])

    def late() -> None:
        clock[0] += 2
        move(ab, 7)

    with meanwhile(ab, monkeypatch, "s.s1", late, "refresh_finished"):
        ab.tick()
    assert (value(ab, "s.s1"), value(ab, "s.s2")) == (40, 67)
    (told,) = [each for each in ab.events() if each["kind"] == "SNAPSHOT_TIMEOUT"]
    assert "pair" in told["message"] and "from s.s2 on" in told["message"]
    assert status(ab, "s.s1")["cut_id"] < status(ab, "s.s2")["cut_id"]
    move(ab)
    overdue(ab, *CHAIN[:2])
    ab.tick()  # the next refresh holds one cut again
    assert status(ab, "s.s1")["cut_id"] == status(ab, "s.s2")["cut_id"]
    check_law(ab, *CHAIN[:2])


def test_who_reads_a_group_that_took_too_long_waits_for_one_cut(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody asked for half of a transaction: neither a reader of one member nor one of both."""
    bank(ab)
    ab.create_stream_table("s.one", "SELECT v FROM s.s2", schedule=HOUR)
    ab.create_refresh_group("pair", CHAIN[:2], snapshot_timeout_ms=1000)
    clock = [0.0]
    monkeypatch.setattr(isolation.time, "monotonic", lambda: clock[0])

    def late() -> None:
        clock[0] += 2
        move(ab, 7)

    move(ab)
    overdue(ab, *CHAIN, "s.one")
    with meanwhile(ab, monkeypatch, "s.s1", late, "refresh_finished"):
        done = outcomes(ab)
    assert (value(ab, "s.s1"), value(ab, "s.s2")) == (40, 67)
    for reader in ("s.total", "s.one"):
        assert done[reader][0] == "SKIPPED"
        assert (done[reader][1] or "").startswith("waits for s.s2: its refresh group took too long")
        assert status(ab, reader)["mixed_cuts"] == []
    assert value(ab, "s.total") == 100
    check_law(ab, *CHAIN, "s.one")
    ab.tick()
    assert (value(ab, "s.total"), value(ab, "s.one")) == (100, 67)
    check_law(ab, *CHAIN, "s.one")

    move(ab)
    with meanwhile(ab, monkeypatch, "s.s1", late, "refresh_finished"):
        ab.refresh("s.total")  # both in one publish: the group holds its cut
    assert (value(ab, "s.s1"), value(ab, "s.s2"), value(ab, "s.total")) == (23, 77, 100)
    check_law(ab, *CHAIN)


# -- verify ------------------------------------------------------------------------------------


def test_verify_says_when_a_table_does_not_stand_at_its_cut(ab: Anabranch) -> None:
    bank(ab)
    cut = newest(ab)
    ab.sql("INSERT INTO s.a1 VALUES (2, 0)")
    assert ab.verify("s.s1")["equal"]
    with ab._store.writing() as c:
        streams.change(c, TableName.parse("s.s1"), cut_id=newest(ab))
    found = ab.verify("s.s1")
    assert not found["equal"] and found["cut_id"] == newest(ab) == cut + 1
    assert "s.a1" in found["why"] and not found["missing"] and not found["unexpected"]


def test_unknown_names_are_still_refused(ab: Anabranch) -> None:
    with pytest.raises(UserError):
        ab.verify("s.a1")
