"""Durations and schedules."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.durations import parse_duration, show_duration
from anabranch.errors import InvalidValue
from anabranch.schedules import Schedule, ScheduleKind


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2s", 2),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("500ms", 0.5),
        ("1.5h", 5400),
        ("7d", 604800),
        ("1 week, 2 days", 777600),
        ("10 Minutes", 600),
        (" 3 sec ", 3),
        ("0s", 0),
        (5, 5),
        (0.25, 0.25),
        (timedelta(minutes=2), 120),
    ],
)
def test_durations(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("5", "5s means 5 seconds"),
        ("", "not a duration"),
        ("soon", "not a duration"),
        ("-5s", "not a duration"),
        ("5 fortnights", "unknown unit 'fortnights'"),
        ("1M", "unknown unit 'M'"),
        ("1s2s", "twice"),
        ("1h 5", "no unit"),
        (-1, "between 0"),
        (True, "not a duration"),
        (None, "not a duration"),
        ("99999d", "between 0 and 10000 days"),
        (float("nan"), "between 0"),
    ],
)
def test_what_is_no_duration(text: object, says: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_duration(text)
    assert says in str(caught.value)


@given(st.integers(0, 10**11))
def test_a_shown_duration_reads_back(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert parse_duration(show_duration(seconds)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, ScheduleKind.BY_HAND, None),
        ("none", ScheduleKind.BY_HAND, None),
        ("Calculated", ScheduleKind.CALCULATED, "calculated"),
        ("90s", ScheduleKind.EVERY, "1m30s"),
        (2, ScheduleKind.EVERY, "2s"),
        ("@Hourly", ScheduleKind.CRON, "@hourly"),
        ("*/5  * * * *", ScheduleKind.CRON, "*/5 * * * *"),
        ("0 30 9-17/2 * JAN-MAR MON,FRI", ScheduleKind.CRON, "0 30 9-17/2 * JAN-MAR MON,FRI"),
    ],
)
def test_schedules(value: object, kind: ScheduleKind, text: str | None) -> None:
    schedule = Schedule.parse(value)
    assert (schedule.kind, schedule.text) == (kind, text)
    assert Schedule.parse(schedule.text) == schedule == Schedule.parse(schedule)


NOON = datetime(2026, 3, 1, 12, 0, 30, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("90s", NOON + timedelta(seconds=90)),
        ("@hourly", datetime(2026, 3, 1, 13, tzinfo=timezone.utc)),
        ("*/5 * * * *", datetime(2026, 3, 1, 12, 5, tzinfo=timezone.utc)),
        ("*/10 * * * * *", NOON + timedelta(seconds=10)),
        ("0 0 29 2 *", datetime(2028, 2, 29, tzinfo=timezone.utc)),
    ],
)
def test_when_a_table_is_due_again(text: str, due: datetime) -> None:
    assert Schedule.parse(text).next_after(NOON) == due


def test_a_table_refreshed_by_hand_is_never_due() -> None:
    assert Schedule.parse(None).next_after(NOON).year == 9999


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("often", "'often' is not a schedule"),
        ("0s", "never waits"),
        ("5", "no unit"),
        ("@fortnightly", "known are @yearly"),
        ("* * * * * * *", "7 fields"),
        ("61 * * * *", "'61' is not a minute"),
        ("* * * 13 *", "not a month"),
        ("* 5-3 * * *", "not a hour"),
        ("*/0 * * * *", "not a minute"),
        ("* * * * monday", "not a day of week"),
        ("*-5 * * * *", "not a minute"),
        ("", "not a schedule"),
    ],
)
def test_what_is_no_schedule(value: str, says: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        Schedule.parse(value)
    assert says in str(caught.value)
