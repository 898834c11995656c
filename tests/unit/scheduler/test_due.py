"""Which groups a tick looks at."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from anabranch.catalog.refresh_groups import RefreshGroup
from anabranch.errors import InternalError
from anabranch.graph.policies import SchedulePolicy
from anabranch.model import Status, WaitCode
from anabranch.refresh.failures import mark
from anabranch.refresh.observe import CatalogState
from anabranch.refresh.publish_sets import PublishSet, Result, Verdict
from anabranch.refresh.waiting import NOT_DUE
from anabranch.scheduler.due import BY_HAND, Agenda
from tests.unit.scheduler.looks import NOW, ago, name, state

DIAMOND = {"b": "a", "c": "a", "d": "b c"}


def waits(look: CatalogState) -> dict[str, str | None]:
    """By the first member: why its group waits."""
    agenda = Agenda(look, NOW)
    return {group.id.name: agenda.waits(group) for group in agenda.groups}


def test_an_interval_is_the_longest_staleness() -> None:
    look = state({"b": "a", "c": "x"}, b={"schedule": "1m"}, c={"schedule": "61s"})
    assert waits(look) == {"b": None, "c": NOT_DUE}


def test_cron_is_due_when_a_time_has_passed() -> None:
    look = state(
        {"b": "a", "c": "x"},
        b={"schedule": "@hourly", "last_refresh_at": ago(1)},
        c={"schedule": "@hourly", "last_refresh_at": ago(-1)},
    )
    assert waits(look) == {"b": None, "c": NOT_DUE}


def test_a_calculated_table_follows_its_readers_or_every_tick() -> None:
    look = state(
        {"b": "a", "c": "b", "e": "x"},
        b={"last_refresh_at": ago(5)},
        c={"schedule": "10s", "last_refresh_at": ago(5)},
        e={"last_refresh_at": ago(0)},
    )
    assert waits(look) == {"b": NOT_DUE, "c": NOT_DUE, "e": None}


def test_by_hand_and_not_yet_filled() -> None:
    look = state(
        {"b": "a", "c": "x"},
        b={"schedule": None, "populated": False, "last_refresh_at": None},
        c={"schedule": "1h", "populated": False, "last_refresh_at": None},
    )
    assert waits(look) == {"b": BY_HAND, "c": None}


def test_fastest_waits_for_any_and_slowest_for_all() -> None:
    fresh = {"schedule": "1h"}
    fast = state(DIAMOND, b={"schedule": "1m"}, c=fresh, d=fresh)
    assert waits(fast) == {"b": None}
    slow = state(
        DIAMOND, b={"schedule": "1m"}, c=fresh, d={**fresh, "diamond_schedule_policy": "slowest"}
    )
    assert waits(slow) == {"b": f"{NOT_DUE}: waits for t.c"}
    all_due = {"schedule": "1m"}
    agreed = state(
        DIAMOND, b=all_due, c=all_due, d={**all_due, "diamond_schedule_policy": "slowest"}
    )
    assert waits(agreed) == {"b": None}


def test_the_policy_is_ignored_where_a_member_opts_out() -> None:
    look = state(
        DIAMOND,
        b={"schedule": "1m", "diamond_consistency": "none"},
        c={"schedule": "1h"},
        d={"schedule": "1h", "diamond_schedule_policy": "slowest"},
    )
    assert waits(look) == {"b": None, "c": NOT_DUE, "d": NOT_DUE}


def test_one_hindered_member_holds_the_group() -> None:
    suspended = state(DIAMOND, c={"status": Status.SUSPENDED})
    assert waits(suspended) == {"b": "t.c is suspended"}
    later = {"status": Status.ERROR, "next_retry_at": NOW + timedelta(seconds=2)}
    assert waits(state(DIAMOND, c=later)) == {"b": "t.c failed and is retried in 2.0 s"}
    now = {"status": Status.ERROR, "next_retry_at": NOW}
    assert waits(state(DIAMOND, c=now)) == {"b": None}


def test_what_failed_for_good_waits_for_a_change() -> None:
    look = state(DIAMOND)
    same = {"status": Status.ERROR, "failed_mark": mark(look, name("c"))}
    assert "until its query or a source changes" in (waits(state(DIAMOND, c=same))["b"] or "")
    changed = state(DIAMOND, c={**same, "failed_mark": "of another state"})
    assert waits(changed) == {"b": None}


def test_a_declared_group_is_due_as_one() -> None:
    reads = {"b": "x", "c": "y"}
    fresh = {"schedule": "1h"}
    look = state(reads, {"g": "b c"}, b={"schedule": "1m"}, c=fresh)
    assert waits(look) == {"b": None}
    assert waits(state(reads, {"g": "b c"}, b=fresh, c=fresh)) == {"b": NOT_DUE}


def test_a_table_that_was_dropped_meanwhile_is_not_stale() -> None:
    look = state({"b": "a"}, b={"populated": False})
    assert look.stale([name("b"), name("gone")]) == [name("b")]


# -- one cut -------------------------------------------------------------------------------------

BANK = {"s1": "a1", "s2": "a2", "total": "s1 s2"}
FRESH = {"schedule": "1h", "last_refresh_at": ago(0)}
DUE = {"schedule": "1h", "last_refresh_at": ago(7200)}


def moved(look: CatalogState, *sources: str) -> CatalogState:
    """The look after commits to some sources."""
    return replace(look, pointers={**look.pointers, **{name(each): "new" for each in sources}})


def planned(
    look: CatalogState, policy: SchedulePolicy = SchedulePolicy.FASTEST
) -> tuple[list[str], set[str], dict[str, str]]:
    """Groups at work in order, those that are only brought along, and why the others wait."""
    plan = Agenda(look, NOW, policy).plan
    waits = {group.id.name: wait.reason for group, wait in plan.waits.items()}
    return [each.id.name for each in plan.work], {each.id.name for each in plan.pulled}, waits


def test_a_table_that_is_due_brings_along_what_it_reads_and_is_behind() -> None:
    look = state(BANK, s1=DUE, s2=FRESH, total=DUE)
    assert planned(moved(look, "a1", "a2")) == (["s1", "s2", "total"], {"s2"}, {})
    assert planned(moved(look, "a1")) == (["s1", "total"], set(), {"s2": NOT_DUE})
    assert planned(look) == (["s1", "total"], set(), {"s2": NOT_DUE})


def test_nobody_is_brought_along_for_a_table_that_is_not_due() -> None:
    look = moved(state(BANK, s1=DUE, s2=FRESH, total=FRESH), "a1", "a2")
    assert planned(look) == (["s1"], set(), {"s2": NOT_DUE, "total": NOT_DUE})


def test_a_chain_is_brought_along_to_its_top() -> None:
    look = state({"b": "a", "c": "b", "d": "c", "e": "b"}, b=FRESH, c=FRESH, d=DUE, e=FRESH)
    assert planned(moved(look, "a")) == (["b", "c", "d"], {"b", "c"}, {"e": NOT_DUE})


def test_groups_are_brought_along_whole() -> None:
    reads = {**DIAMOND, "top": "b"}
    look = moved(state(reads, b=FRESH, c=FRESH, d=FRESH, top=DUE), "a")
    plan = Agenda(look, NOW).plan
    assert [set(group.members) for group in plan.work] == [
        {name("b"), name("c"), name("d")},
        {name("top")},
    ]


def test_slowest_waits_for_what_is_behind_and_not_due() -> None:
    slow = {**DUE, "diamond_schedule_policy": "slowest"}
    look = moved(state(BANK, s1=DUE, s2=FRESH, total=slow), "a1", "a2")
    waits = {"s2": NOT_DUE, "total": f"{NOT_DUE}: waits for t.s2"}
    assert planned(look) == (["s1"], set(), waits)
    same = moved(state(BANK, s1=DUE, s2=FRESH, total=DUE), "a1", "a2")
    assert planned(same, SchedulePolicy.SLOWEST) == (["s1"], set(), waits)
    idle = moved(state(BANK, s1=DUE, s2=FRESH, total=slow), "a1")
    assert planned(idle) == (["s1", "total"], set(), {"s2": NOT_DUE})


def test_who_cannot_get_there_is_waited_for_by_name() -> None:
    stopped = {**FRESH, "status": Status.SUSPENDED}
    look = state({**BANK, "twice": "total"}, s1=DUE, s2=stopped, total=DUE, twice=DUE)
    said = "waits for t.s2: t.s2 is suspended"
    _, _, waits = planned(moved(look, "a1", "a2"))
    assert waits == {"s2": NOT_DUE, "total": said, "twice": said}
    assert planned(moved(look, "a1"))[0] == ["s1", "total", "twice"]  # s2 has nothing to do
    later = {**FRESH, "status": Status.ERROR, "next_retry_at": NOW + timedelta(seconds=2)}
    look = state(BANK, s1=DUE, s2=later, total=DUE)
    assert planned(look)[2]["total"] == "waits for t.s2: t.s2 failed and is retried in 2.0 s"


def test_a_boundary_is_a_source() -> None:
    by_hand = {"schedule": None, "status": Status.SUSPENDED}
    look = moved(state({"b": "a", "c": "b", "d": "c x"}, b=DUE, c=by_hand, d=DUE), "a")
    assert look.boundaries == {name("c")}
    assert planned(look) == (["b", "d"], set(), {"c": BY_HAND})
    assert look.behind([name("d")]) == [] and look.stale([name("d")]) == []
    inside = state(DIAMOND, b={"schedule": None}, c=DUE, d=DUE)
    assert inside.boundaries == frozenset(), "it comes along with its group"


def test_who_opted_out_brings_nobody_along_and_waits_for_nobody() -> None:
    out = {**DUE, "diamond_consistency": "none"}
    look = moved(state(BANK, s1=DUE, s2=FRESH, total=out), "a1", "a2")
    assert planned(look) == (["s1", "total"], set(), {"s2": NOT_DUE})
    reads = {"b": "x", "c": "y", "d": "z"}
    loose = replace(
        state({**reads, "d": "b"}, {"g": "c d"}, b=FRESH, c=DUE, d=DUE),
        declared={"g": RefreshGroup("g", (name("c"), name("d")), "read_committed")},
    )
    assert planned(moved(loose, "x", "y")) == (["c"], set(), {"b": NOT_DUE})


def test_tables_that_stand_at_the_cut_say_so() -> None:
    look = replace(state(BANK), cut_id=9)
    noted = look.noting([name("total")])
    assert {each.cut_id for each in noted.streams.values()} == {9}
    assert noted.frontiers[name("total")] == {name("a1"): 1, name("a2"): 1}
    late = moved(look, "a2").noting([name("total")])
    stands = {each.name.name: each.cut_id for each in late.streams.values()}
    assert stands == {"s1": 9, "s2": None, "total": None}
    assert noted.noting([name("total")]) is noted


def test_codes_of_waits() -> None:
    """What programs go by: the words beside them are for people."""
    look = state(
        {"a": "s", "b": "s", "c": "s", "d": "s", "e": "d", "f": "s", "g": "s"},
        a={"schedule": None},
        b={"schedule": "1h", "last_refresh_at": ago(1)},
        c={"status": Status.SUSPENDED},
        d={"next_retry_at": ago(-9), "last_refresh_at": None},
        f={"status": Status.ERROR},
    )
    failed = replace(look.streams[name("f")], failed_mark=mark(look, name("f")))
    look = moved(replace(look, streams={**look.streams, name("f"): failed}), "d")
    agenda = Agenda(look, NOW, leased=frozenset([name("g"), name("x")]))
    codes = {group.id.name: wait.code for group in agenda.groups if (wait := agenda.wait(group))}
    assert codes == {
        "a": WaitCode.BY_HAND,
        "b": WaitCode.NOT_DUE,
        "c": WaitCode.SUSPENDED,
        "d": WaitCode.BACKING_OFF,
        "e": WaitCode.BACKING_OFF,
        "f": WaitCode.AWAITING_CHANGE,
    }


def test_a_result_that_skips_has_a_code_and_no_other_has() -> None:
    (group,) = state({"b": "a"}).groups
    for verdict in Verdict:
        for code in (None, WaitCode.BEHIND):
            if (verdict is Verdict.SKIPPED) is (code is not None):
                assert Result(PublishSet((group,)), verdict, code=code).code is code
            else:
                with pytest.raises(InternalError):
                    Result(PublishSet((group,)), verdict, code=code)
