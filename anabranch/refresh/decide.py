"""Which way a refresh goes, and why: a pure decision."""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.errors import BaseExpired
from anabranch.model import Action, RefreshMode
from anabranch.refresh.cost import Costs, Work

FIRST = "first refresh"
ASKED = "asked for"  # a full refresh that somebody wanted, whatever is stored
NOT_INCREMENTAL = "not incremental: "
SMALL_ROWS = 10_000  # below this the fixed cost of a Spark job decides, and both ways cost the same
# Leaving changes for a recompute must save this part of the time, and this much of it: a recompute
# also replaces files that others read, and predictions are no better than that.
WORTH_SHARE = 0.1
TIME_PASSED = "the current time is now "  # the query is the same, what it asks for is not
WORTH_MS = 200
SMALL_LOSS = 2.0  # times the time in full that a refresh may take only to be measured again


@dataclass(frozen=True)
class DecisionInputs:
    """All that the decision looks at; sizes are rows known from metadata."""

    table: str
    mode: RefreshMode
    populated: bool
    redefined: str | None = None  # why the stored rows do not follow the query as it is now
    tampered: str | None = None  # why the stored rows cannot be trusted
    obstacles: tuple[str, ...] = ()  # reason codes of what is not incremental
    expired: str | None = None  # a source whose base snapshot is gone
    always: bool = False  # the result depends on more than the sources, so it is never up to date
    changed: bool = True
    source_rows: int = 0
    stored_rows: int = 0
    from_changes: Work = field(default_factory=Work)  # what each way would read
    in_full: Work = field(default_factory=Work)
    costs: Costs = field(default_factory=Costs)
    readers_ms: int = 0  # what those that read the table would pay for rows that were all replaced
    usual: Action = Action.DIFFERENTIAL  # the way it went the last time there was a choice
    overdue: bool = False  # it went in full so often that the cost from changes is old news
    threshold: float | None = None  # delta larger than this part of the sources: recompute

    @property
    def delta_rows(self) -> int:
        return self.from_changes.delta_rows

    @property
    def small(self) -> bool:
        """So few rows that both ways cost the same, unless the plan of the change is much larger."""
        rows = max(self.delta_rows, self.source_rows, self.stored_rows)
        return rows <= SMALL_ROWS and self.from_changes.ms - self.in_full.ms <= WORTH_MS

    @property
    def differential_ms(self) -> int:
        return self.costs.differential.predict(self.from_changes)

    @property
    def full_ms(self) -> int:
        return self.costs.full.predict(self.in_full)


@dataclass(frozen=True)
class Decision:
    """`alternative_ms` is predicted for the way not taken, where there was a choice."""

    action: Action
    reason: str
    predicted_ms: int | None = None
    alternative_ms: int | None = None
    fallback: bool = False  # another way was taken first, and failed


def decide(now: DecisionInputs) -> Decision:
    """The first line that applies decides."""
    if not now.populated:
        return _full(now, FIRST)
    if now.redefined:
        same = now.redefined.startswith(TIME_PASSED)
        return _full(now, now.redefined, Action.FULL if same else Action.REINITIALIZE)
    if now.tampered:
        return _full(now, now.tampered, Action.REINITIALIZE)
    if now.expired and now.mode is RefreshMode.DIFFERENTIAL:
        raise BaseExpired(
            f"{now.table} cannot be refreshed from changes: the snapshot of {now.expired} that it "
            "was built from has expired",
            hint=f"REFRESH STREAM TABLE {now.table} FULL recomputes it once",
        )
    if not now.changed and not now.expired and not now.always:
        return Decision(Action.NO_DATA, "no change in the sources")
    if now.mode is RefreshMode.FULL:
        return _full(now, "refresh mode is FULL")
    if now.obstacles:
        return _full(now, NOT_INCREMENTAL + ", ".join(now.obstacles))
    if now.expired:
        return _full(now, f"the base snapshot of {now.expired} has expired")
    if now.mode is RefreshMode.DIFFERENTIAL or now.small:
        reason = f"{now.delta_rows:,} changed rows in the sources"
        return Decision(Action.DIFFERENTIAL, reason, now.differential_ms)
    return _bounded(now) or _cheaper(now)


def _full(now: DecisionInputs, reason: str, action: Action = Action.FULL) -> Decision:
    return Decision(action, reason, now.full_ms)


def _bounded(now: DecisionInputs) -> Decision | None:
    """The bound that the user has set."""
    if now.threshold is None or now.delta_rows <= now.threshold * now.source_rows:
        return None
    share = now.delta_rows / max(now.source_rows, 1)
    reason = (
        f"{now.delta_rows:,} changed rows are {share:.0%} of the sources, "
        f"above full_refresh_threshold ({now.threshold:.0%})"
    )
    return Decision(Action.FULL, reason, now.full_ms, now.differential_ms)


def _cheaper(now: DecisionInputs) -> Decision:
    """From changes, unless recomputing is clearly cheaper; back again when it saves half of that.

    Between the two borders the usual way stays, so that it does not flip-flop.
    """
    differential, full = now.differential_ms, now.full_ms
    changed = f"{now.delta_rows:,} changed rows"
    if not _in_full(now):
        reason = f"{changed}: predicted {seconds(differential)} against {seconds(full)} in full"
        return Decision(Action.DIFFERENTIAL, reason, differential, full)
    if now.overdue and differential <= SMALL_LOSS * full:
        reason = f"{changed}: measured again, after many refreshes in full"
        return Decision(Action.DIFFERENTIAL, reason, differential, full)
    reason = f"in full: predicted {seconds(full)} against {seconds(differential)} from {changed}"
    return Decision(Action.FULL, reason, full, differential)


def _in_full(now: DecisionInputs) -> bool:
    saved = now.differential_ms - now.full_ms - now.readers_ms
    worth = max(WORTH_SHARE * now.differential_ms, WORTH_MS)
    return saved > (worth / 2 if now.usual is Action.FULL else worth)


def seconds(ms: int) -> str:
    return f"{ms / 1000:.2f} s" if ms < 10_000 else f"{ms / 1000:,.0f} s"


@dataclass(frozen=True)
class Layout:
    """How the stored rows lie on disk, from metadata."""

    rows: int
    marked: int  # rows marked by position deletes
    delete_files: int
    data_files: int = 0


def rewrites(stored: Layout, small_table_rows: int) -> bool:
    """Rewrite small, mark large; a table with many marks is rewritten to get rid of them."""
    return (
        stored.rows <= small_table_rows
        or stored.marked > 0.3 * stored.rows
        or stored.delete_files > 50
    )
