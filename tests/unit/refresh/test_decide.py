"""How a component is refreshed, by made-up statistics, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anabranch.delta.fixpoint import Converged, Strategy
from anabranch.errors import BaseExpired, FileMissing, PlanFailed, Refused
from anabranch.model import Action, RefreshMode, TableKind
from anabranch.names import TableName
from anabranch.refresh.cost import CostModel, Costs, Work
from anabranch.refresh.decide import (
    ASKED,
    SORTED_ROWS,
    Code,
    DecisionInputs,
    Reason,
    decide,
    lost,
    rebuilding,
    settled,
    without_effect,
)

DIFFERENTIAL, FULL, REINITIALIZE, NO_DATA = (
    Action.DIFFERENTIAL, Action.FULL, Action.REINITIALIZE, Action.NO_DATA,
)  # fmt: skip
T, A, B, E = (TableName.of("g", each) for each in "tabe")
REPLACED = Reason(Code.REDEFINED, "view v was replaced")
PASSED = Reason(Code.TIME_PASSED, "the current time is now 2026")
WROTE = Reason(Code.TAMPERED, "another program wrote")


def now(delta: int = 1_000, source: int = 1_000_000, **more: Any) -> DecisionInputs:
    """A table of the size of its only source."""
    return DecisionInputs(
        (T,),
        {T: more.pop("mode", RefreshMode.AUTO)},
        source_rows=source,
        stored_rows=source,
        from_changes=Work(delta, source),
        in_full=Work(0, source),
        **more,
    )


def taking(differential: float, full: float) -> dict[str, Any]:
    """Costs that do not depend on rows."""
    return {"costs": Costs(CostModel(differential, 0), CostModel(full, 0))}


@pytest.mark.parametrize(
    ("facts", "action", "code", "reason"),
    [
        (now(unfilled=(T,)), FULL, Code.FIRST, "first refresh"),
        (now(redefined=REPLACED), REINITIALIZE, Code.REDEFINED, "view v was replaced"),
        (now(redefined=PASSED), FULL, Code.TIME_PASSED, "the current time is now 2026"),
        (now(tampered=WROTE), REINITIALIZE, Code.TAMPERED, "another program wrote"),
        (now(changed=False), NO_DATA, Code.NO_CHANGE, "no change in the sources"),
        (now(mode=RefreshMode.FULL), FULL, Code.MODE_FULL, "refresh mode is FULL"),
        (now(obstacles=("WINDOW", "LIMIT")), FULL, Code.NOT_INCREMENTAL,
         "not incremental: WINDOW, LIMIT"),
        (now(expired="shop.s"), FULL, Code.BASE_EXPIRED,
         "the base snapshot of shop.s has expired"),
        (now(changed=False, always=True, obstacles=("SAMPLE",)), FULL, Code.NOT_INCREMENTAL,
         "not incremental: SAMPLE"),
    ],
)  # fmt: skip
def test_what_leaves_no_choice(
    facts: DecisionInputs, action: Action, code: Code, reason: str
) -> None:
    found = decide(facts)
    assert (found.action, found.reason) == (action, Reason(code, reason))
    assert found.predicted_ms == (None if action is NO_DATA else facts.full_ms)
    assert found.alternative_ms is None


@pytest.mark.parametrize(
    ("facts", "action", "code", "reason"),
    [
        (now(unfilled=(T,)), FULL, Code.FIRST, "first refresh"),
        (now(tampered=WROTE), REINITIALIZE, Code.TAMPERED, "another program wrote"),
        (now(changed=False), NO_DATA, Code.NO_CHANGE, "no change in the sources"),
        (now(expired="shop.s"), FULL, Code.BASE_EXPIRED,
         "the base snapshot of shop.s has expired"),
        (now(1, SORTED_ROWS), FULL, Code.SORTED_AGAIN, "100,000 rows are few enough to sort again"),
        (now(1, SORTED_ROWS + 1), DIFFERENTIAL, Code.CHANGED_ROWS, "1 changed rows"),
        (now(200_000), DIFFERENTIAL, Code.CHANGED_ROWS, "200,000 changed rows"),
        (now(200_001), FULL, Code.SORTED_AGAIN, "200,001 changed rows are 20% of the table"),
        # what it would cost does not matter: the order of the files is what the copy is for
        (now(**taking(9_000, 1)), DIFFERENTIAL, Code.CHANGED_ROWS, "1,000 changed rows"),
        (now(threshold=0.0), DIFFERENTIAL, Code.CHANGED_ROWS, "1,000 changed rows"),
    ],
)  # fmt: skip
def test_an_index(facts: DecisionInputs, action: Action, code: Code, reason: str) -> None:
    found = decide(replace(facts, kind=TableKind.INDEX))
    assert (found.action, found.reason) == (action, Reason(code, reason))
    assert found.predicted_ms is None and found.alternative_ms is None


def test_stored_rows_are_looked_at_only_where_they_can_be_of_use() -> None:
    """Of the rows of another query, of other columns or of another program nothing is compared."""
    for facts in (now(unfilled=(T,)), now(redefined=REPLACED), now(tampered=WROTE)):
        assert decide(facts).afresh
    for facts in (now(redefined=PASSED), now(mode=RefreshMode.FULL), now(expired="shop.s")):
        assert not decide(facts).afresh
    assert decide(cycle(redefined=PASSED)).afresh


def test_who_starts_from_nothing_says_why() -> None:
    asked, gone = rebuilding(ASKED), rebuilding(lost(FileMissing("a.parquet is gone\nmore")))
    failed = rebuilding(Reason(Code.PLAN_FAILED, "the changes cannot be computed: KeyError"))
    assert [each.action for each in (asked, gone, failed)] == [FULL, REINITIALIZE, FULL]
    assert [each.wanted for each in (asked, gone, failed)] == [True, True, False]
    assert [each.fallback for each in (asked, gone, failed)] == [False, False, True]
    assert gone.reason.text == "a file that it needs is missing or damaged: a.parquet is gone"
    assert all(each.afresh for each in (asked, gone, failed))


def test_changes_without_effect_are_no_data() -> None:
    found = without_effect(decide(now(5)), 5)
    assert (found.action, found.reason.code) == (NO_DATA, Code.NO_EFFECT)
    in_full = decide(now(mode=RefreshMode.FULL))
    assert without_effect(in_full, 5) is in_full


def test_cold_start() -> None:
    few, most = decide(now(1_000)), decide(now(1_900_000))
    assert few.action is DIFFERENTIAL
    assert (
        few.reason.text.startswith("1,000 changed rows: predicted ")
        and "in full" in few.reason.text
    )
    assert most.action is FULL
    assert (
        most.reason.text == "in full: predicted 0.90 s against 8.50 s from 1,900,000 changed rows"
    )
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
    assert (found.action, found.predicted_ms, found.alternative_ms) == (DIFFERENTIAL, 9_000, None)
    assert found.reason == Reason(Code.CHANGED_ROWS, "9,000 changed rows in the sources")
    assert decide(now(10_001, 5_000, **taking(9_000, 100))).action is FULL


def test_the_bound_that_users_set() -> None:
    slow = taking(600, 60_000)
    found = decide(now(300_000, threshold=0.25, **slow))
    assert found.action is FULL
    assert found.reason.text == (
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
    assert again.action is DIFFERENTIAL and again.reason.code is Code.MEASURED_AGAIN
    assert decide(now(usual=FULL, overdue=True, **taking(2_100, 1_000))).action is FULL


# -- cycles ---------------------------------------------------------------------------------------


def cycle(delta: int = 0, deleted: int = 0, before: int = 0, **more: Any) -> DecisionInputs:
    strict = more.pop("strict", None)
    modes = dict.fromkeys((A, B), RefreshMode.AUTO)
    return DecisionInputs(
        (A, B),
        {**modes, **({strict: RefreshMode.DIFFERENTIAL} if strict else {})},
        cyclic=True,
        from_changes=Work(delta),
        deleted_rows=deleted,
        rows_before=before,
        **more,
    )


def test_the_first_filling_is_from_empty() -> None:
    found = decide(cycle(unfilled=(A, B)))
    assert (found.strategy, found.action, found.afresh) == (Strategy.EMPTY, FULL, True)
    assert settled(found, Converged(Strategy.EMPTY)).reason.text == "first refresh"


def test_a_new_member_starts_the_others_from_empty() -> None:
    found = decide(cycle(unfilled=(B,)))
    assert found.strategy is Strategy.EMPTY and found.reason.code is Code.NEW_MEMBER
    assert "g.b is new" in found.reason.text


def test_another_query_builds_anew_and_another_time_recomputes() -> None:
    found = decide(cycle(redefined=REPLACED))
    assert (found.strategy, found.action) == (Strategy.EMPTY, REINITIALIZE)
    assert decide(cycle(redefined=PASSED)).action is FULL


def test_an_expired_base_starts_from_empty_unless_that_is_forbidden() -> None:
    assert decide(cycle(expired="g.e")).strategy is Strategy.EMPTY
    with pytest.raises(BaseExpired, match="g.a"):
        decide(cycle(expired="g.e", strict=A))


def test_nothing_changed_costs_nothing() -> None:
    found = decide(cycle(changed=False))
    assert (found.strategy, found.action) == (None, NO_DATA)


def test_inserts_run_on_and_deletes_rederive() -> None:
    assert decide(cycle(5, before=100)).strategy is Strategy.INSERTS
    assert decide(cycle(5, 2, 100)).strategy is Strategy.DELETES


def test_deleting_most_of_the_sources_starts_from_empty() -> None:
    found = decide(cycle(80, 80, 100))
    assert (found.strategy, found.reason.code) == (Strategy.EMPTY, Code.MOST_DELETED)
    assert "80%" in settled(found, Converged(Strategy.EMPTY)).reason.text


def test_a_query_that_cannot_be_planned_is_run_as_it_was_written_unless_that_is_forbidden() -> None:
    found = decide(cycle(5, unplanned=B))
    assert (found.strategy, found.fallback, found.afresh) == (Strategy.EMPTY, True, True)
    assert decide(cycle(changed=False, unplanned=B)).action is NO_DATA
    with pytest.raises(PlanFailed, match=r"g\.a cannot be refreshed .*g\.b"):
        decide(cycle(5, unplanned=B, strict=A))


def test_the_reason_names_the_way_that_was_taken() -> None:
    found = decide(cycle(2, 2, 100))
    down, up = ({A: 5}, {}), ({A: 3}, {})
    rederived = settled(found, Converged(Strategy.DELETES, down, up))
    assert rederived.reason.text.startswith("delete and rederive: 2 changed rows")
    assert "took away 5 rows, then 3 came" in rederived.reason.text
    given_up = settled(found, Converged(Strategy.EMPTY, down, up, gave_up=True))
    assert (given_up.action, given_up.reason.code) == (FULL, Code.MOST_DELETED)
    assert given_up.reason.text.startswith("from empty: 2 changed rows")
    inserted = settled(found, Converged(Strategy.INSERTS, (), up))
    assert inserted.reason.text.startswith("semi-naively: ")


def test_a_strict_member_is_never_recomputed_because_much_was_deleted() -> None:
    assert decide(cycle(100, 100, 100, strict=A)).strategy is Strategy.DELETES
    with pytest.raises(Refused, match=r"g\.a cannot be refreshed from changes.*g\.e"):
        decide(cycle(apart=E, strict=A))
    assert decide(cycle(apart=E)).strategy is Strategy.EMPTY
