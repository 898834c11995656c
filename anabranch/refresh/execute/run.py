"""How a decision is carried out, for a table as for a cycle.

    changes  →  changes, carefully  →  all rows by our plan  →  all rows by the query as it was written

Each way is tried where the one before has failed by a fault of ours, as far as the refresh modes of the
members allow.  The query as it was written also tells whose fault it is: if it fails as well, the data
is at fault, else we are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Protocol

from anabranch.delta.fixpoint import Strategy
from anabranch.errors import FileMissing, InternalError, PlanFailed
from anabranch.model import Action
from anabranch.names import TableName
from anabranch.refresh.decide import Code, Decision, Reason
from anabranch.spark.errors import Blame, as_written_failed, blame, plan_failed, said


class Work(Protocol):
    """One component, and what can be done for it; what was staged before a way failed is undone by
    the next."""

    written: ClassVar[str]  # in words: that it took the query as it was written

    @property
    def name(self) -> TableName:
        """The table that errors name."""

    @property
    def strict(self) -> bool:
        """Whether a member must not be recomputed unless somebody asks for it."""

    @property
    def is_planned(self) -> bool:
        """Whether there is a plan of ours for all rows."""

    @property
    def is_beyond_spark(self) -> bool:
        """Whether Spark cannot run a query as it was written."""

    def from_changes(self, decision: Decision) -> None: ...

    def carefully(self, decision: Decision) -> bool:
        """From the changes, without putting together what never was in a result; False where that
        is what `from_changes` has done."""

    def in_full(self, decision: Decision) -> None: ...

    def as_written(self, decision: Decision) -> None: ...

    def judged(self, error: Exception, *, of_changes: bool) -> Exception:
        """The error to raise for a plan that failed: that of the changes, or that of all rows."""


def execute(work: Work, decision: Decision, full_ms: int | None = None) -> Decision:
    """Stage what was decided; returns the decision that held in the end."""
    if decision.strategy is None:
        return decision
    if decision.action is Action.DIFFERENTIAL:
        try:
            _from_changes(work, decision)
            return decision
        except Exception as error:
            decision = _instead_of_changes(work, error, full_ms)
    return _in_full(work, decision)


def _from_changes(work: Work, decision: Decision) -> None:
    """Rows that came and went since the last refresh, and pairs of old and new rows that a join delta
    meets on its way, were never in the result: what breaks on them is our plan.  Who cannot recompute
    tries it without them."""
    try:
        return work.from_changes(decision)
    except Exception as error:
        failed = error
    if work.strict and blame(failed) is Blame.OPEN:
        try:
            if work.carefully(decision):
                return None
        except Exception as error:
            failed = error
    raise failed


def _instead_of_changes(work: Work, error: Exception, full_ms: int | None) -> Decision:
    """All rows, unless a member must not be recomputed, or it is nobody's fault here."""
    if work.strict:
        judged = work.judged(error, of_changes=True)
        if judged is error:
            raise error
        raise judged from error
    if blame(error) is Blame.WORLD and not isinstance(error, FileMissing):
        raise error
    why = not_from_changes(error)
    return Decision(Action.FULL, why, Strategy.EMPTY, True, full_ms, fallback=True)


def _in_full(work: Work, decision: Decision) -> Decision:
    if work.is_planned:
        try:
            work.in_full(decision)
            return decision
        except Exception as error:
            if blame(error) is Blame.WORLD:
                raise
            if work.is_beyond_spark or (work.strict and not decision.wanted):
                judged = of_all_rows(work.judged(error, of_changes=False), decision)
                raise judged from error
            decision = _by_queries(work, decision, error)
    try:
        work.as_written(decision)
    except Exception as error:
        raise of_all_rows(as_written_failed(work.name, error), decision) from error
    return decision


def _by_queries(work: Work, decision: Decision, error: Exception) -> Decision:
    reason = decision.reason
    if reason.code is not Code.ASKED:
        reason = reason.also(f"by {work.written}: {said(error)}")
    return replace(decision, reason=reason, afresh=True, fallback=True)


def not_from_changes(error: BaseException) -> Reason:
    """Why all rows are computed where our own code failed on the way from the changes."""
    return Reason(Code.PLAN_FAILED, f"the changes cannot be computed: {said(error)}")


def of_all_rows(error: Exception, decision: Decision) -> Exception:
    """The error, marked where nothing that is stored was used: whoever recomputes once more meets it
    again."""
    if isinstance(error, PlanFailed) and decision.afresh:
        error.in_full = True
    return error


def judge(table: TableName, error: Exception, trial: Callable[[], None] | None) -> Exception:
    """Whose fault a failed plan is: the query as it was written decides.

    What Spark says of an error that it met among rows does not tell whether the rows are at fault or a
    plan of ours that made values which the query never has.  `trial` runs the query as it was written,
    over the same snapshots, with nobody looking at its rows; None where there is no way to run it.
    """
    match blame(error):
        case Blame.WORLD:
            return error
        case Blame.PLAN:
            return plan_failed(table, error)
    if trial is None:
        return plan_failed(table, error) if isinstance(error, InternalError) else error
    try:
        trial()
    except Exception as found:
        return as_written_failed(table, found)
    return plan_failed(table, error)
