"""Private parts of libraries that are not there, or not as they were: said once in a process.

The next publish keeps it as an event.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from threading import Lock

log = logging.getLogger("anabranch")
_lock = Lock()
_noted: dict[str, str] = {}  # part → what is done instead, and why
_kept: set[str] = set()  # the parts whose event is kept


def note(part: str, instead: str, error: BaseException) -> None:
    with _lock:
        if part in _noted:
            return
        why = next(iter(str(error).splitlines()), "").strip()
        _noted[part] = f"{part} cannot be used: {instead} ({type(error).__name__}: {why})"
    log.warning("%s", _noted[part])


def waiting() -> dict[str, str]:
    """What is no event yet, by its part."""
    with _lock:
        return {part: message for part, message in _noted.items() if part not in _kept}


def noted() -> list[str]:
    """All that was said in this process."""
    with _lock:
        return list(_noted.values())


def keep(parts: Iterable[str]) -> None:
    """They are events now."""
    with _lock:
        _kept.update(parts)


def forget() -> None:
    """For tests."""
    with _lock:
        _noted.clear()
        _kept.clear()
