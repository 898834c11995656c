"""Rounds of upkeep that did something: what was compacted, forgotten and deleted, and what failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from anabranch.catalog import tables

SCHEDULER, MAINTAIN = "scheduler", "maintain"
MOST = 10_000  # rounds that are kept: those of a week, if every minute has one


@dataclass(frozen=True)
class Round:
    """`errors` are new ones: one that lasts is said once."""

    initiated_by: str
    duration_ms: int
    tables_compacted: tuple[str, ...] = ()
    cuts_forgotten: int = 0
    snapshots_expired: int = 0
    manifests_merged: int = 0
    stages_ended: int = 0
    files_deleted: int = 0
    bytes_deleted: int = 0
    history_forgotten: int = 0
    cut_id: int | None = None  # the cut that holds the changes, if any were needed
    errors: tuple[str, ...] = ()

    @property
    def did(self) -> dict[str, Any]:
        """What there is to tell: nothing of what was not needed."""
        about = ("initiated_by", "duration_ms", "cut_id")
        return {key: value for key, value in asdict(self).items() if value and key not in about}

    @classmethod
    def of(cls, initiated_by: str, duration_ms: int, done: Mapping[str, Any]) -> Round:
        known = {each.name for each in fields(cls)}
        return cls(initiated_by, duration_ms, **{k: v for k, v in done.items() if k in known})


def record(c: Connection, done: Round) -> None:
    """Note a round that ends now."""
    row = asdict(done)
    row |= {"tables_compacted": [*done.tables_compacted], "errors": [*done.errors]}
    began = tables.noted(c) - timedelta(milliseconds=done.duration_ms)
    c.execute(insert(tables.rounds).values(**row, started_at=began))


def listing(c: Connection, limit: int | None = None) -> list[dict[str, Any]]:
    """Newest first."""
    statement = select(tables.rounds).order_by(tables.rounds.c.round_id.desc())
    if limit is not None:
        statement = statement.limit(limit)
    return [dict(row) for row in c.execute(statement).mappings()]


def forget(c: Connection, before: datetime) -> int:
    found = tables.rounds.c
    newest = c.execute(select(func.max(found.round_id))).scalar_one_or_none() or 0
    old = (found.started_at < before) | (found.round_id <= newest - MOST)
    return c.execute(delete(tables.rounds).where(old)).rowcount


def said(done: Mapping[str, Any]) -> str:
    """A round in one line, from its row."""
    compacted = done["tables_compacted"]
    words = [f"compacted {_few(compacted)}"] if compacted else []
    for key, verb, noun in (
        ("cuts_forgotten", "forgot", "cut"),
        ("history_forgotten", "forgot", "line of history"),
        ("snapshots_expired", "expired", "snapshot"),
        ("manifests_merged", "merged", "manifest"),
        ("stages_ended", "cleared", "write given up"),
        ("files_deleted", "deleted", "file"),
    ):
        if count := done[key]:
            words.append(f"{verb} {_counted(count, noun)}")
    if done["bytes_deleted"]:
        words[-1] += f" ({done['bytes_deleted'] / 1e6:,.1f} MB)"
    spent = f"{', '.join(words)} in {done['duration_ms'] / 1000:.1f} s" if words else ""
    return "; ".join(filter(None, (spent, *(f"failed: {each}" for each in done["errors"]))))


def _few(names: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4:,} more"


def _counted(number: int, noun: str) -> str:
    first, *rest = noun.split(" ")
    return " ".join([f"{number:,}", first if number == 1 else f"{first}s", *rest])
