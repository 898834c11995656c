"""Which groups a tick looks at."""

from __future__ import annotations

from datetime import timedelta

from anabranch.model import Status
from anabranch.refresh.failures import mark
from anabranch.refresh.look import Look
from anabranch.scheduler.due import BY_HAND, NOT_DUE, Agenda
from tests.unit.scheduler.looks import NOW, ago, name, seen

DIAMOND = {"b": "a", "c": "a", "d": "b c"}


def waits(look: Look) -> dict[str, str | None]:
    """By the first member: why its group waits."""
    agenda = Agenda(look, NOW)
    return {group.id.name: agenda.waits(group) for group in agenda.groups}


def test_an_interval_is_the_longest_staleness() -> None:
    look = seen({"b": "a", "c": "x"}, b={"schedule": "1m"}, c={"schedule": "61s"})
    assert waits(look) == {"b": None, "c": NOT_DUE}


def test_cron_is_due_when_a_time_has_passed() -> None:
    look = seen(
        {"b": "a", "c": "x"},
        b={"schedule": "@hourly", "last_refresh_at": ago(1)},
        c={"schedule": "@hourly", "last_refresh_at": ago(-1)},
    )
    assert waits(look) == {"b": None, "c": NOT_DUE}


def test_a_calculated_table_follows_its_readers_or_every_tick() -> None:
    look = seen(
        {"b": "a", "c": "b", "e": "x"},
        b={"last_refresh_at": ago(5)},
        c={"schedule": "10s", "last_refresh_at": ago(5)},
        e={"last_refresh_at": ago(0)},
    )
    assert waits(look) == {"b": NOT_DUE, "c": NOT_DUE, "e": None}


def test_by_hand_and_not_yet_filled() -> None:
    look = seen(
        {"b": "a", "c": "x"},
        b={"schedule": None, "populated": False, "last_refresh_at": None},
        c={"schedule": "1h", "populated": False, "last_refresh_at": None},
    )
    assert waits(look) == {"b": BY_HAND, "c": None}


def test_fastest_waits_for_any_and_slowest_for_all() -> None:
    fresh = {"schedule": "1h"}
    fast = seen(DIAMOND, b={"schedule": "1m"}, c=fresh, d=fresh)
    assert waits(fast) == {"b": None}
    slow = seen(
        DIAMOND, b={"schedule": "1m"}, c=fresh, d={**fresh, "diamond_schedule_policy": "slowest"}
    )
    assert waits(slow) == {"b": f"{NOT_DUE}: waits for t.c"}
    all_due = {"schedule": "1m"}
    agreed = seen(
        DIAMOND, b=all_due, c=all_due, d={**all_due, "diamond_schedule_policy": "slowest"}
    )
    assert waits(agreed) == {"b": None}


def test_the_policy_is_ignored_where_a_member_opts_out() -> None:
    look = seen(
        DIAMOND,
        b={"schedule": "1m", "diamond_consistency": "none"},
        c={"schedule": "1h"},
        d={"schedule": "1h", "diamond_schedule_policy": "slowest"},
    )
    assert waits(look) == {"b": None, "c": NOT_DUE, "d": NOT_DUE}


def test_one_hindered_member_holds_the_group() -> None:
    suspended = seen(DIAMOND, c={"status": Status.SUSPENDED})
    assert waits(suspended) == {"b": "t.c is suspended"}
    later = {"status": Status.ERROR, "next_retry_at": NOW + timedelta(seconds=2)}
    assert waits(seen(DIAMOND, c=later)) == {"b": "t.c failed and is tried again in 2.0 s"}
    now = {"status": Status.ERROR, "next_retry_at": NOW}
    assert waits(seen(DIAMOND, c=now)) == {"b": None}


def test_what_failed_for_good_waits_for_a_change() -> None:
    look = seen(DIAMOND)
    same = {"status": Status.ERROR, "failed_mark": mark(look, name("c"))}
    assert "until its query or a source changes" in (waits(seen(DIAMOND, c=same))["b"] or "")
    changed = seen(DIAMOND, c={**same, "failed_mark": "of another state"})
    assert waits(changed) == {"b": None}


def test_a_declared_group_is_due_as_one() -> None:
    reads = {"b": "x", "c": "y"}
    fresh = {"schedule": "1h"}
    look = seen(reads, {"g": "b c"}, b={"schedule": "1m"}, c=fresh)
    assert waits(look) == {"b": None}
    assert waits(seen(reads, {"g": "b c"}, b=fresh, c=fresh)) == {"b": NOT_DUE}


def test_a_table_that_was_dropped_meanwhile_is_not_stale() -> None:
    look = seen({"b": "a"}, b={"populated": False})
    assert look.stale([name("b"), name("gone")]) == [name("b")]
