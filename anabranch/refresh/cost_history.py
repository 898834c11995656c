"""What the history of a stream table tells about its next refresh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from anabranch.catalog import history
from anabranch.catalog.events import MODE_CHANGED, REINITIALIZED, Event
from anabranch.catalog.history import Refresh
from anabranch.catalog.store import Connection
from anabranch.model import Action
from anabranch.names import TableName
from anabranch.refresh.cost import REMEMBERED, Costs, Run, Work, learn
from anabranch.refresh.decide import Code, Decision, DecisionInputs

LONG = 30  # so many refreshes in full make the cost from changes old news


@dataclass(frozen=True)
class CostHistory:
    """Refreshes with data since the table was filled or built anew, newest first."""

    differential: tuple[Refresh, ...] = ()
    full: tuple[Refresh, ...] = ()  # the filling too

    @property
    def costs(self) -> Costs:
        return learn(runs(self.differential), runs(self.full))

    @property
    def later(self) -> list[Refresh]:
        """Newest first, without the filling."""
        lines = [
            line
            for line in (*self.differential, *self.full)
            if not fills(line) and line.reason_code != Code.ASKED  # that was no choice of ours
        ]
        return sorted(lines, key=lambda line: line.started_at, reverse=True)

    @property
    def usual(self) -> Action:
        """The way taken the last time there was a choice."""
        chosen = [line.action for line in self.later if line.alternative_ms is not None]
        return chosen[0] if chosen else Action.DIFFERENTIAL

    @property
    def overdue(self) -> bool:
        newest = self.later[:LONG]
        return len(newest) == LONG and all(line.action is Action.FULL for line in newest)


Runs = Mapping[Action, Sequence[Refresh]]
LIMITS = {Action.DIFFERENTIAL: REMEMBERED, Action.FULL: LONG, Action.REINITIALIZE: 1}


def last_runs(c: Connection, names: Iterable[TableName]) -> Mapping[TableName, Runs]:
    """What `recall` needs, of several tables at once."""
    return history.last_runs_of(c, names, LIMITS)


def recall(runs: Runs) -> CostHistory:
    return past(*(runs.get(action, ()) for action in LIMITS))


def past(
    differential: Sequence[Refresh], full: Sequence[Refresh], rebuilt: Sequence[Refresh] = ()
) -> CostHistory:
    """What came before the last filling was another query, or another table of the same name."""
    whole = [*full, *rebuilt]
    begin = max((line.started_at for line in whole if fills(line)), default=None)
    return CostHistory(
        tuple(line for line in differential if begin is None or line.started_at >= begin),
        tuple(line for line in whole if begin is None or line.started_at >= begin),
    )


def fills(line: Refresh) -> bool:
    return line.action is Action.REINITIALIZE or line.reason_code == Code.FIRST


def runs(lines: Sequence[Refresh]) -> list[Run]:
    """Lines that were measured, as the cost model wants them."""
    return [
        Run(Work(_delta_rows(line), line.scanned_rows), line.duration_ms)
        for line in lines[:REMEMBERED]
        if line.scanned_rows is not None
    ]


def _delta_rows(line: Refresh) -> int:
    return line.delta_rows if line.action is Action.DIFFERENTIAL else 0


def event_of(
    table: TableName, before: CostHistory, now: DecisionInputs, decision: Decision
) -> Event | None:
    """What users should hear of: another way than the last time, or than was said at creation."""
    if not now.populated or decision.action is Action.NO_DATA:
        return None
    if decision.action is Action.REINITIALIZE:
        also = f"; not incremental: {', '.join(now.obstacles)}" if now.obstacles else ""
        return Event(table, REINITIALIZED, f"rebuilt: {decision.reason}{also}")
    last = before.later[0] if before.later else None
    usual = last.action if last else said(now)
    if decision.action is not usual:
        message = f"{decision.action.value} after {usual.value}: {decision.reason}"
        return Event(table, MODE_CHANGED, message)
    obstructed = decision.reason.code is Code.NOT_INCREMENTAL
    if last and (last.reason_code == Code.NOT_INCREMENTAL) != obstructed:
        return Event(table, MODE_CHANGED, f"still {decision.action.value}: {decision.reason}")
    return None


def said(now: DecisionInputs) -> Action:
    """What creation promised."""
    in_full = now.is_full or now.obstacles
    return Action.FULL if in_full else Action.DIFFERENTIAL
