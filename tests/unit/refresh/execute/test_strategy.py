"""Which way a component goes, and how that is told."""

from __future__ import annotations

import json

import pytest

from anabranch.catalog.bounds import bounds_of
from anabranch.catalog.streams import StreamTable
from anabranch.delta.fixpoint import Converged, NoFixedPoint, Strategy
from anabranch.errors import BaseExpired, Refused
from anabranch.model import Action, FixpointBound, FixpointBounds
from anabranch.names import TableName
from anabranch.refresh.decide import FIRST, TIME_PASSED
from anabranch.refresh.execute.strategy import Facts, choice_of, decide, not_converged, rounds_text

A, B = TableName.of("g", "a"), TableName.of("g", "b")


def test_the_first_filling_is_from_empty() -> None:
    plan = decide(Facts(unfilled=[A, B], members=2))
    assert (plan.strategy, plan.action, plan.afresh) == (Strategy.EMPTY, Action.FULL, True)
    assert choice_of(plan, Converged(Strategy.EMPTY)).reason == FIRST


def test_a_new_member_starts_the_others_from_empty() -> None:
    plan = decide(Facts(unfilled=[B], members=2))
    assert plan.strategy is Strategy.EMPTY and "g.b is new" in plan.reason


def test_another_query_builds_anew_and_another_time_recomputes() -> None:
    plan = decide(Facts(members=2, redefined={B: "the query changed"}))
    assert (plan.strategy, plan.action) == (Strategy.EMPTY, Action.REINITIALIZE)
    plan = decide(Facts(members=2, redefined={B: f"{TIME_PASSED}2026"}))
    assert plan.action is Action.FULL


def test_an_expired_base_starts_from_empty_unless_that_is_forbidden() -> None:
    assert decide(Facts(members=2, expired="g.e")).strategy is Strategy.EMPTY
    with pytest.raises(BaseExpired, match="g.a"):
        decide(Facts(members=2, expired="g.e", strict=A))


def test_nothing_changed_costs_nothing() -> None:
    plan = decide(Facts(members=2, changed=False))
    assert (plan.strategy, plan.action) == (None, Action.NO_DATA)


def test_inserts_run_on_and_deletes_rederive() -> None:
    assert decide(Facts(members=2, delta_rows=5, source_rows=100)).strategy is Strategy.INSERTS
    facts = Facts(members=2, delta_rows=5, deleted_rows=2, source_rows=100)
    assert decide(facts).strategy is Strategy.DELETES


def test_deleting_most_of_the_sources_starts_from_empty() -> None:
    plan = decide(Facts(members=2, delta_rows=80, deleted_rows=80, source_rows=100))
    assert plan.strategy is Strategy.EMPTY
    assert "80%" in choice_of(plan, Converged(Strategy.EMPTY)).reason


def test_the_reason_names_the_way_that_was_taken() -> None:
    plan = decide(Facts(members=2, delta_rows=2, deleted_rows=2, source_rows=100))
    down, up = ({A: 5}, {}), ({A: 3}, {})
    rederived = choice_of(plan, Converged(Strategy.DELETES, down, up))
    assert rederived.reason.startswith("delete and rederive: 2 changed rows")
    assert "took away 5 rows, then 3 came" in rederived.reason
    given_up = choice_of(plan, Converged(Strategy.EMPTY, down, up, gave_up=True))
    assert given_up.action is Action.FULL
    assert given_up.reason.startswith("from empty: 2 changed rows")
    assert choice_of(plan, Converged(Strategy.INSERTS, (), up)).reason.startswith("semi-naively: ")


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


def test_a_strict_member_is_never_recomputed_because_much_was_deleted() -> None:
    facts = Facts(members=2, delta_rows=100, deleted_rows=100, source_rows=100, strict=A)
    assert decide(facts).strategy is Strategy.DELETES
    with pytest.raises(Refused, match=r"g\.a cannot be refreshed from changes.*g\.e"):
        decide(Facts(members=2, apart=TableName.of("g", "e"), strict=A))
    assert decide(Facts(members=2, apart=TableName.of("g", "e"))).strategy is Strategy.EMPTY


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
