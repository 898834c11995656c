"""What a refresh will cost: predicted from what earlier refreshes of the same table cost.

    time = fixed + rate · work        work = DELTA_ROW · delta rows + SCANNED_ROW · scanned rows

The fixed part is planning, starting tasks, writing a file and committing.  Work is what the rows
would cost on the machine that the constants were measured on: a delta row is read, netted, joined
with the stored rows and written, a scanned row is only looked at.  A full refresh has no delta rows
and scans its sources; a refresh from changes scans the stored rows and the sources it reads again.

Each way has its own `fixed` and `rate`, learned from history.  Refreshes with little work tell what is
fixed; those with much work, and the difference between smaller and larger ones, tell the rate.  Both
are medians, so that one slow run (the first of a process, while Spark compiles) moves nothing.  What
was believed before has a vote too, two for refreshes from changes, whose first runs mislead more than
they cost; of two votes the lower counts, so a single run is believed if it is quick.  What was not
measured is taken to be as the constants say, or as quick as the other way if that is quicker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low

DELTA_ROW = 0.004  # ms
SCANNED_ROW = 0.0005
LITTLE = 400.0  # ms of work up to which the fixed part shows
CLEAR_STEP = 40.0  # ms of work between two runs from which their difference shows
LEAST_MS = 20.0
LEAST_RATE = 0.02
VOTES = 2  # of what is believed of refreshes from changes: the first ones are slow
REMEMBERED = 20  # refreshes of each kind that are learned from


@dataclass(frozen=True)
class Work:
    """The rows that a refresh reads, from metadata."""

    delta_rows: int = 0
    scanned_rows: int = 0

    @property
    def ms(self) -> float:
        return DELTA_ROW * self.delta_rows + SCANNED_ROW * self.scanned_rows


@dataclass(frozen=True)
class Run:
    """A refresh that was measured."""

    work: Work
    ms: float


@dataclass(frozen=True)
class CostModel:
    """time = fixed + rate · work"""

    fixed: float = 400.0
    rate: float = 1.0

    def predict(self, work: Work) -> int:
        return round(self.fixed + self.rate * work.ms)


PRIOR = CostModel()


@dataclass(frozen=True)
class Costs:
    """How long each way takes for one stream table."""

    differential: CostModel = PRIOR
    full: CostModel = PRIOR


def learn(differential: Sequence[Run], full: Sequence[Run]) -> Costs:
    """Full refreshes are mostly large and tell a rate; those from changes tell what is fixed."""
    whole = fit(full, PRIOR)
    quick = CostModel(min(whole.fixed, PRIOR.fixed), min(whole.rate, PRIOR.rate))
    from_changes = fit(differential, quick, VOTES)
    return Costs(from_changes, fit(full, CostModel(from_changes.fixed, whole.rate)))


def fit(runs: Sequence[Run], before: CostModel, votes: int = 1) -> CostModel:
    """The line through the runs; `before` is what is believed without them."""
    first = CostModel(_fixed(runs, before, before.rate, votes), before.rate)
    rate = _rate(runs, first, votes)
    return CostModel(_fixed(runs, before, rate, votes), rate)


def _fixed(runs: Sequence[Run], before: CostModel, rate: float, votes: int) -> float:
    rests = [run.ms - rate * run.work.ms for run in runs if run.work.ms <= LITTLE]
    return max(median_low([*[before.fixed] * votes, *rests]), LEAST_MS)


def _rate(runs: Sequence[Run], before: CostModel, votes: int) -> float:
    """The median slope, from nothing to each large run and between runs; longer slopes weigh more."""
    points = [(run.work.ms, run.ms) for run in runs]
    steps = [(work, ms - before.fixed) for work, ms in points if work > LITTLE]
    steps += [
        (work - other, ms - other_ms)
        for work, ms in points
        for other, other_ms in points
        if work - other >= CLEAR_STEP
    ]
    if not steps:
        return before.rate
    heaviest = max(weight for weight, _ in steps)
    slopes = sorted([(before.rate, votes * heaviest), *((rise / run, run) for run, rise in steps)])
    return max(_weighted_median(slopes), LEAST_RATE)


def _weighted_median(values: Sequence[tuple[float, float]]) -> float:
    """Of sorted values with weights, the first that half of the weight does not exceed."""
    half = sum(weight for _, weight in values) / 2
    for value, weight in values:
        half -= weight
        if half <= 0:
            return value
    return values[-1][0]
