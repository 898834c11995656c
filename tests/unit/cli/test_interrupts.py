"""Ctrl-C waits for a start of Spark, and cancels what runs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from anabranch.cli.interrupts import Interrupts


@pytest.fixture
def cancelled() -> Iterator[list[str]]:
    before = signal.getsignal(signal.SIGINT)
    yield []
    signal.signal(signal.SIGINT, before)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)


def test_a_start_is_waited_for(cancelled: list[str]) -> None:
    interrupts = Interrupts(lambda: cancelled.append("jobs"))
    interrupts("spark_starting", {})
    press()
    with pytest.raises(KeyboardInterrupt):
        interrupts("spark_started", {})
    assert cancelled == []


def test_pressing_twice_does_not_wait(cancelled: list[str]) -> None:
    Interrupts(lambda: cancelled.append("jobs"))("spark_starting", {})
    press()
    with pytest.raises(KeyboardInterrupt):
        press()


def test_running_jobs_are_cancelled(cancelled: list[str]) -> None:
    interrupts = Interrupts(lambda: cancelled.append("jobs"))
    interrupts("spark_starting", {})
    interrupts("spark_started", {})
    with pytest.raises(KeyboardInterrupt):
        press()
    assert cancelled == ["jobs"]


def test_a_failing_cancel_is_no_matter(cancelled: list[str]) -> None:
    interrupts = Interrupts(lambda: cancelled[1])
    interrupts("spark_started", {})
    with pytest.raises(KeyboardInterrupt):
        press()
