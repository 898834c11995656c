"""AUTO over hundreds of refreshes of worlds whose true costs it does not know."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest

from anabranch.catalog.history import COMPLETED, Refresh
from anabranch.model import Action, RefreshMode
from anabranch.names import TableName
from anabranch.refresh.cost import REMEMBERED, Work
from anabranch.refresh.cost_history import LONG, past
from anabranch.refresh.decide import Code, Decision, DecisionInputs, decide

T = TableName.of("shop", "t")
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROUNDS = 300


@dataclass
class World:
    """True times: a fixed part, ms per thousand delta rows, and ms per million source rows."""

    fixed: float
    per_delta: float
    per_source: float
    source_rows: int = 5_000_000
    dice: random.Random = field(default_factory=lambda: random.Random(7))
    lines: list[Refresh] = field(default_factory=list)
    spent: float = 0
    least: float = 0

    def true_ms(self, action: Action, delta: int) -> float:
        if action is Action.DIFFERENTIAL:
            return self.fixed + self.per_delta * delta / 1_000
        return self.fixed + self.per_source * self.source_rows / 1_000_000

    def measured(self, action: Action, delta: int) -> float:
        """With noise, and one run in twenty that is six times slower."""
        slow = 6 if self.dice.random() < 0.05 else 1
        return self.true_ms(action, delta) * self.dice.uniform(0.8, 1.3) * slow

    def decision_inputs(self, delta: int) -> DecisionInputs:
        known = past(self.of(Action.DIFFERENTIAL)[:REMEMBERED], self.of(Action.FULL)[:LONG])
        return DecisionInputs(
            (T,),
            {T: RefreshMode.AUTO},
            unfilled=() if self.lines else (T,),
            source_rows=self.source_rows,
            from_changes=Work(delta, 0),
            in_full=Work(0, self.source_rows),
            costs=known.costs,
            usual=known.usual,
            overdue=known.overdue,
        )

    def of(self, action: Action) -> list[Refresh]:
        return [line for line in reversed(self.lines) if line.action is action]

    def refresh(self, delta: int) -> Decision:
        now = self.decision_inputs(delta)
        decision = decide(now)
        work = now.from_changes if decision.action is Action.DIFFERENTIAL else now.in_full
        self.lines.append(
            Refresh(
                T,
                decision.action,
                COMPLETED,
                reason=decision.reason.text,
                reason_code=decision.reason.code,
                delta_rows=delta,
                duration_ms=round(self.measured(decision.action, delta)),
                scanned_rows=work.scanned_rows,
                alternative_ms=decision.alternative_ms,
                started_at=START + timedelta(seconds=len(self.lines)),
            )
        )
        if decision.reason.code is not Code.FIRST:
            ways = (Action.DIFFERENTIAL, Action.FULL)
            self.spent += self.true_ms(decision.action, delta)
            self.least += min(self.true_ms(way, delta) for way in ways)
        return decision


WORLDS = {
    "as the constants say": (400, 4, 500),
    "all slower": (2_000, 20, 2_500),
    "all quicker": (80, 0.8, 100),
    "dear deltas": (400, 40, 500),
    "cheap deltas": (400, 0.5, 500),
    "dear recompute": (400, 4, 6_000),
    "fixed costs only": (3_000, 0.1, 10),
}


@pytest.mark.parametrize("costs", WORLDS.values(), ids=list(WORLDS))
def test_it_stays_near_the_best_choice(costs: tuple[float, float, float]) -> None:
    world = World(*costs)
    world.refresh(0)
    for _ in range(ROUNDS):
        world.refresh(int(10 ** world.dice.uniform(1, 6.5)))
    assert world.spent < 1.15 * world.least


@pytest.mark.parametrize("costs", WORLDS.values(), ids=list(WORLDS))
def test_steady_changes_have_a_steady_way(costs: tuple[float, float, float]) -> None:
    world = World(*costs)
    for delta in (100, 600_000, 3_000_000):
        world.lines.clear()
        actions = [world.refresh(delta).action for _ in range(200)][1:]
        flips = sum(a is not b for a, b in pairwise(actions))
        assert flips <= 5, [action.value for action in actions]


def test_slow_first_runs_do_not_scare_it_away() -> None:
    """Until Spark has compiled its plans, refreshes from changes take ten times longer."""
    world = World(400, 4, 500)
    world.refresh(0)
    world.fixed = 4_000
    warming = [world.refresh(100).action for _ in range(3)]
    world.fixed = 400
    assert {*warming, *(world.refresh(100).action for _ in range(20))} == {Action.DIFFERENTIAL}


def test_it_recovers_from_a_bad_hour() -> None:
    """All that was measured from changes was slow: recomputing looks better, but not for ever."""
    world = World(400, 4, 500, source_rows=1_000_000)
    world.refresh(0)
    world.fixed = 6_000
    for _ in range(20):
        world.refresh(100_000)
    world.fixed = 400
    actions = [world.refresh(100).action for _ in range(100)]
    assert actions.count(Action.DIFFERENTIAL) > 80
