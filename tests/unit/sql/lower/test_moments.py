"""Functions of the current time are found in the text and replaced by what they mean at a moment."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from anabranch.sql.lower.moments import Moment, is_timely, pinned

NIGHT = Moment(datetime(2026, 11, 15, 23, 30, 5, 250_000, timezone.utc), "Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT current_date", "SELECT DATE '2026-11-16'"),
        ("SELECT Current_Date() - 1", "SELECT DATE '2026-11-16' - 1"),
        ("SELECT now() AS now", "SELECT TIMESTAMP '2026-11-15 23:30:05.250000Z' AS now"),
        ("SELECT localtimestamp()", "SELECT TIMESTAMP_NTZ '2026-11-16 00:30:05.250000'"),
        ("SELECT unix_timestamp()", "SELECT 1794785405L"),
        (
            "SELECT curdate(), current_timestamp FROM t",
            "SELECT DATE '2026-11-16', TIMESTAMP '2026-11-15 23:30:05.250000Z' FROM t",
        ),
    ],
)
def test_pinned(text: str, expected: str) -> None:
    assert is_timely(text)
    assert pinned(text, NIGHT) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'now()' AS s",
        "SELECT `current_date` FROM t",
        "SELECT t.current_date FROM t",
        "SELECT now FROM t",
        "SELECT unix_timestamp(x) FROM t",
        "SELECT x AS current_date FROM t -- now()",
    ],
)
def test_names_and_texts_are_left_alone(text: str) -> None:
    assert not is_timely(text)
    assert pinned(text, NIGHT) == text


def test_a_moment_is_read_back_as_it_was_written() -> None:
    assert Moment.parse(str(NIGHT)) == NIGHT


def test_a_zone_may_be_an_offset() -> None:
    assert pinned("SELECT current_date", Moment(NIGHT.at, "-08:00")) == "SELECT DATE '2026-11-15'"
