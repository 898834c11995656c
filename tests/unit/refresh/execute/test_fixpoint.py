"""A cycle: what its ways share, what is said of its rounds, and where they end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.catalog.bounds import bounds_of
from anabranch.catalog.streams import StreamTable
from anabranch.delta.fixpoint import Converged, NoFixedPoint, Strategy
from anabranch.errors import PlanFailed
from anabranch.graph.components import Component
from anabranch.model import Action, FixpointBound, FixpointBounds, RefreshMode
from anabranch.names import TableName
from anabranch.plan.nodes import Scan
from anabranch.refresh.decide import Code, Decision, Reason
from anabranch.refresh.execute import fixpoint
from anabranch.refresh.execute.fixpoint import CycleWork, not_converged, rounds_text
from anabranch.refresh.execute.run import execute
from anabranch.refresh.staging import Staging

A, B = TableName.of("g", "a"), TableName.of("g", "b")
CHANGED = Decision(
    Action.DIFFERENTIAL, Reason(Code.CHANGED_ROWS, "2 changed rows"), Strategy.INSERTS
)


def member(mode: RefreshMode = RefreshMode.AUTO) -> Any:
    """A member with a rule, of a cycle that nothing is stored of."""
    stream = StreamTable(A, "SELECT 1", "f", refresh_mode=mode)
    rule = SimpleNamespace(plan=Scan(TableName.of("t"), ("x",)))
    definition = SimpleNamespace(query="SELECT 1", hidden=())
    return SimpleNamespace(stream=stream, definition=definition, rule=rule)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> CycleWork:
    @contextmanager
    def backend(self: CycleWork) -> Iterator[None]:
        yield None

    monkeypatch.setattr(CycleWork, "backend", backend)
    monkeypatch.setattr(CycleWork, "stage", lambda self, decision: None)
    version = SimpleNamespace(columns=(), rows=0)
    stage = SimpleNamespace(changes={}, put_back=lambda _: None, directory=str)
    tx = SimpleNamespace(world=SimpleNamespace(version=lambda _: version), stage=stage)
    sources: Any = SimpleNamespace(deltas={}, insert_only=True)
    found = CycleWork(SimpleNamespace(), tx, {A: member()}, sources, ())  # type: ignore[arg-type]
    found.__dict__["bounds"] = FixpointBounds(9, seconds=5)
    return found


def test_all_that_is_tried_shares_the_time_of_one_refresh(
    work: CycleWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[float | None] = []

    def follow(*_: Any, started: float | None = None, **__: Any) -> Converged:
        noted(started)
        raise KeyError("_ab_v4")

    def from_empty(*_: Any, started: float | None = None, **__: Any) -> Converged:
        noted(started)
        return Converged(Strategy.EMPTY)

    def noted(at: float | None) -> None:
        started.append(at)

    monkeypatch.setattr(fixpoint, "follow", follow)
    monkeypatch.setattr(fixpoint, "from_empty", from_empty)
    before = time.monotonic()
    done = execute(work, CHANGED)
    assert work.converged is not None and work.converged.strategy is Strategy.EMPTY
    assert started[0] == started[1] and started[0] is not None and started[0] >= before
    assert done.fallback and done.reason.code is Code.PLAN_FAILED


def test_what_fails_from_empty_is_not_computed_once_more(
    work: CycleWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> Converged:
        raise KeyError("_ab_v4")

    monkeypatch.setattr(fixpoint, "follow", fails)
    monkeypatch.setattr(fixpoint, "from_empty", fails)
    monkeypatch.setattr(fixpoint, "is_beyond_spark", lambda _: False)
    monkeypatch.setattr(fixpoint.AsWritten, "settle", fails)
    with pytest.raises(PlanFailed, match="_ab_v4") as caught:
        execute(work, CHANGED)
    assert caught.value.in_full
    staging = object.__new__(Staging)
    part = Component((A,), cyclic=True)
    staging.state = SimpleNamespace(streams={A: member().stream})  # type: ignore[assignment]
    assert staging._instead(part, caught.value) is None
    assert staging._instead(part, PlanFailed("s.a: a plan failed")) is not None


def test_rounds_tell_the_rows_of_each() -> None:
    done = Converged(Strategy.DELETES, ({A: 5}, {}), ({A: 3, B: 1}, {}))
    assert json.loads(rounds_text(done)) == {
        "lost": [{"g.a": 5}, {}],
        "added": [{"g.a": 3, "g.b": 1}, {}],
    }
    assert done.rounds == 4


def test_no_fixed_point_says_how_far_it_got() -> None:
    error = not_converged(NoFixedPoint([{A: 1, B: 2}, {B: 40}]), [A, B], FixpointBounds(2))
    assert error.members == (A, B)
    assert "after 2 rounds, which added 43 rows: g.b still grew by 40 rows" in error.message
    assert "g.a and g.b" in error.message


@pytest.mark.parametrize(
    ("bound", "down", "said"),
    [
        (
            FixpointBound.ROWS,
            False,
            "added 43 rows (max_fixpoint_rows is 40): g.b still grew by",
        ),
        (
            FixpointBound.TIME,
            False,
            "added 43 rows (max_fixpoint_time is 1m30s): g.b still grew by",
        ),
        (FixpointBound.ROUNDS, True, "which took away 43 rows: g.b still lost 40 rows"),
    ],
)
def test_the_bound_that_was_met_is_named(bound: FixpointBound, down: bool, said: str) -> None:
    unsettled = NoFixedPoint([{A: 1, B: 2}, {B: 40}], bound, down=down)
    error = not_converged(unsettled, [A, B], FixpointBounds(2, 40, 90))
    assert said in error.message
    assert f"ALTER STREAM TABLE g.a SET ({bound.value}" in (error.hint or "")
    assert "RESUME" in (error.hint or "") and "RESUME" not in (error.cure or "")


def test_the_strictest_member_bounds_the_cycle_and_settings_where_none_says_anything() -> None:
    settings = {
        "max_fixpoint_iterations": 100,
        "max_fixpoint_rows": 7,
        "max_fixpoint_time": 0.0,
    }

    def stream(**said: float) -> StreamTable:
        return StreamTable(A, "", "", **said)  # type: ignore[arg-type]

    assert bounds_of([stream(), stream()], settings) == FixpointBounds(100, 7, 0.0)
    found = bounds_of(
        [
            stream(max_fixpoint_iterations=300, max_fixpoint_rows=0, max_fixpoint_time=9.0),
            stream(max_fixpoint_iterations=200, max_fixpoint_rows=50),
        ],
        settings,
    )
    assert found == FixpointBounds(200, 50, 9.0)
    assert bounds_of([stream(max_fixpoint_rows=0)], settings) == FixpointBounds(100, 0, 0.0)
