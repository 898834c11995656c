"""The ways that a cycle tries one after the other share the time of one refresh."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.delta.fixpoint import Settled, Way
from anabranch.model import Action, FixpointBounds
from anabranch.refresh.component import run
from anabranch.refresh.component.way import Plan


def test_a_fallback_has_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[float | None] = []

    def follow(*_: Any, started: float | None = None, **__: Any) -> Settled:
        seen(started)
        raise KeyError("_ab_v4")

    def from_empty(*_: Any, started: float | None = None, **__: Any) -> Settled:
        seen(started)
        return Settled(Way.EMPTY)

    def seen(at: float | None) -> None:
        started.append(at)

    monkeypatch.setattr(run, "follow", follow)
    monkeypatch.setattr(run, "from_empty", from_empty)
    work = object.__new__(run.Work)
    work.plan = Plan(Way.INSERTS, Action.DIFFERENTIAL, "2 changed rows")
    work.sources = SimpleNamespace(deltas={}, insert_only=True)  # type: ignore[assignment]
    work.circle, work.rows, work.members = {}, {}, []
    work.__dict__["bounds"] = FixpointBounds(9, seconds=5)
    before = time.monotonic()
    assert work.follow(SimpleNamespace()).way is Way.EMPTY  # type: ignore[arg-type]
    assert started[0] == started[1] and started[0] is not None and started[0] >= before
    assert work.plan.fallback
