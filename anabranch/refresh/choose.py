"""Which way a refresh goes, and why: a pure decision."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.errors import BaseExpired
from anabranch.model import Action, RefreshMode


@dataclass(frozen=True)
class Situation:
    """All that the decision looks at; sizes are rows known from metadata."""

    table: str
    mode: RefreshMode
    populated: bool
    redefined: bool = False  # query, view or source columns differ from those of the stored rows
    tampered: str | None = None  # why the stored rows cannot be trusted
    obstacles: tuple[str, ...] = ()  # reason codes of what is not incremental
    expired: str | None = None  # a source whose base snapshot is gone
    always: bool = False  # the result depends on more than the sources, so it is never up to date
    delta_rows: int = 0
    changed: bool = True
    source_rows: int = 0
    threshold: float = 1.0  # delta larger than this part of the sources: recompute


@dataclass(frozen=True)
class Choice:
    action: Action
    reason: str


def choose(now: Situation) -> Choice:
    """The first line that applies decides."""
    if not now.populated:
        return Choice(Action.FULL, "first refresh")
    if now.redefined:
        return Choice(Action.REINITIALIZE, "the definition or the columns of a source changed")
    if now.tampered:
        return Choice(Action.REINITIALIZE, now.tampered)
    if now.expired and now.mode is RefreshMode.DIFFERENTIAL:
        raise BaseExpired(
            f"{now.table} cannot be refreshed from changes: the snapshot of {now.expired} that it "
            "was built from has expired",
            hint=f"ALTER STREAM TABLE {now.table} SET REFRESH MODE AUTO, or FULL for one refresh",
        )
    if not now.changed and not now.expired and not now.always:
        return Choice(Action.NO_DATA, "no change in the sources")
    if now.mode is RefreshMode.FULL:
        return Choice(Action.FULL, "refresh mode is FULL")
    if now.obstacles:
        return Choice(Action.FULL, "not incremental: " + ", ".join(now.obstacles))
    if now.expired:
        return Choice(Action.FULL, f"the base snapshot of {now.expired} has expired")
    if now.mode is RefreshMode.AUTO and _too_large(now):
        share = now.delta_rows / max(now.source_rows, 1)
        return Choice(Action.FULL, f"{now.delta_rows} changed rows are {share:.0%} of the sources")
    return Choice(Action.DIFFERENTIAL, f"{now.delta_rows} changed rows in the sources")


def _too_large(now: Situation) -> bool:
    # Below this size the fixed cost of a Spark job decides, and both ways cost the same.
    return now.delta_rows > 10_000 and now.delta_rows > now.threshold * now.source_rows


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
