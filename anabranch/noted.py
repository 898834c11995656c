"""What happens outside of any transaction and has to become an event: said once in a process.

The next publish of this process keeps it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock

from anabranch.names import TableName

log = logging.getLogger("anabranch")
_lock = Lock()
Key = tuple[str, str]  # the kind, and what tells those of a kind apart
_noted: dict[Key, Note] = {}
_kept: set[Key] = set()  # of those that are events


@dataclass(frozen=True)
class Note:
    """An event to be; `table` is None for what concerns no single table."""

    kind: str
    message: str
    table: TableName | None = None


def note(found: Note, about: str) -> None:
    """Say it, unless it was said `about` the same already."""
    key = found.kind, about
    with _lock:
        if key in _noted:
            return
        _noted[key] = found
    where = f"{found.table}: " if found.table is not None else ""
    log.warning("%s%s", where, found.message)


def waiting() -> dict[Key, Note]:
    """What is no event yet, by its key."""
    with _lock:
        return {key: found for key, found in _noted.items() if key not in _kept}


def said(kind: str) -> list[str]:
    """All messages of a kind in this process."""
    with _lock:
        return [found.message for found in _noted.values() if found.kind == kind]


def keep(keys: Iterable[Key]) -> None:
    """They are events now."""
    with _lock:
        _kept.update(keys)


def forget(kind: str) -> None:
    """For tests."""
    with _lock:
        for key in [key for key, found in _noted.items() if found.kind == kind]:
            del _noted[key]
            _kept.discard(key)
