"""Retention thins: all young cuts stay, then one a minute, then one an hour, then none."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from anabranch.catalog.retention import HOUR, MINUTE, Retention

NOW = datetime(2026, 5, 1, 12, 0, 30, tzinfo=timezone.utc)
DAY = timedelta(days=1)


def cuts_every(step: timedelta, since: timedelta) -> list[tuple[int, datetime]]:
    count = since // step
    return [(at + 1, NOW - since + (at + 1) * step) for at in range(count)]


def left(cuts: list[tuple[int, datetime]], kept: Retention) -> list[tuple[int, datetime]]:
    gone = kept.expired(cuts, NOW)
    return [each for each in cuts if each[0] not in gone]


def test_young_cuts_stay_older_ones_are_thinned() -> None:
    kept = Retention(total=3 * HOUR, all_cuts=10 * MINUTE, by_minute=HOUR)
    found = left(cuts_every(timedelta(seconds=10), 5 * HOUR), kept)
    ages = [NOW - at for _, at in found]
    young = [age for age in ages if age <= 10 * MINUTE]
    by_minute = [age for age in ages if 10 * MINUTE < age <= HOUR]
    by_hour = [age for age in ages if age > HOUR]
    assert len(young) == 61 and 50 <= len(by_minute) <= 51
    assert len(by_hour) <= 4 and max(ages) >= 3 * HOUR  # any time since then can be read


def test_thinning_again_takes_nothing_more() -> None:
    kept = Retention(total=3 * HOUR, all_cuts=10 * MINUTE, by_minute=HOUR)
    once = left(cuts_every(timedelta(seconds=7), 4 * HOUR), kept)
    assert left(once, kept) == once


def test_the_newest_and_held_cuts_stay() -> None:
    cuts = cuts_every(timedelta(seconds=1), timedelta(seconds=30))
    assert Retention(timedelta(0), timedelta(0), timedelta(0)).expired(cuts, NOW, {7}) == {
        *range(1, 30)
    } - {7}


def test_no_clock_alone_makes_cuts_old() -> None:
    cuts = cuts_every(timedelta(seconds=1), timedelta(seconds=30))
    assert Retention().expired(cuts, NOW + 30 * DAY) == set()  # this host is ahead
    ahead = [*cuts, (31, NOW + 30 * DAY)]  # another one was, and published
    assert Retention().expired(ahead, NOW) == set()


def test_a_cut_of_a_host_that_is_behind_is_as_young_as_the_next() -> None:
    """It has the time of the cut before it, which may be days ago."""
    behind = [
        (1, NOW - 2 * DAY),
        (2, NOW - 2 * DAY),
        (3, NOW - 2 * DAY),
        (4, NOW - MINUTE),
        (5, NOW),
    ]
    assert Retention(total=DAY, all_cuts=HOUR).expired(behind, NOW) == set()
    later = [*behind, (6, NOW + 2 * DAY)]
    assert Retention(total=DAY, all_cuts=HOUR).expired(later, NOW + 2 * DAY) == {1, 2, 3, 4}
