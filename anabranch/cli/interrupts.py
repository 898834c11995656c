"""Ctrl-C while Spark is at work.

Spark's own handler asks to cancel on the connection that is waiting for the answer, which fails; and
a Spark that is interrupted while it starts stays behind as an orphan.  So a start is waited for, and
running jobs are cancelled from another thread.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Thread, current_thread, main_thread
from typing import Any

PATIENCE = 3.0  # seconds for the cancelling to be done


class Interrupts:
    """Told of events like a progress display; `cancel` stops the running Spark jobs."""

    def __init__(self, cancel: Callable[[], object]) -> None:
        self._cancel = cancel
        self._pressed = False

    def __call__(self, event: str, data: Mapping[str, Any]) -> None:
        if current_thread() is not main_thread():  # only it may handle signals
            return
        if event == "spark_starting":
            self._pressed = False
            signal.signal(signal.SIGINT, self._remember)
        elif event == "spark_started":
            signal.signal(signal.SIGINT, self._stop)
            if self._pressed:
                raise KeyboardInterrupt

    def _remember(self, number: int, frame: object) -> None:
        if self._pressed:  # pressed again: no more patience
            raise KeyboardInterrupt
        self._pressed = True

    def _stop(self, number: int, frame: object) -> None:
        cancelling = Thread(target=self._quietly, daemon=True)
        cancelling.start()
        cancelling.join(PATIENCE)
        raise KeyboardInterrupt

    def _quietly(self) -> None:
        with suppress(Exception):
            self._cancel()
