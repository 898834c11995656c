"""Which way a component goes, and why: a pure decision, and the words for what it came to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.catalog.bounds import past
from anabranch.delta.fixpoint import Converged, Counts, NoFixedPoint, Strategy
from anabranch.errors import BaseExpired, NotConverged, PlanFailed, Refused
from anabranch.model import Action, FixpointBounds
from anabranch.names import TableName
from anabranch.refresh.decide import ASKED, FIRST, TIME_PASSED, Decision

TOO_MANY = 0.5  # of all rows lost: then starting from empty is cheaper than bringing most back
FEW = 100  # rows that are lost without counting


@dataclass(frozen=True)
class Facts:
    """All that the decision looks at; members are named where something is said of them."""

    unfilled: Sequence[TableName] = ()
    members: int = 1
    redefined: Mapping[TableName, str] | None = None
    apart: TableName | None = None  # a source of which members have read different versions
    expired: str | None = None
    strict: TableName | None = None  # a member that must not be recomputed
    unplanned: TableName | None = None  # a member whose query our own planning fails on
    changed: bool = True
    delta_rows: int = 0
    deleted_rows: int = 0
    source_rows: int = 0  # before the change


@dataclass(frozen=True)
class Plan:
    """`way` is None when there is nothing to do; `afresh`: stored rows are of no use."""

    strategy: Strategy | None
    action: Action
    reason: str
    afresh: bool = False
    fallback: bool = False  # another way was tried first, and failed


def decide(facts: Facts) -> Plan:
    """The first line that applies decides."""
    if len(facts.unfilled) == facts.members:
        return Plan(Strategy.EMPTY, Action.FULL, FIRST, afresh=True)
    if facts.unfilled:
        reason = f"{facts.unfilled[0]} is new in the circle"
        return Plan(Strategy.EMPTY, Action.FULL, reason, afresh=True)
    if facts.unplanned is not None and facts.strict is not None:
        raise PlanFailed(
            f"{facts.strict} cannot be refreshed from changes: those of {facts.unplanned}, which is in "
            "its cycle, cannot be planned",
            hint="this is a fault of Anabranch, not of your query or data: please report it with the "
            f"answer of EXPLAIN STREAM TABLE {facts.unplanned}; REFRESH STREAM TABLE {facts.strict} "
            "FULL recomputes the cycle",
        )
    if facts.redefined:
        name, why = next(iter(facts.redefined.items()))
        action = Action.FULL if why.startswith(TIME_PASSED) else Action.REINITIALIZE
        return Plan(Strategy.EMPTY, action, f"{name}: {why}", afresh=True)
    if facts.apart is not None and facts.strict is not None:
        raise Refused(
            f"{facts.strict} cannot be refreshed from changes: the members of its cycle have read "
            f"{facts.apart} at different versions",
            hint=f"REFRESH STREAM TABLE {facts.strict} FULL recomputes the cycle once",
        )
    if facts.apart is not None:
        reason = f"the members have read {facts.apart} at different versions"
        return Plan(Strategy.EMPTY, Action.FULL, reason)
    if facts.expired and facts.strict is not None:
        raise BaseExpired(
            f"{facts.strict} cannot be refreshed from changes: the snapshot of {facts.expired} "
            "that it was built from has expired",
            hint=f"REFRESH STREAM TABLE {facts.strict} FULL recomputes the cycle once",
        )
    if facts.expired:
        reason = f"the base snapshot of {facts.expired} has expired"
        return Plan(Strategy.EMPTY, Action.FULL, reason)
    if not facts.changed:
        return Plan(None, Action.NO_DATA, "no change in the sources")
    if facts.unplanned is not None:
        reason = (
            f"the changes of {facts.unplanned} cannot be planned, which is a fault of Anabranch"
        )
        return Plan(Strategy.EMPTY, Action.FULL, reason, afresh=True, fallback=True)
    if facts.strict is None and facts.deleted_rows > TOO_MANY * facts.source_rows:
        share = facts.deleted_rows / max(facts.source_rows, 1)
        reason = f"{facts.deleted_rows:,} deleted rows are {share:.0%} of what the sources had"
        return Plan(Strategy.EMPTY, Action.FULL, reason)
    return Plan(
        Strategy.DELETES if facts.deleted_rows else Strategy.INSERTS,
        Action.DIFFERENTIAL,
        f"{facts.delta_rows:,} changed rows in the sources",
    )


def choice_of(plan: Plan, done: Converged) -> Decision:
    """The way that it went in the end, in words."""
    if plan.reason in (FIRST, ASKED):
        return Decision(plan.action, plan.reason)
    if done.gave_up:
        reason = (
            f"from empty: {plan.reason} took away {done.lost():,} rows, more than "
            f"{TOO_MANY:.0%} of the circle"
        )
        return Decision(Action.FULL, reason)
    if done.strategy is Strategy.EMPTY:
        return Decision(plan.action, f"from empty: {plan.reason}")
    if done.strategy is Strategy.DELETES:
        reason = (
            f"delete and rederive: {plan.reason} took away {done.lost():,} rows, "
            f"then {done.added():,} came or came back"
        )
        return Decision(plan.action, reason)
    return Decision(plan.action, f"semi-naively: {plan.reason} brought {done.added():,} rows")


def rounds_text(done: Converged) -> str:
    """Rows per round, for history."""
    sides = (("lost", done.over_deleted), ("added", done.derived))
    return json.dumps({side: [_named(each) for each in rounds] for side, rounds in sides if rounds})


def _named(counts: Counts) -> dict[str, int]:
    return {str(name): rows for name, rows in sorted(counts.items())}


def not_converged(
    error: NoFixedPoint, members: Sequence[TableName], bounds: FixpointBounds
) -> NotConverged:
    """How far it got, at which bound it stopped, and who was still changing."""
    verb = "lost" if error.down else "grew by"
    growing = ", ".join(
        f"{name} still {verb} {rows:,} row{'s' if rows > 1 else ''}"
        for name, rows in sorted(error.growing.items())
        if rows
    )
    total = sum(sum(each.values()) for each in error.rounds)
    circle = " and ".join(str(name) for name in members)
    setting = f"({error.bound.value} = …)"
    mend = f"bound the values that grow, keep rows once with UNION, or raise {error.bound.value}"
    cure = f"{mend}: ALTER STREAM TABLE {members[0]} SET {setting}"
    return NotConverged(
        f"{circle}: no fixed point after {len(error.rounds)} rounds, which "
        f"{'took away' if error.down else 'added'} {total:,} rows{past(error.bound, bounds)}: "
        f"{growing}",
        members=members,
        hint=f"{cure}; then ALTER STREAM TABLE … RESUME or refresh",
        cure=cure,
        cure_at_creation=f"{mend}: CREATE STREAM TABLE … WITH {setting}",
    )
