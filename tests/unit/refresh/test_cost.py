"""The cost model learns from few refreshes, and from the right ones."""

from __future__ import annotations

import random

import pytest

from anabranch.refresh.cost import PRIOR, CostModel, Run, Work, fit, learn

SMALL = Work(delta_rows=100, scanned_rows=1_000)
LARGE = Work(scanned_rows=10_000_000)


def runs(work: Work, *times: float) -> list[Run]:
    return [Run(work, ms) for ms in times]


def test_without_history_the_constants_decide() -> None:
    costs = learn([], [])
    assert costs.differential == costs.full == PRIOR
    assert costs.differential.predict(SMALL) < 500 < costs.full.predict(LARGE)


def test_more_work_never_costs_less() -> None:
    line = learn(runs(SMALL, 700, 800, 900), runs(LARGE, 9_000, 8_000)).full
    times = [line.predict(Work(n, 10 * n)) for n in range(0, 1_000_000, 50_000)]
    assert times == sorted(times)


def test_small_refreshes_tell_what_is_fixed() -> None:
    costs = learn(runs(SMALL, *[1_500] * 5), [])
    assert costs.differential.predict(SMALL) == pytest.approx(1_500, abs=10)
    assert costs.differential.rate == PRIOR.rate
    assert costs.full.fixed == costs.differential.fixed, "the same query, not measured in full"


def test_large_refreshes_tell_the_rate() -> None:
    costs = learn([], runs(LARGE, *[PRIOR.fixed + 3 * LARGE.ms] * 5))
    assert costs.full.rate == pytest.approx(3)
    assert costs.full.fixed == PRIOR.fixed
    assert costs.differential == PRIOR, "nobody has measured it"


def test_a_quick_machine_is_quick_both_ways() -> None:
    assert learn([], runs(SMALL, *[100] * 4)).differential.predict(SMALL) == 100


def test_both_are_found_in_noise() -> None:
    noise, found = random.Random(1), list[Run]()
    for rows in [1_000, 2_000, 5_000, 300_000, 800_000, 2_000_000] * 3:
        work = Work(delta_rows=rows)
        found.append(Run(work, (900 + 0.5 * work.ms) * noise.uniform(0.9, 1.2)))
    line = fit(found, PRIOR)
    assert line.fixed == pytest.approx(900, rel=0.15)
    assert line.rate == pytest.approx(0.5, rel=0.15)


def test_one_slow_run_moves_nothing() -> None:
    steady = learn(runs(SMALL, *[600] * 6), runs(LARGE, *[4_000] * 3))
    shaken = learn(runs(SMALL, 9_000, *[600] * 6), runs(LARGE, 60_000, *[4_000] * 3))
    assert shaken == steady


def test_the_first_run_of_a_process_is_believed_only_if_it_is_quick() -> None:
    assert fit(runs(SMALL, 9_000), PRIOR) == PRIOR
    assert fit(runs(SMALL, 200), PRIOR).predict(SMALL) == 200


def test_it_follows_a_machine_that_becomes_slower() -> None:
    mixed = [*[2_000] * 9, *[500] * 6]  # newest first
    assert fit(runs(SMALL, *mixed), PRIOR).predict(SMALL) == pytest.approx(2_000, abs=10)


def test_no_time_is_predicted_below_nothing() -> None:
    line = fit([*runs(SMALL, *[0] * 5), *runs(LARGE, *[0] * 5)], CostModel(0, 0))
    assert line.fixed > 0 and line.rate > 0
