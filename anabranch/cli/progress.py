"""What long work is doing, on stderr and only on a terminal: a spinner that names it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from anabranch.lazy import lazy

if TYPE_CHECKING:
    from rich import console as consoles
    from rich import status as spinners
else:
    consoles = lazy("rich.console")
    spinners = lazy("rich.status")


class Progress:
    """Called with events, from any thread; shows what is under way."""

    def __init__(self, enabled: bool | None = None) -> None:
        self.enabled = sys.stderr.isatty() if enabled is None else enabled
        self._lock = Lock()
        self._status: spinners.Status | None = None
        self._running: list[str] = []
        self._starting = False
        self._task = ""

    def __call__(self, event: str, data: Mapping[str, Any]) -> None:
        with self._lock:
            if event in ("spark_starting", "spark_started"):
                self._starting = event == "spark_starting"
            elif event == "waiting":
                self._task = str(data["text"])
            elif event == "building":
                self._task = f"building {data['object']} ({data['number']} of {data['of']}) …"
            elif event == "refresh_started":
                self._running.append(str(data["table"]))
            elif event == "refresh_finished" and str(data["table"]) in self._running:
                self._running.remove(str(data["table"]))
            self._show()

    def doing(self) -> str:
        if self._starting:
            return "starting Spark …"
        return f"refreshing {', '.join(self._running)} …" if self._running else self._task

    @contextmanager
    def task(self, text: str) -> Iterator[None]:
        """Show `text` while nothing more telling is known, and clear the line at the end."""
        with self._lock:
            self._task = text
            self._show()
        try:
            yield
        finally:
            self.clear()

    def clear(self) -> None:
        """Take the spinner away, so that others may write."""
        with self._lock:
            self._starting, self._running, self._task = False, [], ""
            self._show()

    def _show(self) -> None:
        text = self.doing()
        if not self.enabled or (not text and self._status is None):
            return
        if not text:
            if self._status:
                self._status.stop()
            self._status = None
            return
        if self._status is None:
            self._status = spinners.Status(text, console=consoles.Console(stderr=True))
            self._status.start()
        self._status.update(text)
