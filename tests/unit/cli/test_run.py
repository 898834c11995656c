"""What `anabranch run` says of its ticks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest

from anabranch.catalog.rounds import Round
from anabranch.cli.output import Notes
from anabranch.cli.run import Report, with_upkeep
from anabranch.model import WaitCode

SILENT = {WaitCode.BY_HAND, WaitCode.NOT_DUE}


class Heard(Notes):
    """An output that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def answer(self, text: str, data: object) -> None:
        self.lines.append(text.split(maxsplit=1)[1])

    def note(self, text: str) -> None:
        self.lines.append(f"note: {text.split(maxsplit=1)[1]}")


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def report(heard: Heard) -> Report:
    return Report(heard)  # type: ignore[arg-type]


def waits(code: WaitCode, reason: str, by: str | None = None) -> dict[str, Any]:
    return result("SKIPPED", reason) | {"code": code.value, "waits_for": by}


def result(outcome: str, reason: str | None = None, cut_id: int | None = None) -> dict[str, Any]:
    facts = {"group_id": "s.t", "members": ["s.t"], "code": None, "waits_for": None}
    return facts | {"outcome": outcome, "reason": reason, "cut_id": cut_id, "duration_ms": 1500}


@pytest.mark.parametrize("code", WaitCode)
def test_the_code_says_whether_a_wait_is_news_whatever_the_words_are(
    report: Report, heard: Heard, code: WaitCode
) -> None:
    for reason in ("not due", "refreshed on request only", "of a kind with a new sentence"):
        report([waits(code, reason, by=f"s.{reason[-1]}")])
    assert len(heard.lines) == (0 if code in SILENT else 3)


def test_a_wait_is_said_once_and_a_countdown_is_not_news(report: Report, heard: Heard) -> None:
    for seconds in (9, 8, 7):
        said = f"s.u failed and is retried in {seconds} s"
        report([waits(WaitCode.BACKING_OFF, said, "s.u")])
    assert heard.lines == ["waits      s.t: s.u failed and is retried in 9 s"]


def test_to_wait_for_another_table_is_news(report: Report, heard: Heard) -> None:
    for name in ("s.t1", "s.t2", "s.t2"):
        report([waits(WaitCode.SUSPENDED, f"{name} is suspended", name)])
    report([waits(WaitCode.BUSY, "s.t2 is being refreshed by another process", "s.t2")])
    assert [line.split(": ")[1] for line in heard.lines] == [
        "s.t1 is suspended",
        "s.t2 is suspended",
        "s.t2 is being refreshed by another process",
    ]


def test_what_is_published_or_fails_is_said_every_time(report: Report, heard: Heard) -> None:
    for _ in range(2):
        report([result("PUBLISHED", cut_id=7)])
        report([result("NO_DATA", "no change in the sources")])
        report([result("FAILED", "division by zero")])
    assert (
        heard.lines
        == [
            "published  s.t  (cut 7, 1.5 s)",
            "failed     s.t: division by zero",
        ]
        * 2
    )


def test_a_round_of_upkeep_is_one_line_and_no_answer(heard: Heard) -> None:
    passed_on: list[str] = []

    def other(event: str, data: Mapping[str, Any]) -> None:
        passed_on.append(event)

    watch = with_upkeep(heard, other)  # type: ignore[arg-type]
    done = {"tables_compacted": tuple("abcdef"), "snapshots_expired": 1, "files_deleted": 1_234}
    done |= {"bytes_deleted": 5_600_000, "stages_ended": 2, "errors": ("s.x: it is damaged",)}
    watch("upkeep", asdict(Round.of("scheduler", 1_440, done)))
    watch("refresh_started", {"table": "s.t"})
    assert heard.lines == [
        "note: upkeep     compacted a, b, c, d and 2 more, expired 1 snapshot, cleared 2 writes given "
        "up, deleted 1,234 files (5.6 MB) in 1.4 s; failed: s.x: it is damaged"
    ]
    assert passed_on == ["upkeep", "refresh_started"]
