"""Which way AUTO goes, and what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anabranch.errors import BaseExpired
from anabranch.model import Action, RefreshMode
from anabranch.refresh.cost import Costs, Line, Work
from anabranch.refresh.decide import Decision, DecisionInputs, decide

DIFFERENTIAL, FULL, REINITIALIZE, NO_DATA = (
    Action.DIFFERENTIAL, Action.FULL, Action.REINITIALIZE, Action.NO_DATA,
)  # fmt: skip


def now(delta: int = 1_000, source: int = 1_000_000, **more: Any) -> DecisionInputs:
    """A table of the size of its only source."""
    return DecisionInputs(
        "shop.t",
        more.pop("mode", RefreshMode.AUTO),
        more.pop("populated", True),
        source_rows=source,
        stored_rows=source,
        from_changes=Work(delta, source),
        in_full=Work(0, source),
        **more,
    )


def taking(differential: float, full: float) -> dict[str, Any]:
    """Costs that do not depend on rows."""
    return {"costs": Costs(Line(differential, 0), Line(full, 0))}


@pytest.mark.parametrize(
    ("decision_inputs", "action", "reason"),
    [
        (now(populated=False), FULL, "first refresh"),
        (now(redefined="view v was replaced"), REINITIALIZE, "view v was replaced"),
        (now(tampered="another program wrote"), REINITIALIZE, "another program wrote"),
        (now(changed=False), NO_DATA, "no change in the sources"),
        (now(mode=RefreshMode.FULL), FULL, "refresh mode is FULL"),
        (now(obstacles=("WINDOW", "LIMIT")), FULL, "not incremental: WINDOW, LIMIT"),
        (now(expired="shop.s"), FULL, "the base snapshot of shop.s has expired"),
        (now(changed=False, always=True, obstacles=("SAMPLE",)), FULL, "not incremental: SAMPLE"),
    ],
)
def test_what_leaves_no_choice(
    decision_inputs: DecisionInputs, action: Action, reason: str
) -> None:
    predicted = None if action is NO_DATA else decision_inputs.full_ms
    assert decide(decision_inputs) == Decision(action, reason, predicted, None)


def test_cold_start() -> None:
    few, most = decide(now(1_000)), decide(now(1_900_000))
    assert few.action is DIFFERENTIAL
    assert few.reason.startswith("1,000 changed rows: predicted ") and "in full" in few.reason
    assert most.action is FULL
    assert most.reason == "in full: predicted 0.90 s against 8.50 s from 1,900,000 changed rows"
    assert (most.predicted_ms, most.alternative_ms) == (900, 8_500)


def test_no_ratio_alone_decides() -> None:
    """The same delta of the same sources goes either way, by what earlier refreshes have cost."""
    assert decide(now(400_000, **taking(2_000, 900))).action is FULL
    assert decide(now(400_000, **taking(2_000, 30_000))).action is DIFFERENTIAL


def test_what_it_touches_counts() -> None:
    join = replace(now(1_000), from_changes=Work(1_000, 20_000_000))
    assert decide(now(1_000)).action is DIFFERENTIAL and decide(join).action is FULL


def test_strict_mode_never_falls_back() -> None:
    found = decide(now(5_000_000, mode=RefreshMode.DIFFERENTIAL, threshold=0.1))
    assert found.action is DIFFERENTIAL and found.alternative_ms is None
    with pytest.raises(BaseExpired, match="shop.s"):
        decide(now(mode=RefreshMode.DIFFERENTIAL, expired="shop.s"))


def test_small_tables_are_not_worth_a_thought() -> None:
    found = decide(now(9_000, 5_000, threshold=0.0, **taking(9_000, 100)))
    assert found == Decision(DIFFERENTIAL, "9,000 changed rows in the sources", 9_000, None)
    assert decide(now(10_001, 5_000, **taking(9_000, 100))).action is FULL


def test_the_bound_that_users_set() -> None:
    slow = taking(600, 60_000)
    found = decide(now(300_000, threshold=0.25, **slow))
    assert found.action is FULL
    assert found.reason == (
        "300,000 changed rows are 30% of the sources, above full_refresh_threshold (25%)"
    )
    assert (found.predicted_ms, found.alternative_ms) == (60_000, 600)
    assert decide(now(250_000, threshold=0.25, **slow)).action is DIFFERENTIAL
    assert decide(now(300_000, **slow)).action is DIFFERENTIAL


@pytest.mark.parametrize(
    ("differential", "full", "after_changes", "after_full"),
    [
        (2_000, 2_100, DIFFERENTIAL, DIFFERENTIAL),
        (2_000, 1_900, DIFFERENTIAL, DIFFERENTIAL),
        (2_000, 1_850, DIFFERENTIAL, FULL),
        (2_000, 1_790, FULL, FULL),
        (10_000, 9_200, DIFFERENTIAL, FULL),
        (10_000, 8_900, FULL, FULL),
    ],
)
def test_near_the_border_the_usual_way_stays(
    differential: int, full: int, after_changes: Action, after_full: Action
) -> None:
    costs = taking(differential, full)
    assert decide(now(usual=DIFFERENTIAL, **costs)).action is after_changes
    assert decide(now(usual=FULL, **costs)).action is after_full


def test_noise_does_not_make_it_flip_flop() -> None:
    usual, flips = DIFFERENTIAL, 0
    for at in range(100):
        noise = 1 + 0.05 * (-1) ** at
        found = decide(now(usual=usual, **taking(2_400 * noise, 1_900))).action
        usual, flips = found, flips + (found is not usual)
    assert flips == 1, "to the cheaper way, and there it stays"


def test_readers_pay_for_rows_that_are_all_replaced() -> None:
    assert decide(now(**taking(3_000, 1_000))).action is FULL
    assert decide(now(readers_ms=2_000, **taking(3_000, 1_000))).action is DIFFERENTIAL


def test_a_way_not_measured_for_long_is_measured_again_if_that_costs_little() -> None:
    again = decide(now(usual=FULL, overdue=True, **taking(1_800, 1_000)))
    assert again.action is DIFFERENTIAL and "measured again" in again.reason
    assert decide(now(usual=FULL, overdue=True, **taking(2_100, 1_000))).action is FULL
