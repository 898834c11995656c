"""What history tells: costs of this very query, the usual way, and events when it changes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from anabranch.catalog.history import COMPLETED, Refresh
from anabranch.model import Action, RefreshMode
from anabranch.names import TableName
from anabranch.refresh.cost import PRIOR
from anabranch.refresh.cost_history import LONG, CostHistory, event_of, past
from anabranch.refresh.decide import Code, Decision, DecisionInputs, Reason

T = TableName.of("shop", "t")
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
DIFFERENTIAL, FULL, REINITIALIZE = Action.DIFFERENTIAL, Action.FULL, Action.REINITIALIZE


def line(
    action: Action, at: int, *, ms: int = 500, code: Code | None = None, chosen: bool = True
) -> Refresh:
    return Refresh(
        T,
        action,
        COMPLETED,
        reason_code=code,
        duration_ms=ms,
        delta_rows=10,
        scanned_rows=100,
        alternative_ms=1 if chosen else None,
        started_at=START + timedelta(seconds=at),
    )


def recalled(*lines: Refresh) -> CostHistory:
    """Lines as history gives them: of one kind each, newest first."""

    def of(action: Action) -> list[Refresh]:
        found = [each for each in lines if each.action is action]
        return sorted(found, key=lambda each: each.started_at, reverse=True)

    return past(of(DIFFERENTIAL), of(FULL), of(REINITIALIZE)[:1])


def test_costs_of_another_query_do_not_count() -> None:
    old = [line(DIFFERENTIAL, at, ms=9_000) for at in range(9)]
    assert recalled(*old).costs.differential.fixed > 8_000
    assert recalled(*old, line(REINITIALIZE, 20)).costs.differential == PRIOR
    assert recalled(*old, line(FULL, 20, code=Code.FIRST)).costs.differential == PRIOR


def test_lines_of_older_versions_have_no_measure() -> None:
    unmeasured = Refresh(T, DIFFERENTIAL, COMPLETED, duration_ms=9_000)
    assert recalled(unmeasured, unmeasured).costs.differential == PRIOR


def test_the_usual_way_is_the_last_that_was_chosen() -> None:
    assert recalled(line(FULL, 1, code=Code.FIRST)).usual is DIFFERENTIAL
    assert recalled(line(DIFFERENTIAL, 1), line(FULL, 2)).usual is FULL
    assert recalled(line(FULL, 1), line(DIFFERENTIAL, 2)).usual is DIFFERENTIAL
    assert recalled(line(DIFFERENTIAL, 1), line(FULL, 2, chosen=False)).usual is DIFFERENTIAL


def test_many_refreshes_in_full_make_the_other_way_overdue() -> None:
    many = [line(FULL, at) for at in range(LONG)]
    assert recalled(line(DIFFERENTIAL, -1), *many).overdue
    assert not recalled(*many[1:]).overdue
    assert not recalled(*many, line(DIFFERENTIAL, LONG)).overdue


NOW = DecisionInputs((T,), {T: RefreshMode.AUTO})
OBSTRUCTED = DecisionInputs((T,), {T: RefreshMode.AUTO}, obstacles=("WINDOW",))


def decision(action: Action, text: str, code: Code = Code.CHEAPER) -> Decision:
    return Decision(action, Reason(code, text))


@pytest.mark.parametrize(
    ("before", "now", "decided", "kind"),
    [
        ((), NOW, decision(DIFFERENTIAL, "3 rows"), None),
        ((), NOW, decision(FULL, "in full"), "MODE_CHANGED"),
        ((), OBSTRUCTED, decision(FULL, "not incremental: WINDOW", Code.NOT_INCREMENTAL), None),
        ((line(DIFFERENTIAL, 1),), NOW, decision(DIFFERENTIAL, "3 rows"), None),
        ((line(DIFFERENTIAL, 1),), NOW, decision(FULL, "in full"), "MODE_CHANGED"),
        ((line(DIFFERENTIAL, 1),), NOW, decision(Action.NO_DATA, "no change"), None),
        ((line(FULL, 1),), NOW, decision(DIFFERENTIAL, "3 rows"), "MODE_CHANGED"),
        ((line(FULL, 1),), NOW, decision(FULL, "in full"), None),
        ((line(FULL, 1, code=Code.FIRST),), NOW, decision(DIFFERENTIAL, "3 rows"), None),
        ((line(REINITIALIZE, 1),), NOW, decision(DIFFERENTIAL, "3 rows"), None),
        ((line(FULL, 1, code=Code.NOT_INCREMENTAL),), NOW, decision(FULL, "in full"),
         "MODE_CHANGED"),
        ((line(DIFFERENTIAL, 1),), NOW, decision(REINITIALIZE, "replaced"), "REINITIALIZED"),
    ],
)  # fmt: skip
def test_events(
    before: tuple[Refresh, ...], now: DecisionInputs, decided: Decision, kind: str | None
) -> None:
    found = event_of(T, recalled(*before), now, decided)
    assert (found.kind if found else None) == kind
    assert found is None or (found.table == T and decided.reason.text in found.message)


def test_what_events_say() -> None:
    changed = event_of(T, recalled(line(DIFFERENTIAL, 1)), NOW, decision(FULL, "in full: 1 s"))
    rebuilt = event_of(T, CostHistory(), OBSTRUCTED, decision(REINITIALIZE, "the query changed"))
    assert changed and changed.message == "FULL after DIFFERENTIAL: in full: 1 s"
    assert rebuilt
    assert rebuilt.message == "rebuilt: the query changed; not incremental: WINDOW"
