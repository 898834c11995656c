"""Diamonds never split: their tables are staged together and published once, or not at all.

One home for all tests: each shape has a source of its own, and every test leaves it in order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.spark.session import Spark
from tests.e2e.graphs import (
    ARTICLE,
    RARELY,
    add,
    article,
    check,
    epochs,
    failing,
    last,
    no_waiting,
    overdue,
    pointers,
    status,
    ticked,
    wait_is_over,
)
from tests.e2e.world import bag, rows

pytestmark = pytest.mark.extended

REGION, PRODUCT, SUMMARY = GROUP = tuple(ARTICLE)

LINEAR = {
    "linear.b": "SELECT id, x FROM linear.s WHERE x > 0",
    "linear.c": "SELECT sum(x) AS x FROM linear.b",
}
APART = {
    "apart.b": "SELECT sum(x) AS x FROM apart.s",
    "apart.c": "SELECT count(*) AS n FROM apart.s",
    "apart.d": "SELECT b.x, c.n FROM apart.b b CROSS JOIN apart.c c",
    "apart.e": "SELECT x, n FROM apart.d WHERE x > 0",
}
# source_1 → A → C → E, source_1 → B → C, source_2 → B → D → E, source_2 → D
NESTED = {
    "nested.a": "SELECT sum(x) AS x FROM nested.s1",
    "nested.b": "SELECT s1.id, s1.x + s2.x AS x FROM nested.s1 s1 JOIN nested.s2 s2 ON s1.id = s2.id",
    "nested.c": "SELECT a.x AS a, b.x AS b FROM nested.a a CROSS JOIN nested.b b",
    "nested.d": "SELECT b.id, b.x FROM nested.b b JOIN nested.s2 s2 ON b.id = s2.id",
    "nested.e": "SELECT sum(a) AS x FROM nested.c UNION ALL SELECT sum(x) FROM nested.d",
}


@pytest.fixture(scope="module")
def ab(tmp_path_factory: pytest.TempPathFactory, spark: Spark) -> Iterator[Anabranch]:
    home: Path = tmp_path_factory.mktemp("groups")
    with anabranch.connect(home, spark=spark.session) as opened:
        article(opened)
        yield opened


@pytest.fixture(scope="module")
def apart(ab: Anabranch) -> Anabranch:
    """A diamond whose convergence point opted out."""
    ab.sql("CREATE TABLE apart.s (id BIGINT, x BIGINT)")
    add(ab, "apart.s", [(1, 10)])
    for name, query in APART.items():
        consistency = "none" if name == "apart.d" else "atomic"
        ab.create_stream_table(name, query, schedule=RARELY, diamond_consistency=consistency)
    return ab


@pytest.fixture(scope="module")
def nested(ab: Anabranch) -> Anabranch:
    ab.sql("CREATE TABLE nested.s1 (id BIGINT, x BIGINT)")
    ab.sql("CREATE TABLE nested.s2 (id BIGINT, x BIGINT)")
    add(ab, "nested.s1", [(1, 10)])
    add(ab, "nested.s2", [(1, 100)])
    ab.create_stream_tables(NESTED, schedule=RARELY)
    return ab


def sell(ab: Anabranch, amount: int = 1) -> None:
    add(ab, "shop.sales", [(9, "ap", 3, amount)])
    overdue(ab, *GROUP)


def summary(ab: Anabranch) -> tuple[int, int]:
    (row,) = ab.table(SUMMARY).collect()
    return row.regional_total, row.product_total


# -- atomic groups -------------------------------------------------------------------------------


def test_diamond_atomic_all_succeed(ab: Anabranch) -> None:
    """B and C both succeed: D is refreshed with them, and the epoch advances."""
    (epoch,) = epochs(ab, GROUP)
    before = summary(ab)
    sell(ab, 100)
    (done,) = ticked(ab, GROUP)
    assert done["outcome"] == "PUBLISHED" and set(done["members"]) == set(GROUP)
    cut = ab.cuts(1)[0]
    assert cut["cut_id"] == done["cut_id"] and set(cut["tables"]) == set(GROUP)
    assert epochs(ab, GROUP) == {epoch + 1}
    lines = [last(ab, name) for name in GROUP]
    assert {(line["epoch"], line["cut_id"], line["initiated_by"]) for line in lines} == {
        (epoch + 1, done["cut_id"], "scheduler")
    }
    assert summary(ab) == (before[0] + 100, before[1] + 100)
    check(ab, GROUP)


def test_diamond_atomic_partial_fail(ab: Anabranch, monkeypatch: pytest.MonkeyPatch) -> None:
    """B succeeds, C fails: nothing of the group moves, and its history says why."""
    no_waiting(monkeypatch)
    before, (epoch,) = pointers(ab, GROUP), epochs(ab, GROUP)
    sell(ab)
    with failing(monkeypatch, PRODUCT):
        (done,) = ticked(ab, GROUP)
    assert done["outcome"] == "FAILED" and "the disk is gone" in done["reason"]
    assert pointers(ab, GROUP) == before and epochs(ab, GROUP) == {epoch}
    assert (last(ab, PRODUCT)["action"], last(ab, PRODUCT)["status"]) == ("SKIP", "FAILED")
    for name in (REGION, SUMMARY):
        line = last(ab, name)
        assert (line["action"], line["status"]) == ("SKIP", "SKIPPED")
        assert line["reason"] == f"{PRODUCT} failed"
        assert status(ab, name)["consecutive_errors"] == 0
    assert status(ab, PRODUCT)["consecutive_errors"] == 1


def test_diamond_atomic_convergence(ab: Anabranch, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the failure the group is tried again, and all of it arrives together."""
    no_waiting(monkeypatch)
    sell(ab, 7)
    with failing(monkeypatch, REGION):
        ticked(ab, GROUP)
    (epoch,) = epochs(ab, GROUP)
    wait_is_over(ab, *GROUP)
    (done,) = ticked(ab, GROUP)
    assert done["outcome"] == "PUBLISHED"
    assert epochs(ab, GROUP) == {epoch + 1}
    regional, product = summary(ab)
    assert regional == product
    assert status(ab, REGION)["status"] == "ACTIVE" and status(ab, REGION)["last_error"] is None
    check(ab, [SUMMARY])


def test_a_failure_of_the_convergence_point_keeps_its_branches_back(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_waiting(monkeypatch)
    before = pointers(ab, GROUP)
    sell(ab)
    with failing(monkeypatch, SUMMARY):
        (done,) = ticked(ab, GROUP)
    assert done["outcome"] == "FAILED" and pointers(ab, GROUP) == before
    wait_is_over(ab, *GROUP)
    assert [each["outcome"] for each in ticked(ab, GROUP)] == ["PUBLISHED"]


def test_a_member_failing_three_times_while_its_siblings_stay_put_and_recover_together(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    no_waiting(monkeypatch)
    before = pointers(ab, GROUP)
    with failing(monkeypatch, PRODUCT):
        for errors in (1, 2, 3):
            sell(ab, errors)
            (done,) = ticked(ab, GROUP)
            assert done["outcome"] == "FAILED"
            assert pointers(ab, GROUP) == before
            assert status(ab, PRODUCT)["consecutive_errors"] == errors
    assert status(ab, PRODUCT)["status"] == "SUSPENDED"
    assert "suspended after 3 failures in a row" in caplog.text
    overdue(ab, *GROUP)
    for each in ticked(ab, GROUP):  # not tried, even now that it would succeed
        assert each["outcome"] == "SKIPPED" and f"{PRODUCT} is suspended" in each["reason"]
    assert pointers(ab, GROUP) == before
    ab.alter_stream_table(PRODUCT, status="ACTIVE")
    (done,) = ticked(ab, GROUP)
    assert done["outcome"] == "PUBLISHED"
    assert all(at != before[name] for name, at in pointers(ab, GROUP).items())
    assert summary(ab)[0] == summary(ab)[1]


def test_refresh_by_hand_brings_the_whole_group_to_one_cut(ab: Anabranch) -> None:
    sell(ab, 3)
    found = ab.refresh(REGION)
    assert {line["table"] for line in found} == set(GROUP)
    assert len({line["cut_id"] for line in found}) == 1
    assert set(ab.cuts(1)[0]["tables"]) == set(GROUP)
    assert len({str(status(ab, name)["frontier"]) for name in GROUP}) == 1


def test_a_real_mistake_in_the_data_stops_the_group_until_it_is_mended(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_waiting(monkeypatch)
    ab.sql("CREATE TABLE data.s (k BIGINT, x BIGINT)")
    add(ab, "data.s", [(1, 1)])
    names = ["data.b", "data.c", "data.d"]
    queries = (
        "SELECT k, count(*) AS n FROM data.s GROUP BY k",
        "SELECT k, sum(100 div x) AS parts FROM data.s GROUP BY k",
        "SELECT b.k, b.n, c.parts FROM data.b b JOIN data.c c ON b.k = c.k",
    )
    ab.create_stream_tables(dict(zip(names, queries, strict=True)), schedule=RARELY)
    before = pointers(ab, names)
    add(ab, "data.s", [(1, 0)])
    overdue(ab, *names)
    (done,) = ticked(ab, names)
    assert done["outcome"] == "FAILED" and "data.c" in done["reason"]
    assert pointers(ab, names) == before
    ab.sql("UPDATE data.s SET x = 2 WHERE x = 0")
    wait_is_over(ab, "data.c")
    assert [each["outcome"] for each in ticked(ab, names)] == ["PUBLISHED"]
    assert bag(ab.table("data.d")) == rows((1, 2, 150))


# -- without groups ------------------------------------------------------------------------------


def test_diamond_none_mode_unblocked(apart: Anabranch, monkeypatch: pytest.MonkeyPatch) -> None:
    """One table opted out: C's failure does not hold B back."""
    no_waiting(monkeypatch)
    before = pointers(apart, APART)
    add(apart, "apart.s", [(2, 5)])
    overdue(apart, *APART)
    with failing(monkeypatch, "apart.c"):
        found = {each["members"][0]: each["outcome"] for each in ticked(apart, APART)}
    assert found["apart.b"] == "PUBLISHED" and found["apart.c"] == "FAILED"
    after = pointers(apart, APART)
    assert after["apart.b"] != before["apart.b"] and after["apart.c"] == before["apart.c"]
    assert bag(apart.table("apart.e")) == rows((15, 1)), "two versions of the source, as asked for"
    check(apart, APART)
    wait_is_over(apart, *APART)
    overdue(apart, *APART)
    ticked(apart, APART)
    assert bag(apart.table("apart.e")) == rows((15, 2))
    check(apart, APART)


def test_diamond_none_mode_no_groups(apart: Anabranch) -> None:
    assert not [row for row in apart.diamond_groups() if row["member"] in APART]


def test_diamond_linear_unaffected(ab: Anabranch) -> None:
    """A chain is no group: every table is published for itself."""
    ab.sql("CREATE TABLE linear.s (id BIGINT, x BIGINT)")
    add(ab, "linear.s", [(1, 10)])
    ab.create_stream_tables(LINEAR, schedule=RARELY)
    add(ab, "linear.s", [(2, 5)])
    overdue(ab, *LINEAR)
    done = ticked(ab, LINEAR)
    assert [each["members"] for each in done] == [["linear.b"], ["linear.c"]]
    assert len({each["cut_id"] for each in done}) == 2
    assert bag(ab.table("linear.c")) == rows((15,))
    assert not [row for row in ab.diamond_groups() if row["member"] in LINEAR]


def test_diamond_nested_merge(nested: Anabranch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Overlapping diamonds are one group: one failure anywhere keeps all of it back."""
    no_waiting(monkeypatch)
    before = pointers(nested, NESTED)
    add(nested, "nested.s2", [(1, 1)])
    overdue(nested, *NESTED)
    with failing(monkeypatch, "nested.d"):
        (done,) = ticked(nested, NESTED)
    assert set(done["members"]) == set(NESTED) and done["outcome"] == "FAILED"
    assert pointers(nested, NESTED) == before
    wait_is_over(nested, *NESTED)
    (done,) = ticked(nested, NESTED)
    assert done["outcome"] == "PUBLISHED"
    check(nested, NESTED)


# -- what users see ------------------------------------------------------------------------------


def test_diamond_groups_sql_function(ab: Anabranch) -> None:
    shown = [row for row in ab.diamond_groups() if row["member"] in GROUP]
    assert len({row["group_id"] for row in shown}) == 1
    assert {row["member"]: row["is_convergence"] for row in shown} == {
        REGION: False,
        PRODUCT: False,
        SUMMARY: True,
    }
    assert {row["schedule_policy"] for row in shown} == {"fastest"}
    listed = ab.sql("SELECT * FROM system.diamond_groups").collect()
    assert {(row.member, row.epoch) for row in listed if row.member in GROUP} == {
        (row["member"], row["epoch"]) for row in shown
    }
    groups = {status(ab, name)["group_id"] for name in GROUP}
    assert groups == {shown[0]["group_id"]}


def test_explain_names_the_group_and_its_epoch(ab: Anabranch) -> None:
    said = ab.explain(SUMMARY)
    (epoch,) = epochs(ab, GROUP)
    assert f"epoch {epoch}" in said and REGION in said


def test_creating_a_diamond_says_so(ab: Anabranch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="anabranch")
    ab.sql("CREATE TABLE note.s (x BIGINT)")
    for name, query in (
        ("note.b", "SELECT x FROM note.s WHERE x > 0"),
        ("note.c", "SELECT sum(x) AS x FROM note.s"),
        ("note.d", "SELECT b.x AS b, c.x AS c FROM note.b b CROSS JOIN note.c c"),
    ):
        ab.create_stream_table(name, query, schedule=None, initialize=False)
    said = "note.d closes a diamond: note.s reaches it through note.b and through note.c"
    assert said in caplog.text
    assert any(said in event["message"] for event in ab.events("note.d"))


@pytest.fixture
def option(ab: Anabranch) -> Iterator[str]:
    """The name for a stream table that ends with the test, and a setting that is put back."""
    ab.sql("CREATE TABLE IF NOT EXISTS option.s (x BIGINT)")
    yield "option.b"
    ab.set("diamond_consistency", "atomic")
    ab.drop_stream_table("option.b")


def declare(ab: Anabranch, name: str, **options: str) -> Any:
    """Make a table without rows; its consistency."""
    ab.create_stream_table(name, "SELECT x FROM option.s", initialize=False, **options)
    return consistency(ab, name)


def test_diamond_consistency_default(ab: Anabranch, option: str) -> None:
    assert declare(ab, option) == "atomic"
    ab.drop_stream_table(option)
    ab.set("diamond_consistency", "none")
    assert declare(ab, option) == "none"


def test_diamond_consistency_create_atomic(ab: Anabranch, option: str) -> None:
    ab.set("diamond_consistency", "none")
    assert declare(ab, option, diamond_consistency="atomic") == "atomic"


def test_diamond_consistency_alter(ab: Anabranch, option: str) -> None:
    assert declare(ab, option) == "atomic"
    ab.alter_stream_table(option, diamond_consistency="none")
    assert consistency(ab, option) == "none"
    ab.sql(f"ALTER STREAM TABLE {option} SET (diamond_consistency = 'atomic')")
    assert consistency(ab, option) == "atomic"


def test_diamond_consistency_in_catalog_view(apart: Anabranch) -> None:
    shown = apart.sql(
        "SELECT name, diamond_consistency, diamond_schedule_policy FROM system.stream_tables"
        " WHERE name IN ('apart.c', 'apart.d')"
    )
    assert bag(shown) == rows(("apart.c", "atomic", "fastest"), ("apart.d", "none", "fastest"))


def consistency(ab: Anabranch, name: str) -> Any:
    return status(ab, name)["diamond_consistency"]


# -- when a group is due -------------------------------------------------------------------------


def tick_when_due(ab: Anabranch, *late: str) -> list[str]:
    """What becomes of the article's group when only these of its tables are due."""
    add(ab, "shop.sales", [(9, "ap", 3, 1)])
    overdue(ab, *GROUP, hours=0)
    overdue(ab, *late)
    found = [each["outcome"] for each in ticked(ab, GROUP)]
    return [each for each in found if each != "SKIPPED"]


@pytest.fixture
def policies(ab: Anabranch) -> Iterator[Anabranch]:
    yield ab
    ab.set("diamond_schedule_policy", "fastest")
    for name in GROUP:
        ab.alter_stream_table(name, diamond_schedule_policy="fastest")


def test_diamond_schedule_policy_fastest_default(ab: Anabranch) -> None:
    """One member is due, and the whole group comes along."""
    assert tick_when_due(ab) == []
    assert tick_when_due(ab, REGION) == ["PUBLISHED"]
    assert set(ab.cuts(1)[0]["tables"]) == set(GROUP)


def test_diamond_schedule_policy_slowest_per_node(policies: Anabranch) -> None:
    """The convergence point waits until all are due."""
    policies.alter_stream_table(SUMMARY, diamond_schedule_policy="slowest")
    assert "PUBLISHED" not in tick_when_due(policies, REGION, PRODUCT)
    assert tick_when_due(policies, *GROUP) == ["PUBLISHED"]


def test_diamond_schedule_policy_of_a_branch_has_no_say(policies: Anabranch) -> None:
    policies.alter_stream_table(REGION, diamond_schedule_policy="slowest")
    assert tick_when_due(policies, PRODUCT) == ["PUBLISHED"]


def test_diamond_schedule_policy_overrides_guc(ab: Anabranch) -> None:
    """The setting is the default of new tables; what a table says itself counts."""
    ab.set("diamond_schedule_policy", "slowest")
    try:
        assert tick_when_due(ab, REGION) == ["PUBLISHED"]
    finally:
        ab.set("diamond_schedule_policy", "fastest")


def test_diamond_schedule_policy_none_mode_ignored(apart: Anabranch) -> None:
    apart.alter_stream_table("apart.d", diamond_schedule_policy="slowest")
    add(apart, "apart.s", [(3, 1)])
    overdue(apart, *APART, hours=0)
    overdue(apart, "apart.b")
    assert ("apart.b", "PUBLISHED") in {
        (each["members"][0], each["outcome"]) for each in ticked(apart, ["apart.b"])
    }
    overdue(apart, *APART)
    ticked(apart, APART)


def test_diamond_schedule_policy_nested_strictest_wins(nested: Anabranch) -> None:
    """E says fastest, C says slowest: the group waits for all."""
    nested.alter_stream_table("nested.c", diamond_schedule_policy="slowest")
    shown = {row["schedule_policy"] for row in nested.diamond_groups() if row["member"] in NESTED}
    assert shown == {"slowest"}
    add(nested, "nested.s1", [(2, 1)])
    overdue(nested, *NESTED, hours=0)
    overdue(nested, "nested.e", "nested.a")
    assert "PUBLISHED" not in {each["outcome"] for each in ticked(nested, NESTED)}
    overdue(nested, *NESTED)
    assert [each["outcome"] for each in ticked(nested, NESTED)] == ["PUBLISHED"]
