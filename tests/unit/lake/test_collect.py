"""Garbage collection beside another one that takes files away."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch import retry
from anabranch.errors import Fenced, Unreachable
from anabranch.lake import collect

HOUR = timedelta(hours=1)


def run(monkeypatch: pytest.MonkeyPatch, *answers: object) -> tuple[object, int]:
    """What a collection gives whose attempts end so, and how many there were."""
    left, pauses = list(answers), list[float]()

    def once(*given: Any) -> object:
        answer = left.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(retry, "time", SimpleNamespace(sleep=pauses.append))
    monkeypatch.setattr(collect, "_collect", once)
    try:
        found: object = collect.collect(None, HOUR, HOUR)  # type: ignore[arg-type]
    except Exception as error:
        found = error
    assert len(pauses) == len(answers) - len(left) - 1  # by the one policy
    return found, len(answers) - len(left)


def test_a_file_that_another_upkeep_took_away_is_no_reason_to_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = Unreachable("a file went away")
    assert run(monkeypatch, gone, gone, (2, 20)) == ((2, 20), 3)


def test_a_warehouse_that_is_away_is_asked_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    away = Unreachable("the warehouse is away")
    assert run(monkeypatch, *[away] * 9) == (away, collect.ATTEMPTS)


def test_a_copy_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fenced = Fenced("a copy")
    assert run(monkeypatch, fenced, fenced) == (fenced, 1)
