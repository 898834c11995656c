"""The thread that renews leases outlives whatever a database may say."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import InternalError

from anabranch.catalog.heartbeat import Heartbeat

PATIENCE = 60  # seconds; a busy machine is no failure


class Beats:
    """Counts beats; the first ones fail as a server that is read-only fails them."""

    def __init__(self, failures: int) -> None:
        self.failures, self.seen = failures, threading.Event()

    def __call__(self, c: Connection) -> None:
        if self.failures:
            self.failures -= 1
            raise InternalError("UPDATE", None, Exception("read-only transaction"))
        self.seen.set()


@contextmanager
def nothing() -> Iterator[Any]:
    yield None


def test_an_error_that_nobody_thought_of_ends_no_lease() -> None:
    heart, beats = Heartbeat(nothing), Beats(failures=3)
    heart.keep("a", 0.01, beats)
    assert beats.seen.wait(PATIENCE)
    heart.drop("a")


def test_one_that_cannot_be_renewed_does_not_end_the_others() -> None:
    heart, broken, well = Heartbeat(nothing), Beats(failures=10**9), Beats(failures=0)
    with heart._wake:  # held, so that both are due in the same beat
        heart.keep("broken", 0.01, broken)
        heart.keep("well", 0.01, well)
    assert well.seen.wait(PATIENCE)
    heart.drop("broken")
    heart.drop("well")


def test_a_thread_that_died_is_started_again() -> None:
    heart, beats = Heartbeat(nothing), Beats(failures=0)
    heart._thread = threading.Thread(target=lambda: None)
    heart._thread.start()
    heart._thread.join()
    heart.keep("a", 0.01, beats)
    assert beats.seen.wait(PATIENCE)
    heart.drop("a")
