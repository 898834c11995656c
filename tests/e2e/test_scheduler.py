"""The scheduler: what is due, what is retried, who may publish, and what a killed one leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.catalog import leases, streams, tables
from anabranch.errors import Unreachable
from anabranch.lake import publish
from anabranch.names import TableName
from anabranch.scheduler import loop
from anabranch.spark.session import Spark
from tests.another_program import alter
from tests.e2e.graphs import (
    ARTICLE,
    RARELY,
    TOTALS,
    add,
    article,
    check,
    failing,
    last,
    meanwhile,
    overdue,
    pointers,
    status,
    ticked,
    wait_is_over,
)
from tests.e2e.processes import ROOT, Process
from tests.e2e.world import bag, rows
from tests.failpoints import python

pytestmark = pytest.mark.extended

GROUP = list(ARTICLE)
REGION, PRODUCT, SUMMARY = GROUP

RUN = """
import sys, anabranch
from tests.quick import GIVEN
small = {"spark.master": "local[1]", "spark.conf.spark.driver.memory": "1g"}
ab = anabranch.connect(sys.argv[1], tick_interval="200ms", **small, **GIVEN)
ab.spark
print("ready", flush=True)
ab.run()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scheduler")


@pytest.fixture(scope="module")
def ab(home: Path, spark: Spark) -> Iterator[Anabranch]:
    with anabranch.connect(home, spark=spark.session, parallelism=2) as opened:
        article(opened)
        opened.sql("CREATE TABLE one.s (id BIGINT, x BIGINT)")
        add(opened, "one.s", [(1, 10)])
        opened.create_stream_table("one.t", "SELECT sum(x) AS x FROM one.s", schedule=RARELY)
        yield opened


@pytest.fixture
def other(home: Path, ab: Anabranch, spark: Spark) -> Iterator[Anabranch]:
    """A second connection, which remembers nothing but what the catalog holds."""
    with anabranch.connect(home, spark=spark.session) as opened:
        yield opened


def outcome(ab: Anabranch, name: str) -> tuple[str, str]:
    (found,) = ticked(ab, [name])
    return found["outcome"], found["reason"] or ""


def change(ab: Anabranch, x: int = 1) -> None:
    """Something to do for `one.t`, which is due."""
    add(ab, "one.s", [(2, x)])
    overdue(ab, "one.t")


# -- what is due ---------------------------------------------------------------------------------


def test_a_tick_refreshes_what_is_due_and_changed(ab: Anabranch) -> None:
    change(ab)
    assert outcome(ab, "one.t") == ("PUBLISHED", "")
    add(ab, "one.s", [(2, 1)])
    assert outcome(ab, "one.t") == ("SKIPPED", "not due")
    overdue(ab, "one.t")
    assert outcome(ab, "one.t")[0] == "PUBLISHED"
    overdue(ab, "one.t")
    assert outcome(ab, "one.t")[0] == "NO_DATA"
    assert last(ab, "one.t")["initiated_by"] == "scheduler"


def test_an_idle_tick_starts_no_job_and_says_nothing_twice(ab: Anabranch) -> None:
    overdue(ab, *GROUP, "one.t")
    ab.tick()
    actions, cuts, lines = ab.spark_actions, ab.cuts(1), len(ab.history())
    for _ in range(3):
        overdue(ab, *GROUP, "one.t")
        assert {each["outcome"] for each in ab.tick()} == {"NO_DATA"}
    assert (ab.spark_actions, ab.cuts(1), len(ab.history())) == (actions, cuts, lines)


def test_schedules_by_hand_calculated_and_cron(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE plan.s (x BIGINT)")
    add(ab, "plan.s", [(1,)])
    for name, source, schedule in (
        ("plan.hand", "s", None),
        ("plan.asked", "s", "calculated"),
        ("plan.hourly", "asked", RARELY),
        ("plan.cron", "s", "0 0 1 1 *"),
        ("plan.free", "s", "calculated"),
    ):
        ab.create_stream_table(name, f"SELECT x FROM plan.{source}", schedule=schedule)
    names = ["plan.hand", "plan.asked", "plan.hourly", "plan.cron", "plan.free"]
    add(ab, "plan.s", [(2,)])
    assert moved(ab, names) == {"plan.free"}, "nobody waits for it, so every tick will do"
    overdue(ab, *names)
    assert moved(ab, names) == {"plan.asked", "plan.hourly"}
    overdue(ab, *names, hours=400 * 24)
    assert moved(ab, names) == {"plan.cron"}
    assert status(ab, "plan.hand")["staleness_seconds"] > 0
    for name in reversed(names):
        ab.drop_stream_table(name)


def moved(ab: Anabranch, names: list[str]) -> set[str]:
    before = pointers(ab, names)
    ab.tick()
    after = pointers(ab, names)
    return {name for name in names if before[name] != after[name]}


def test_a_change_is_seen_before_the_interval_is_over(ab: Anabranch) -> None:
    ab.set("tick_interval", "10m")
    ab.alter_stream_table("one.t", schedule="1ms")
    done = threading.Thread(target=lambda: ab.run(ticks=2), daemon=True)
    first = threading.Event()
    ab.on_progress = lambda event, facts: first.set() if event == "published" else None
    try:
        add(ab, "one.s", [(3, 1)])
        done.start()
        assert first.wait(120), "the first tick"
        before = pointers(ab, ["one.t"])
        add(ab, "one.s", [(3, 1)])
        done.join(120)
        assert not done.is_alive(), "the second tick came long before ten minutes"
        assert pointers(ab, ["one.t"]) != before
    finally:
        ab.on_progress = None
        ab.set("tick_interval", "1s")
        ab.alter_stream_table("one.t", schedule=RARELY)


def test_a_table_that_cannot_keep_its_schedule_is_reported_once(ab: Anabranch) -> None:
    known = len(ab.events("one.t"))
    ab.alter_stream_table("one.t", schedule="1ms")
    for _ in range(2):
        add(ab, "one.s", [(4, 1)])
        assert outcome(ab, "one.t")[0] == "PUBLISHED"
    (said,) = ab.events("one.t")[: len(ab.events("one.t")) - known]
    assert said["kind"] == "BEHIND" and "one is due every 0.001 s" in said["message"]
    ab.alter_stream_table("one.t", schedule=RARELY)


# -- side by side --------------------------------------------------------------------------------


@contextmanager
def meeting(ab: Anabranch, *names: str) -> Iterator[None]:
    """The tables must all be under way at one moment: each waits for the others."""
    barrier = threading.Barrier(len(names))

    def watch(event: str, facts: Any) -> None:
        if event == "refresh_started" and facts["table"] in names:
            barrier.wait(120)

    ab.on_progress = watch
    try:
        yield
    finally:
        ab.on_progress = None
    assert not barrier.broken


def test_members_of_a_group_that_do_not_need_each_other_run_side_by_side(ab: Anabranch) -> None:
    add(ab, "shop.sales", [(9, "ap", 3, 1)])
    overdue(ab, *GROUP)
    with meeting(ab, REGION, PRODUCT):
        assert outcome(ab, SUMMARY)[0] == "PUBLISHED"


def test_groups_that_do_not_need_each_other_run_side_by_side(ab: Anabranch) -> None:
    change(ab)
    add(ab, "shop.sales", [(9, "ap", 3, 1)])
    overdue(ab, *GROUP)
    with meeting(ab, REGION, "one.t"):
        assert {each["outcome"] for each in ab.tick()} == {"PUBLISHED"}


# -- failures ------------------------------------------------------------------------------------


def test_a_failure_waits_longer_each_time_and_a_restart_remembers(
    ab: Anabranch, other: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = []
    with failing(monkeypatch, "one.t"):
        for errors in (1, 2):
            change(ab)
            assert outcome(ab, "one.t")[0] == "FAILED"
            found = status(ab, "one.t")
            assert (found["status"], found["consecutive_errors"]) == ("ERROR", errors)
            waited.append((found["next_retry_at"] - tables.now()).total_seconds())
            assert outcome(other, "one.t")[0] == "SKIPPED"
            assert "one.t failed and is retried in" in outcome(other, "one.t")[1]
            wait_is_over(ab, "one.t")
    assert waited[1] > waited[0]
    assert outcome(other, "one.t")[0] == "PUBLISHED"
    found = status(ab, "one.t")
    assert (found["status"], found["consecutive_errors"], found["last_error"]) == (
        "ACTIVE",
        0,
        None,
    )


def test_too_many_failures_suspend_and_resume_takes_it_in_again(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing(monkeypatch, "one.t"):
        for _ in range(3):
            change(ab)
            outcome(ab, "one.t")
            wait_is_over(ab, "one.t")
    assert status(ab, "one.t")["status"] == "SUSPENDED"
    change(ab)
    assert outcome(ab, "one.t") == ("SKIPPED", "one.t is suspended")
    assert any(event["kind"] == "SUSPENDED" for event in ab.events("one.t"))
    ab.resume("one.t")
    assert outcome(ab, "one.t")[0] == "PUBLISHED"


def test_what_stays_wrong_is_not_tried_again_until_something_changes(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE wrong.s (x BIGINT, y BIGINT)")
    add(ab, "wrong.s", [(1, 1)])
    ab.create_stream_table("wrong.t", "SELECT x, y FROM wrong.s", schedule="1ms")
    alter(ab, "ALTER TABLE wrong.s RENAME COLUMN y TO z")
    assert outcome(ab, "wrong.t")[0] == "FAILED"
    lines = len(ab.history("wrong.t"))
    for _ in range(2):
        assert outcome(ab, "wrong.t")[0] == "SKIPPED"
    assert "not retried until" in outcome(ab, "wrong.t")[1]
    assert len(ab.history("wrong.t")) <= lines + 1, "said once"
    alter(ab, "ALTER TABLE wrong.s RENAME COLUMN z TO y")
    add(ab, "wrong.s", [(2, 2)])
    assert outcome(ab, "wrong.t")[0] == "PUBLISHED"
    assert bag(ab.table("wrong.t")) == rows((1, 1), (2, 2))
    ab.drop_stream_table("wrong.t")


def test_a_publish_that_fails_is_the_groups_failure_and_nobody_elses(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No metadata file can be written for one table: the others are published all the same."""
    real = publish._write_metadata

    def write(stage: Any, version: Any) -> None:
        if str(version.name) == PRODUCT:
            raise Unreachable("the disk is full")
        real(stage, version)

    before = pointers(ab, [*GROUP, "one.t"])
    change(ab)
    add(ab, "shop.sales", [(9, "ap", 3, 1)])
    overdue(ab, *GROUP)
    with monkeypatch.context() as patch:
        patch.setattr(publish, "_write_metadata", write)
        found = {each["members"][0]: each for each in ab.tick()}
    assert found["one.t"]["outcome"] == "PUBLISHED"
    failed = next(each for each in found.values() if PRODUCT in each["members"])
    assert failed["outcome"] == "FAILED" and "the disk is full" in failed["reason"]
    assert {name: pointers(ab, GROUP)[name] for name in GROUP} == {
        name: before[name] for name in GROUP
    }
    assert any(status(ab, name)["consecutive_errors"] == 1 for name in GROUP)
    wait_is_over(ab, *GROUP)
    assert outcome(ab, SUMMARY)[0] == "PUBLISHED"


# -- several schedulers --------------------------------------------------------------------------


def lease(ab: Anabranch, *names: str, host: str, seconds: float) -> None:
    """A lease of a process on another machine, which nobody here can ask whether it lives."""
    until = tables.now() + timedelta(seconds=seconds)
    with ab._store.writing() as c:
        taken = leases.take(c, [TableName.parse(name) for name in names], 1)
        assert isinstance(taken, leases.Lease)
        where = tables.leases.c.token == taken.token
        c.execute(tables.leases.update().where(where).values(host=host, expires_at=until))


def test_a_group_that_another_process_refreshes_is_left_to_it(ab: Anabranch) -> None:
    add(ab, "shop.sales", [(9, "ap", 3, 1)])
    overdue(ab, *GROUP)
    before = pointers(ab, GROUP)
    lease(ab, PRODUCT, host="elsewhere", seconds=60)
    found = outcome(ab, SUMMARY)
    assert found == ("SKIPPED", f"{PRODUCT} is being refreshed by another process")
    assert pointers(ab, GROUP) == before
    with ab._store.writing() as c:
        c.execute(tables.leases.update().values(expires_at=tables.now() - timedelta(seconds=1)))
    assert outcome(ab, SUMMARY)[0] == "PUBLISHED", "its lease is over"


def test_who_wakes_up_late_cannot_publish_over_newer_work(ab: Anabranch, other: Anabranch) -> None:
    """A process sleeps in the middle of a refresh until its lease is over and taken."""
    change(ab, 5)

    def fall_asleep() -> None:
        late = tables.now() - timedelta(seconds=1)
        with ab._store.writing() as c:
            c.execute(tables.leases.update().values(expires_at=late))
        change(ab, 7)
        assert outcome(other, "one.t")[0] == "PUBLISHED"

    before = bag(ab.table("one.t"))
    with meanwhile(ab, "one.t", fall_asleep, event="refresh_finished"):
        found = outcome(ab, "one.t")
    assert found[0] == "SKIPPED" and "another process" in found[1]
    ((total,),) = bag(ab.table("one.t")) - before
    ((start,),) = before
    assert total == start + 12, "the newer work stands"
    check(ab, ["one.t"])


@pytest.mark.slow  # tests/faults/test_kill.py and contract/test_processes.py kill at the same step
def test_kill_9_of_one_of_two_schedulers_in_the_middle_of_a_publish(
    home: Path, ab: Anabranch
) -> None:
    """The other one goes on at once; no reader ever sees a part of the dead one's work."""
    for name in GROUP:
        ab.alter_stream_table(name, schedule="1ms")
    killed = subprocess.Popen(
        python("-c", RUN, str(home), kill="in_transaction"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        with Process("reader", home, TOTALS) as reader:
            assert killed.stdout is not None
            assert killed.stdout.readline() == "ready\n"
            before = pointers(ab, GROUP)
            add(ab, "shop.sales", [(10, "eu", 1, 1000)])
            assert killed.wait(300) == -signal.SIGKILL
            assert pointers(ab, GROUP) == before, "what was not committed is not there"
            add(ab, "shop.sales", [(11, "us", 2, 2000)])
            assert outcome(ab, SUMMARY)[0] == "PUBLISHED", "a dead owner's lease counts for nothing"
            seen = reader.stop()
    finally:
        killed.kill()
        killed.communicate()
    assert seen["torn"] == [] and seen["cuts"] >= 2
    for name in GROUP:
        ab.alter_stream_table(name, schedule=RARELY)
    assert ab.maintain()["stages_ended"] == 1, "what the dead one had staged"
    check(ab, GROUP)


# -- stopping ------------------------------------------------------------------------------------


def test_stop_lets_the_group_under_way_finish(ab: Anabranch) -> None:
    change(ab)
    stop = threading.Event()
    before = pointers(ab, ["one.t"])
    with meanwhile(ab, "one.t", stop.set, event="refresh_started"):
        assert ab.run(stop=stop) == 1
    assert pointers(ab, ["one.t"]) != before
    assert nothing_under_way(ab)


def test_stop_begins_no_other_group(ab: Anabranch) -> None:
    change(ab)
    add(ab, "shop.sales", [(9, "ap", 3, 1)])
    overdue(ab, *GROUP)
    stop, found = threading.Event(), list[dict[str, Any]]()
    ab.set("parallelism", 1)
    ab.on_progress = lambda event, facts: stop.set() if event == "published" else None
    try:
        assert loop.run(ab._runtime, stop, watch=found.extend) == 1
    finally:
        ab.on_progress = None
        ab.set("parallelism", 2)
    assert sorted(each["outcome"] for each in found) == ["PUBLISHED", "SKIPPED"]
    assert [each["reason"] for each in found if each["outcome"] == "SKIPPED"] == ["stopped"]
    assert {each["outcome"] for each in ab.tick()} <= {"PUBLISHED", "SKIPPED", "NO_DATA"}


def test_giving_up_leaves_no_trace(ab: Anabranch) -> None:
    change(ab)
    stop, forced = threading.Event(), threading.Event()
    before, cut = pointers(ab, ["one.t"]), ab.cuts(1)

    def give_up() -> None:
        stop.set()
        forced.set()

    with meanwhile(ab, "one.t", give_up, event="refresh_started"):
        loop.run(ab._runtime, stop, abandoned=forced.is_set)
    assert (pointers(ab, ["one.t"]), ab.cuts(1)) == (before, cut)
    assert nothing_under_way(ab) and status(ab, "one.t")["consecutive_errors"] == 0
    assert outcome(ab, "one.t")[0] == "PUBLISHED"


def test_run_shows_what_it_does_and_ends_on_sigterm(home: Path, ab: Anabranch) -> None:
    change(ab)
    running = subprocess.Popen(
        [sys.executable, "-m", "anabranch", "--home", str(home), "run"],
        cwd=ROOT,
        env={**os.environ, "ANABRANCH_SPARK_MASTER": "local[1]"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert running.stdout is not None
        assert "published  one.t" in running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=120)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 0
    assert "stopped after" in said
    assert nothing_under_way(ab)


def nothing_under_way(ab: Anabranch) -> bool:
    with ab._store.reading() as c:
        found = [
            c.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()
            for table in ("ab_stages", "ab_leases")
        ]
    return found == [0, 0]


# -- readers -------------------------------------------------------------------------------------


@pytest.mark.slow  # test_refresh_groups.py has readers of a group without a loop
def test_readers_in_other_processes_never_see_a_torn_group(home: Path, ab: Anabranch) -> None:
    """Two readers look all the time while the group is published again and again."""
    with Process("reader", home, TOTALS) as one, Process("reader", home, TOTALS) as two:
        for at in range(6):
            add(ab, "shop.sales", [(20 + at, "eu" if at % 2 else "us", at % 3, 10 * at + 1)])
            overdue(ab, *GROUP)
            assert outcome(ab, SUMMARY)[0] == "PUBLISHED"
        found = [each.stop() for each in (one, two)]
    for seen in found:
        assert seen["torn"] == []
        assert seen["cuts"] >= 6
    assert sum(seen["reads"] for seen in found) >= 1500
    check(ab, GROUP)


def test_epochs_only_grow(ab: Anabranch) -> None:
    lines = [line["epoch"] for line in ab.history(SUMMARY) if line["epoch"] is not None]
    assert lines == sorted(lines, reverse=True) and len(set(lines)) == len(lines)
    with ab._store.reading() as c:
        found = streams.all_streams(c)
    assert len({found[TableName.parse(name)].epoch for name in GROUP}) == 1
