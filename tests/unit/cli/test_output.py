"""Values for people and for programs, and the spinner's text."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from anabranch.cli.output import coloured, distinct, error_text
from anabranch.cli.progress import Progress
from anabranch.cli.values import dumps, shown
from anabranch.errors import UserError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "true"),
        (Decimal("1E+3"), "1000"),
        (Decimal("12.50"), "12.50"),
        (datetime(2026, 1, 2, 3, 4), "2026-01-02 03:04:00"),
        (b"\x01\xff", "0x01ff"),
        ([1, None, "a"], '[1, null, "a"]'),
        ({"a": Decimal("1.10")}, '{"a": 1.10}'),
        (float("inf"), "inf"),
    ],
)
def test_shown(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("value", "back"),
    [
        ({"a": [1, 2.5, None, True, "ü\n"]}, {"a": [1, 2.5, None, True, "ü\n"]}),
        (Decimal("1234567890123456789.12"), 1234567890123456789.12),
        (date(2026, 1, 2), "2026-01-02"),
        ({1: "x", None: "y"}, {"1": "x", "NULL": "y"}),
        (float("nan"), "nan"),
        (b"\x00", "0x00"),
        ((1, 2), [1, 2]),
    ],
)
def test_json(value: Any, back: object) -> None:
    assert json.loads(dumps(value)) == back


def test_json_keeps_every_digit() -> None:
    assert dumps(Decimal("12345678901234567890.123456789")) == "12345678901234567890.123456789"


def test_columns_of_one_name_stay_apart_in_json() -> None:
    assert distinct(["id", "id", "id_2", "id"]) == ["id", "id_2", "id_2_2", "id_3"]


def test_progress_names_what_is_under_way() -> None:
    progress = Progress(enabled=False)
    progress("spark_starting", {})
    assert progress.doing() == "starting Spark …"
    progress("spark_started", {})
    progress("refresh_started", {"table": "a.b"})
    progress("refresh_started", {"table": "a.c"})
    assert progress.doing() == "refreshing a.b, a.c …"
    progress("refresh_finished", {"table": "a.b", "action": "FULL", "duration_ms": 1})
    progress("published", {"cut_id": 1})
    assert progress.doing() == "refreshing a.c …"
    progress.clear()
    assert progress.doing() == ""


def test_progress_shows_a_task_until_it_ends() -> None:
    progress = Progress(enabled=True)
    with progress.task("running …"):
        assert progress.doing() == "running …"
    assert progress.doing() == ""


def test_no_color_asks_all_programs_for_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    error = UserError("no", hint="yes")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured("x", fg="red") != "x" and "\x1b" in error_text(error)
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured("x", fg="red") == "x" and error_text(error) == "error: no\nhint: yes"
