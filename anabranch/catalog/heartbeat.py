"""One thread per catalog says that this process lives: for its leases, read leases and stages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sqlalchemy import Connection

Beat = Callable[[Connection], None]
Writing = Callable[[], AbstractContextManager[Connection]]


@dataclass
class _Task:
    beat: Beat
    every: float
    due: float


class Heartbeat:
    """Runs what it is given, each in its own time, as long as anything is given."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self._wake = threading.Condition()
        self._tasks: dict[str, _Task] = {}
        self._thread: threading.Thread | None = None

    def keep(self, key: str, every: float, beat: Beat) -> None:
        """Run `beat` in a writing transaction every so many seconds, until `drop`."""
        with self._wake:
            self._tasks[key] = _Task(beat, every, time.monotonic() + every)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="anabranch-heartbeat", daemon=True
                )
                self._thread.start()
            self._wake.notify()

    def drop(self, key: str) -> None:
        with self._wake:
            self._tasks.pop(key, None)
            self._wake.notify()

    def _run(self) -> None:
        while (due := self._next()) is not None:
            if not self._beat(due):
                for each in due:  # one that cannot be renewed must not end the others
                    self._beat([each])

    def _beat(self, due: list[_Task]) -> bool:
        """Whether all went well; what failed is tried again in time, unless it was dropped.

        A thread that died of an error nobody thought of would end every lease of the process, those
        that it takes later as well.
        """
        try:
            with self._writing() as c:
                for each in due:
                    each.beat(c)
        except Exception:
            return False
        return True

    def _next(self) -> list[_Task] | None:
        """What is due, once anything is; None when no task is left."""
        with self._wake:
            while self._tasks:
                now = time.monotonic()
                # One that is due later than it can be: the clock was set back, as libfaketime does.
                due = [e for e in self._tasks.values() if e.due <= now or e.due > now + e.every]
                for each in due:
                    each.due = now + each.every
                if due:
                    return due
                self._wake.wait(min(each.due for each in self._tasks.values()) - now)
            self._thread = None
            return None
