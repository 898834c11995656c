"""The ways that a cycle tries one after the other share the time of one refresh."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.catalog.streams import StreamTable
from anabranch.delta.fixpoint import Converged, Strategy
from anabranch.errors import PlanFailed
from anabranch.model import Action, FixpointBounds
from anabranch.names import TableName
from anabranch.plan.nodes import Scan
from anabranch.refresh.execute import fixpoint as run
from anabranch.refresh.execute.strategy import Plan
from anabranch.refresh.staging import Staging


def test_a_fallback_has_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[float | None] = []

    def follow(*_: Any, started: float | None = None, **__: Any) -> Converged:
        seen(started)
        raise KeyError("_ab_v4")

    def from_empty(*_: Any, started: float | None = None, **__: Any) -> Converged:
        seen(started)
        return Converged(Strategy.EMPTY)

    def seen(at: float | None) -> None:
        started.append(at)

    monkeypatch.setattr(run, "follow", follow)
    monkeypatch.setattr(run, "from_empty", from_empty)
    work = object.__new__(run.Work)
    work.plan = Plan(Strategy.INSERTS, Action.DIFFERENTIAL, "2 changed rows")
    work.sources = SimpleNamespace(deltas={}, insert_only=True)  # type: ignore[assignment]
    work.circle, work.rows, work.members = {}, {}, []
    work.__dict__["bounds"] = FixpointBounds(9, seconds=5)
    before = time.monotonic()
    assert work.follow(SimpleNamespace()).strategy is Strategy.EMPTY  # type: ignore[arg-type]
    assert started[0] == started[1] and started[0] is not None and started[0] >= before
    assert work.plan.fallback


def test_what_fails_from_empty_is_not_computed_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Converged:
        raise KeyError("_ab_v4")

    monkeypatch.setattr(run, "follow", fails)
    monkeypatch.setattr(run, "from_empty", fails)
    monkeypatch.setattr(run, "is_beyond_spark", lambda _: False)
    monkeypatch.setattr(run.AsWritten, "settle", fails)
    work = object.__new__(run.Work)
    work.plan = Plan(Strategy.INSERTS, Action.DIFFERENTIAL, "2 changed rows")
    work.sources = SimpleNamespace(deltas={}, insert_only=True)  # type: ignore[assignment]
    work.circle = {TableName.of("a"): _member()}
    plan = SimpleNamespace(plan=Scan(TableName.of("t"), ("x",)))
    work.rows, work.members = {}, [plan]  # type: ignore[list-item]
    work.runtime = work.tx = SimpleNamespace(world=None)  # type: ignore[assignment]
    work.__dict__["bounds"] = FixpointBounds(9, seconds=5)
    with pytest.raises(PlanFailed, match="_ab_v4") as caught:
        work.follow(SimpleNamespace())  # type: ignore[arg-type]
    assert caught.value.in_full
    staging = object.__new__(Staging)
    part = SimpleNamespace(members=(TableName.of("a"),))
    staging.state = SimpleNamespace(  # type: ignore[assignment]
        streams={TableName.of("a"): _member().stream}
    )
    assert staging._instead(part, caught.value) is None  # type: ignore[arg-type]
    assert staging._instead(part, PlanFailed("s.a: a plan failed")) is not None  # type: ignore[arg-type]


def _member() -> Any:
    stream = StreamTable(TableName.of("a"), "SELECT 1", "f")
    return SimpleNamespace(stream=stream, definition=SimpleNamespace(query="SELECT 1"))
