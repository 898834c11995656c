"""Cuts across sources: declared refresh groups, the tick watermark, and writes that belong together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.errors import AlreadyExists, InvalidValue, Refused, UnknownName
from anabranch.spark.session import Spark
from tests.e2e.graphs import (
    RARELY,
    add,
    add_to_all,
    check,
    failing,
    last,
    meanwhile,
    no_waiting,
    overdue,
    pointers,
    status,
    ticked,
    wait_is_over,
)
from tests.e2e.processes import Process
from tests.e2e.world import bag, rows

pytestmark = pytest.mark.extended

# b1 → b2 → d ← c2 ← c1: no shared source, and so no diamond
CROSS = {
    "twin.b2": "SELECT sum(x) AS x FROM twin.b1",
    "twin.c2": "SELECT sum(x) AS x FROM twin.c1",
    "twin.d": "SELECT b.x AS b, c.x AS c FROM twin.b2 b CROSS JOIN twin.c2 c",
}
PAIR = ["twin.b2", "twin.c2"]
MONEY = 1000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("refresh_groups")


@pytest.fixture(scope="module")
def ab(home: Path, spark: Spark) -> Iterator[Anabranch]:
    with anabranch.connect(home, spark=spark.session) as opened:
        for source in ("twin.b1", "twin.c1"):
            opened.sql(f"CREATE TABLE {source} (id BIGINT, x BIGINT)")
            add(opened, source, [(1, 10)])
        opened.create_stream_tables(CROSS, schedule=RARELY)
        yield opened


@pytest.fixture
def unpinned(ab: Anabranch) -> Iterator[Anabranch]:
    """Ticks without a watermark, one table after the other: what is left is the groups' doing."""
    ab.set("tick_watermark_enabled", False)
    ab.set("parallelism", 1)
    yield ab
    ab.set("tick_watermark_enabled", True)
    ab.set("parallelism", 2)


@pytest.fixture
def group(ab: Anabranch) -> Iterator[str]:
    """The name for one group; it ends with the test."""
    yield "pair"
    if any(row["group_name"] == "pair" for row in ab.refresh_groups()):
        ab.drop_refresh_group("pair")
    overdue(ab, *CROSS)
    ab.tick()


def write_both(ab: Anabranch, x: int) -> None:
    add_to_all(ab, {"twin.b1": [(2, x)], "twin.c1": [(2, x)]})


def sums(ab: Anabranch) -> tuple[int, int]:
    with ab.at() as world:
        (b,), (c,) = (world.table(name).collect() for name in PAIR)
    return b.x, c.x


# -- declaring -----------------------------------------------------------------------------------


def test_refresh_group_create_drop(ab: Anabranch, group: str) -> None:
    ab.create_refresh_group(group, PAIR, isolation="repeatable_read", snapshot_timeout_ms=5000)
    expected = {
        "group_name": "pair",
        "members": PAIR,
        "isolation": "repeatable_read",
        "snapshot_timeout_ms": 5000,
    }
    (shown,) = ab.refresh_groups()
    assert expected.items() <= shown.items()
    (row,) = ab.sql("SELECT * FROM system.refresh_groups").collect()
    assert (row.group_name, row.isolation, row.snapshot_timeout_ms) == (
        "pair",
        "repeatable_read",
        5000,
    )
    assert any("pair" in each.declared for each in ab.graph().groups)
    ab.drop_refresh_group(group)
    assert ab.refresh_groups() == []
    with pytest.raises(UnknownName):
        ab.drop_refresh_group(group)


def test_refresh_group_in_sql(ab: Anabranch, group: str) -> None:
    ab.sql("CREATE REFRESH GROUP pair (twin.b2, twin.c2) WITH (isolation = 'read_committed')")
    assert ab.refresh_groups()[0]["isolation"] == "read_committed"
    ab.sql("DROP REFRESH GROUP pair")
    assert ab.refresh_groups() == []


def test_refresh_group_member_conflict(ab: Anabranch, group: str) -> None:
    ab.create_refresh_group(group, PAIR)
    with pytest.raises(Refused, match=r"twin\.c2"):
        ab.create_refresh_group("other", ["twin.c2", "twin.d"])
    with pytest.raises(AlreadyExists, match="pair"):
        ab.create_refresh_group(group, ["twin.d", "twin.c2"])
    assert [row["group_name"] for row in ab.refresh_groups()] == ["pair"]


def test_refresh_group_validation(ab: Anabranch) -> None:
    with pytest.raises(UnknownName, match=r"twin\.x"):
        ab.create_refresh_group("bad", ["twin.b2", "twin.x"])
    with pytest.raises(InvalidValue, match="two"):
        ab.create_refresh_group("bad", ["twin.b2"])
    with pytest.raises(InvalidValue, match="two"):
        ab.create_refresh_group("bad", ["twin.b2", "twin.b2"])
    with pytest.raises(InvalidValue, match="serializable"):
        ab.create_refresh_group("bad", PAIR, isolation="serializable")
    with pytest.raises(InvalidValue):
        ab.create_refresh_group("bad", PAIR, snapshot_timeout_ms=-1)
    assert ab.refresh_groups() == []


def test_groups_that_would_wait_for_each_other_are_refused(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE ring.s (x BIGINT)")
    for name, source in (("x1", "s"), ("y1", "s"), ("x2", "x1"), ("y2", "y1")):
        query = f"SELECT x FROM ring.{source}"
        ab.create_stream_table(f"ring.{name}", query, schedule=None, initialize=False)
    ab.create_refresh_group("ring_a", ["ring.x1", "ring.y2"])
    with pytest.raises(Refused, match="ring_a"):
        ab.create_refresh_group("ring_b", ["ring.y1", "ring.x2"])
    ab.drop_refresh_group("ring_a")


def test_a_table_that_joins_members_without_being_one_is_said(
    ab: Anabranch, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    ab.create_refresh_group(group, PAIR)
    query = "SELECT b.x + c.x AS x FROM twin.b2 b CROSS JOIN twin.c2 c"
    ab.create_stream_table("twin.late", query, schedule=None, initialize=False)
    said = "twin.late joins twin.b2 and twin.c2 of refresh group pair but is not in it"
    assert said in caplog.text
    assert any(said in event["message"] for event in ab.events("twin.late"))
    ab.drop_stream_table("twin.late")


def test_a_dropped_member_leaves_its_group(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE drops.s (x BIGINT)")
    names = ["drops.a", "drops.b", "drops.c"]
    for name in names:
        ab.create_stream_table(name, "SELECT x FROM drops.s", schedule=None, initialize=False)
    ab.create_refresh_group("drops", names)
    ab.drop_stream_table("drops.a")
    assert ab.refresh_groups()[0]["members"] == ["drops.b", "drops.c"]
    ab.drop_stream_table("drops.b")
    assert ab.refresh_groups() == []
    ab.drop_stream_table("drops.c")


# -- isolation -----------------------------------------------------------------------------------


def test_repeatable_read_snapshot_coherence(unpinned: Anabranch, group: str) -> None:
    """Both members see both sources at one cut: a write after the start waits for the next tick."""
    unpinned.create_refresh_group(group, PAIR)
    before = sums(unpinned)
    write_both(unpinned, 1)
    overdue(unpinned, *PAIR)
    late = meanwhile(
        unpinned, "twin.b2", lambda: write_both(unpinned, 100), event="refresh_finished"
    )
    with late:
        (done,) = ticked(unpinned, PAIR)
    assert done["outcome"] == "PUBLISHED" and set(done["members"]) == set(PAIR)
    assert sums(unpinned) == (before[0] + 1, before[1] + 1)
    overdue(unpinned, *PAIR)
    ticked(unpinned, PAIR)
    assert sums(unpinned) == (before[0] + 101, before[1] + 101)


def test_read_committed_members_read_what_is_there(unpinned: Anabranch, group: str) -> None:
    unpinned.create_refresh_group(group, PAIR, isolation="read_committed")
    before = sums(unpinned)
    write_both(unpinned, 1)
    overdue(unpinned, *PAIR)
    late = meanwhile(
        unpinned, "twin.b2", lambda: write_both(unpinned, 100), event="refresh_finished"
    )
    with late:
        (done,) = ticked(unpinned, PAIR)
    assert done["outcome"] == "PUBLISHED"
    assert sums(unpinned) == (before[0] + 1, before[1] + 101)
    assert set(unpinned.cuts(1)[0]["tables"]) == set(PAIR), "still published together"
    check(unpinned, PAIR)


def test_a_cut_held_too_long_is_let_go(
    unpinned: Anabranch, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    unpinned.create_refresh_group(group, PAIR, snapshot_timeout_ms=1)
    before = sums(unpinned)
    write_both(unpinned, 1)
    overdue(unpinned, *PAIR)
    late = meanwhile(
        unpinned, "twin.b2", lambda: write_both(unpinned, 100), event="refresh_finished"
    )
    with late:
        ticked(unpinned, PAIR)
    assert sums(unpinned) == (before[0] + 1, before[1] + 101)
    assert "held its cut for more than 1 ms" in caplog.text
    check(unpinned, PAIR)


def test_repeatable_read_rollback_on_fail(
    ab: Anabranch, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C2 fails, and B2 stays where it was; both are tried again."""
    no_waiting(monkeypatch)
    ab.create_refresh_group(group, PAIR)
    before = pointers(ab, PAIR)
    write_both(ab, 1)
    overdue(ab, *PAIR)
    with failing(monkeypatch, "twin.c2"):
        (done,) = ticked(ab, PAIR)
    assert done["outcome"] == "FAILED" and pointers(ab, PAIR) == before
    wait_is_over(ab, *PAIR)
    (done,) = ticked(ab, PAIR)
    assert done["outcome"] == "PUBLISHED"
    assert not set(before.values()) & set(pointers(ab, PAIR).values())


def test_declared_group_overrides_autodetect(unpinned: Anabranch, group: str) -> None:
    """A declared group takes a diamond in: one group, one publish, at the declared isolation."""
    ab = unpinned
    ab.sql("CREATE TABLE both.s (x BIGINT)")
    ab.sql("CREATE TABLE both.t (x BIGINT)")
    diamond = {
        "both.b": "SELECT sum(x) AS x FROM both.s",
        "both.c": "SELECT max(x) AS x FROM both.s",
        "both.d": "SELECT b.x AS b, c.x AS c FROM both.b b CROSS JOIN both.c c",
    }
    names = [*diamond, "both.other"]
    ab.create_stream_tables(
        {**diamond, "both.other": "SELECT sum(x) AS x FROM both.t"}, schedule=RARELY
    )
    assert not any("both.other" in each["members"] for each in groups_of(ab, "both.d"))
    ab.create_refresh_group(group, ["both.b", "both.other"], isolation="repeatable_read")
    (only,) = groups_of(ab, "both.d")
    assert set(only["members"]) == set(names)
    add_to_all(ab, {"both.s": [(1,)], "both.t": [(1,)]})
    overdue(ab, *names)
    late = meanwhile(
        ab,
        "both.b",
        lambda: add_to_all(ab, {"both.s": [(10,)], "both.t": [(10,)]}),
        event="refresh_started",
    )
    with late:
        (done,) = ticked(ab, names)
    assert done["outcome"] == "PUBLISHED" and set(ab.cuts(1)[0]["tables"]) == set(names)
    assert bag(ab.table("both.other")) == rows((1,))
    assert bag(ab.table("both.d")) == rows((1, 1))


def groups_of(ab: Anabranch, name: str) -> list[dict[str, object]]:
    return [{"members": each.members} for each in ab.graph().groups if name in each.members]


# -- the tick watermark --------------------------------------------------------------------------


def test_watermark_caps_lsn_consumption(ab: Anabranch, group: str) -> None:
    """What is written after a tick began waits for the next one; the history names the cut."""
    before = sums(ab)[0]
    add(ab, "twin.b1", [(3, 1)])
    overdue(ab, *CROSS)
    start = ab.cuts(1)[0]["cut_id"]
    late = meanwhile(ab, "twin.b2", lambda: add(ab, "twin.b1", [(3, 100)]), event="refresh_started")
    with late:
        ticked(ab, PAIR)
    assert sums(ab)[0] == before + 1
    assert last(ab, "twin.b2")["tick_watermark"] == start
    overdue(ab, *CROSS)
    ticked(ab, PAIR)
    assert sums(ab)[0] == before + 101
    assert last(ab, "twin.b2")["tick_watermark"] > start


def test_watermark_cross_source_bounded(ab: Anabranch, group: str) -> None:
    """Writes to both sources after the start are seen by no table of the tick, in no group."""
    ab.set("parallelism", 1)
    before = sums(ab)
    write_both(ab, 1)
    overdue(ab, *CROSS)
    late = meanwhile(ab, "twin.b2", lambda: write_both(ab, 100), event="refresh_finished")
    with late:
        done = ticked(ab, CROSS)
    ab.set("parallelism", 2)
    assert [each["outcome"] for each in done] == ["PUBLISHED"] * 3
    assert sums(ab) == (before[0] + 1, before[1] + 1)
    assert bag(ab.table("twin.d")) == rows((before[0] + 1, before[1] + 1))


def test_without_the_watermark_every_group_looks_for_itself(
    unpinned: Anabranch, group: str
) -> None:
    """c2 reads what was written after b2; d brings b2 along, to stand at one cut."""
    before = sums(unpinned)
    write_both(unpinned, 1)
    overdue(unpinned, *CROSS)
    late = meanwhile(
        unpinned, "twin.b2", lambda: write_both(unpinned, 100), event="refresh_finished"
    )
    with late:
        ticked(unpinned, CROSS)
    assert sums(unpinned) == (before[0] + 101, before[1] + 101)
    assert last(unpinned, "twin.c2")["tick_watermark"] is None
    check(unpinned, CROSS)


# -- writes that belong together -----------------------------------------------------------------


def test_the_sum_never_changes_for_any_reader(home: Path, ab: Anabranch) -> None:
    """A writer moves amounts between two sources, each move in one transaction."""
    for source, x in (("bank.a", MONEY), ("bank.b", 0)):
        ab.sql(f"CREATE TABLE {source} (id BIGINT, x BIGINT)")
        add(ab, source, [(0, x)])
    names = ["bank.sum_a", "bank.sum_b", "bank.total"]
    queries = (
        "SELECT sum(x) AS x FROM bank.a",
        "SELECT sum(x) AS x FROM bank.b",
        "SELECT x FROM bank.sum_a UNION ALL SELECT x FROM bank.sum_b",
    )
    ab.create_stream_tables(dict(zip(names, queries, strict=True)), schedule="1ms")
    ab.create_refresh_group("bank", names)
    looked_at = [
        [("bank.a", "x"), ("bank.b", "x")],
        [("bank.sum_a", "x"), ("bank.sum_b", "x")],
        [("bank.total", "x")],
    ]
    with (
        Process("mover", home, {"bank.a": MONEY, "bank.b": 0}) as mover,
        Process("reader", home, looked_at) as reader,
    ):
        outcomes = [ticked(ab, names)[0]["outcome"] for _ in range(10)]
        moved = mover.stop()["moves"]
        seen = reader.stop()
    assert "PUBLISHED" in outcomes and set(outcomes) <= {"PUBLISHED", "NO_DATA"}
    assert moved >= 5
    assert seen["torn"] == [] and seen["values"] == [str(MONEY)]
    assert seen["reads"] >= 500 and seen["cuts"] >= 5
    ab.tick()
    check(ab, names)


def test_without_a_group_the_table_over_both_still_sees_whole_transactions(ab: Anabranch) -> None:
    """The watermark alone: whatever is written while a tick runs, d never holds half of it."""
    overdue(ab, *CROSS)
    ab.tick()
    gap = sums(ab)[0] - sums(ab)[1]
    for event in ("refresh_started", "refresh_finished"):
        for table in PAIR:
            write_both(ab, 1)
            overdue(ab, *CROSS)
            with meanwhile(ab, table, lambda: write_both(ab, 10), event=event):
                ticked(ab, CROSS)
            (row,) = ab.table("twin.d").collect()
            assert row.b - row.c == gap


def test_a_table_that_is_due_brings_along_what_it_reads(ab: Anabranch) -> None:
    """c2 was refreshed by hand and is not due: without it d would see half of a transaction."""
    overdue(ab, *CROSS)
    ab.tick()
    gap = sums(ab)[0] - sums(ab)[1]
    overdue(ab, *CROSS)
    ab.refresh("twin.c2")
    write_both(ab, 10)
    cut = ab.cuts(1)[0]["cut_id"]
    ticked(ab, CROSS)
    (row,) = ab.table("twin.d").collect()
    assert row.b - row.c == gap
    assert {status(ab, name)["cut_id"] for name in CROSS} == {cut}
    check(ab, CROSS)
