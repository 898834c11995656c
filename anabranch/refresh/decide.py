"""How a component is refreshed, and why: a pure decision from what is known before Spark is asked.

A component is one table, or several that read each other.  `decide` asks its RULES in order; the first
that has an answer decides.  A reason is a code and its text: code looks at codes, people read texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from anabranch.delta.fixpoint import Converged, Strategy
from anabranch.errors import AnabranchError, BaseExpired, PlanFailed, Refused
from anabranch.model import Action, RefreshMode, TableKind
from anabranch.names import TableName
from anabranch.refresh.cost import Costs, Work

SMALL_ROWS = 10_000  # below this the fixed cost of a Spark job decides, and both ways cost the same
# Leaving changes for a recompute must save this part of the time, and this much of it: a recompute
# also replaces files that others read, and predictions are no better than that.
WORTH_SHARE = 0.1
WORTH_MS = 200
SMALL_LOSS = 2.0  # times the time in full that a refresh may take only to be measured again
SORTED_ROWS = 100_000  # up to here an index is sorted again when its table changes
SORTED_SHARE = 0.2  # and where more than this part of the table has changed
TOO_MANY = 0.5  # of all rows lost: then a cycle from empty is cheaper than bringing most back


class Code(str, Enum):
    """Why a refresh went as it did: what history keeps beside the text."""

    FIRST = "FIRST"
    ASKED = "ASKED"  # somebody wanted all rows computed, whatever is stored
    FILES_LOST = "FILES_LOST"
    PLAN_FAILED = "PLAN_FAILED"  # our own code failed on the way from the changes
    NEW_MEMBER = "NEW_MEMBER"
    REDEFINED = "REDEFINED"
    TIME_PASSED = "TIME_PASSED"  # the query is the same, what it asks for is not
    TAMPERED = "TAMPERED"
    SOURCES_APART = "SOURCES_APART"  # members have read a source at different versions
    BASE_EXPIRED = "BASE_EXPIRED"
    NO_CHANGE = "NO_CHANGE"
    NO_EFFECT = "NO_EFFECT"
    MODE_FULL = "MODE_FULL"
    NOT_INCREMENTAL = "NOT_INCREMENTAL"
    UNPLANNED = "UNPLANNED"
    MOST_DELETED = "MOST_DELETED"
    CHANGED_ROWS = "CHANGED_ROWS"
    ABOVE_THRESHOLD = "ABOVE_THRESHOLD"
    CHEAPER = "CHEAPER"
    MEASURED_AGAIN = "MEASURED_AGAIN"
    SORTED_AGAIN = "SORTED_AGAIN"  # an index: the order of its files is what it is for


@dataclass(frozen=True)
class Reason:
    """`code` for what decides by it, `text` for people."""

    code: Code
    text: str

    def __str__(self) -> str:
        return self.text

    def also(self, text: str) -> Reason:
        return replace(self, text=f"{self.text}; {text}")


FIRST = Reason(Code.FIRST, "first refresh")
ASKED = Reason(Code.ASKED, "asked for")
NO_CHANGE = Reason(Code.NO_CHANGE, "no change in the sources")


def lost(error: AnabranchError) -> Reason:
    """Why a refresh starts from nothing that nobody asked to."""
    first = error.message.splitlines()[0]
    return Reason(Code.FILES_LOST, f"a file that it needs is missing or damaged: {first}")


@dataclass(frozen=True)
class DecisionInputs:
    """All that the decision looks at, of a component; sizes are rows known from metadata.

    Of a cycle `redefined` and `tampered` are those of its first member that is; the costs, which tell
    two ways apart, are those of single tables: a fixed point follows its changes.
    """

    members: tuple[TableName, ...]
    kind: TableKind = field(default=TableKind.STREAM, kw_only=True)
    modes: Mapping[TableName, RefreshMode] = field(default_factory=dict)
    cyclic: bool = False
    unfilled: tuple[TableName, ...] = ()
    redefined: Reason | None = None  # why stored rows do not follow the query as it is now
    tampered: Reason | None = None  # why stored rows cannot be trusted
    obstacles: tuple[str, ...] = ()  # reason codes of what is not incremental
    unplanned: TableName | None = None  # a member of a cycle that our own planning fails on
    apart: TableName | None = None  # a source of which members have read different versions
    expired: str | None = None  # a source whose base snapshot is gone
    lost: str | None = None  # what is said of a file, where that is why the base is not there
    always: bool = False  # the result depends on more than the sources, so it is never up to date
    changed: bool = True
    source_rows: int = 0
    rows_before: int = 0  # of the sources, before the change
    deleted_rows: int = 0  # of the sources
    stored_rows: int = 0
    from_changes: Work = field(default_factory=Work)  # what each way would read
    in_full: Work = field(default_factory=Work)
    costs: Costs = field(default_factory=Costs)
    readers_ms: int = 0  # what those that read the table would pay for rows that were all replaced
    usual: Action = Action.DIFFERENTIAL  # the way it went the last time there was a choice
    overdue: bool = False  # it went in full so often that the cost from changes is old news
    threshold: float | None = None  # delta larger than this part of the sources: recompute

    @property
    def name(self) -> TableName:
        return self.members[0]

    @property
    def populated(self) -> bool:
        return not self.unfilled

    @property
    def strict(self) -> TableName | None:
        """A member that must not be recomputed."""
        return next((n for n, m in self.modes.items() if m is RefreshMode.DIFFERENTIAL), None)

    @property
    def is_full(self) -> bool:
        return RefreshMode.FULL in self.modes.values()

    @property
    def delta_rows(self) -> int:
        return self.from_changes.delta_rows

    @property
    def is_measured(self) -> bool:
        """Whether earlier refreshes tell what the next one will take."""
        return self.kind is TableKind.STREAM and not self.cyclic

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
    """`alternative_ms` is predicted for the way not taken, where there was a choice.

    `afresh`: the stored rows are not even looked at.  `fallback`: another way was tried first, and
    failed.
    """

    action: Action
    reason: Reason
    strategy: Strategy | None = None  # None: nothing is computed
    afresh: bool = False
    predicted_ms: int | None = None
    alternative_ms: int | None = None
    fallback: bool = False

    @property
    def wanted(self) -> bool:
        """Whether the rows are wanted whatever is stored, and by whatever plan."""
        return self.reason.code in (Code.ASKED, Code.FILES_LOST)


Rule = Callable[[DecisionInputs], Decision | None]


def decide(now: DecisionInputs) -> Decision:
    """The first rule that has an answer decides."""
    for rule in RULES:
        if (found := rule(now)) is not None:
            return found
    raise AssertionError("the last rule always has an answer")


def rebuilding(why: Reason) -> Decision:
    """The decision of a refresh that starts from nothing, whatever is stored."""
    fallback = why.code is Code.PLAN_FAILED
    action = Action.REINITIALIZE if why.code is Code.FILES_LOST else Action.FULL
    return Decision(action, why, Strategy.EMPTY, afresh=True, fallback=fallback)


def _first(now: DecisionInputs) -> Decision | None:
    if len(now.unfilled) < len(now.members):
        return None
    return _full(now, FIRST, afresh=True)


def _new_member(now: DecisionInputs) -> Decision | None:
    if not now.unfilled:
        return None
    reason = Reason(Code.NEW_MEMBER, f"{now.unfilled[0]} is new in the cycle")
    return _full(now, reason, afresh=True)


def _refuse_unplanned(now: DecisionInputs) -> Decision | None:
    if now.unplanned is None or now.strict is None:
        return None
    raise PlanFailed(
        f"{now.strict} cannot be refreshed from changes: those of {now.unplanned}, which is in "
        "its cycle, cannot be planned",
        hint="this is a fault of Anabranch, not of your query or data: please report it with the "
        f"answer of EXPLAIN STREAM TABLE {now.unplanned}; REFRESH STREAM TABLE {now.strict} "
        "FULL recomputes the cycle",
    )


def _not_its_query(now: DecisionInputs) -> Decision | None:
    why = now.redefined or now.tampered
    if why is None:
        return None
    same = why.code is Code.TIME_PASSED
    action = Action.FULL if same else Action.REINITIALIZE
    return _full(now, why, action, afresh=now.cyclic or not same)


def _sources_apart(now: DecisionInputs) -> Decision | None:
    if now.apart is None:
        return None
    if now.strict is not None:
        raise Refused(
            f"{now.strict} cannot be refreshed from changes: the members of its cycle have read "
            f"{now.apart} at different versions",
            hint=f"REFRESH STREAM TABLE {now.strict} FULL recomputes the cycle once",
        )
    text = f"the members have read {now.apart} at different versions"
    return _full(now, Reason(Code.SOURCES_APART, text))


def _refuse_expired(now: DecisionInputs) -> Decision | None:
    if now.expired is None or now.strict is None:
        return None
    why = f"the snapshot of {now.expired} that it was built from has expired"
    if now.lost is not None:
        why = f"a file of what {now.expired} was, or of its changes since, is lost: {now.lost}"
    raise no_base(now.strict, why, cyclic=now.cyclic)


def no_base(strict: TableName, why: str, *, cyclic: bool) -> BaseExpired:
    """What to say where the changes are not known, and rows may be computed from nothing else."""
    return BaseExpired(
        f"{strict} cannot be refreshed from changes: {why}",
        hint=f"REFRESH STREAM TABLE {strict} FULL recomputes {'the cycle' if cyclic else 'it'} once",
    )


def _unchanged(now: DecisionInputs) -> Decision | None:
    if now.changed or now.expired or now.always:
        return None
    return Decision(Action.NO_DATA, NO_CHANGE)


def _always_in_full(now: DecisionInputs) -> Decision | None:
    if now.is_full:
        return _full(now, Reason(Code.MODE_FULL, "refresh mode is FULL"))
    if now.obstacles:
        text = f"not incremental: {', '.join(now.obstacles)}"
        return _full(now, Reason(Code.NOT_INCREMENTAL, text))
    return None


def _expired(now: DecisionInputs) -> Decision | None:
    if now.expired is None:
        return None
    text = f"the base snapshot of {now.expired} has expired"
    if now.lost is not None:
        text = f"a file of the base snapshot of {now.expired} is missing or damaged: {now.lost}"
    return _full(now, Reason(Code.BASE_EXPIRED, text))


def _unplanned(now: DecisionInputs) -> Decision | None:
    if now.unplanned is None:
        return None
    text = f"the changes of {now.unplanned} cannot be planned, which is a fault of Anabranch"
    found = _full(now, Reason(Code.UNPLANNED, text), afresh=True)
    return replace(found, fallback=True)


def _most_deleted(now: DecisionInputs) -> Decision | None:
    """A fixed point that loses most of its rows is sooner found from empty."""
    few = now.deleted_rows <= TOO_MANY * now.rows_before
    if not now.cyclic or now.strict is not None or few:
        return None
    share = now.deleted_rows / max(now.rows_before, 1)
    text = f"{now.deleted_rows:,} deleted rows are {share:.0%} of what the sources had"
    return _full(now, Reason(Code.MOST_DELETED, text))


def _in_order(now: DecisionInputs) -> Decision | None:
    """An index is of use as far as its files are in order: changed rows come in files of their own."""
    if now.kind is not TableKind.INDEX:
        return None
    if now.source_rows <= SORTED_ROWS:
        text = f"{now.source_rows:,} rows are few enough to sort again"
        return _full(now, Reason(Code.SORTED_AGAIN, text))
    if now.delta_rows > SORTED_SHARE * now.source_rows:
        share = now.delta_rows / now.source_rows
        text = f"{now.delta_rows:,} changed rows are {share:.0%} of the table"
        return _full(now, Reason(Code.SORTED_AGAIN, text))
    return _differential(now, Reason(Code.CHANGED_ROWS, f"{now.delta_rows:,} changed rows"))


def _from_changes(now: DecisionInputs) -> Decision | None:
    """Where nothing else is possible, or worth a thought."""
    if not now.cyclic and now.strict is None and not now.small:
        return None
    reason = Reason(Code.CHANGED_ROWS, f"{now.delta_rows:,} changed rows in the sources")
    return _differential(now, reason)


def _bounded(now: DecisionInputs) -> Decision | None:
    """The bound that the user has set."""
    if now.threshold is None or now.delta_rows <= now.threshold * now.source_rows:
        return None
    share = now.delta_rows / max(now.source_rows, 1)
    text = (
        f"{now.delta_rows:,} changed rows are {share:.0%} of the sources, "
        f"above full_refresh_threshold ({now.threshold:.0%})"
    )
    decision = _full(now, Reason(Code.ABOVE_THRESHOLD, text))
    return replace(decision, alternative_ms=now.differential_ms)


def _cheaper(now: DecisionInputs) -> Decision:
    """From changes, unless recomputing is clearly cheaper; back again when it saves half of that.

    Between the two borders the usual way stays, so that it does not flip-flop.
    """
    differential, full = seconds(now.differential_ms), seconds(now.full_ms)
    changed = f"{now.delta_rows:,} changed rows"
    if not _saves_time(now):
        text = f"{changed}: predicted {differential} against {full} in full"
        decision = _differential(now, Reason(Code.CHEAPER, text))
        return replace(decision, alternative_ms=now.full_ms)
    if now.overdue and now.differential_ms <= SMALL_LOSS * now.full_ms:
        text = f"{changed}: measured again, after many refreshes in full"
        decision = _differential(now, Reason(Code.MEASURED_AGAIN, text))
        return replace(decision, alternative_ms=now.full_ms)
    text = f"in full: predicted {full} against {differential} from {changed}"
    decision = _full(now, Reason(Code.CHEAPER, text))
    return replace(decision, alternative_ms=now.differential_ms)


RULES: tuple[Rule, ...] = (
    _first,
    _new_member,
    _refuse_unplanned,
    _not_its_query,
    _sources_apart,
    _refuse_expired,
    _unchanged,
    _always_in_full,
    _expired,
    _unplanned,
    _most_deleted,
    _in_order,
    _from_changes,
    _bounded,
    _cheaper,
)


def _full(
    now: DecisionInputs, why: Reason, action: Action = Action.FULL, *, afresh: bool = False
) -> Decision:
    predicted = now.full_ms if now.is_measured else None
    return Decision(action, why, Strategy.EMPTY, afresh, predicted)


def _differential(now: DecisionInputs, why: Reason) -> Decision:
    strategy = Strategy.DELETES if now.deleted_rows else Strategy.INSERTS
    predicted = now.differential_ms if now.is_measured else None
    return Decision(Action.DIFFERENTIAL, why, strategy, predicted_ms=predicted)


def _saves_time(now: DecisionInputs) -> bool:
    saved = now.differential_ms - now.full_ms - now.readers_ms
    worth = max(WORTH_SHARE * now.differential_ms, WORTH_MS)
    return saved > (worth / 2 if now.usual is Action.FULL else worth)


def seconds(ms: int) -> str:
    return f"{ms / 1000:.2f} s" if ms < 10_000 else f"{ms / 1000:,.0f} s"


def without_effect(decision: Decision, delta_rows: int) -> Decision:
    """The sources changed, the table did not."""
    if decision.action is not Action.DIFFERENTIAL:
        return decision
    text = f"{delta_rows} changed rows in the sources leave the table unchanged"
    return Decision(Action.NO_DATA, Reason(Code.NO_EFFECT, text))


def settled(decision: Decision, done: Converged) -> Decision:
    """The decision, with what came of the rounds of a fixed point."""
    code, text = decision.reason.code, decision.reason.text
    if code in (Code.FIRST, Code.ASKED):
        return decision
    if done.gave_up:
        reason = (
            f"from empty: {text} took away {done.lost():,} rows, more than "
            f"{TOO_MANY:.0%} of the cycle"
        )
        return replace(decision, action=Action.FULL, reason=Reason(Code.MOST_DELETED, reason))
    if done.strategy is Strategy.EMPTY:
        said = f"from empty: {text}"
    elif done.strategy is Strategy.DELETES:
        said = (
            f"delete and rederive: {text} took away {done.lost():,} rows, "
            f"then {done.added():,} came or came back"
        )
    else:
        said = f"semi-naively: {text} brought {done.added():,} rows"
    return replace(decision, reason=Reason(code, said))


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
