"""The scheduler in the foreground: a line for what happens, and a clean stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import Any

from anabranch.catalog.rounds import said
from anabranch.cli.output import Output, counted
from anabranch.cli.session import CliSession
from anabranch.model import WaitCode
from anabranch.session import Progress

NEWS = ("PUBLISHED", "FAILED")
WORDS = {"PUBLISHED": "published", "FAILED": "failed", "SKIPPED": "waits"}


class Stop:
    """The first signal lets running groups finish; the second gives them up."""

    def __init__(self, say: Callable[[str], None], cancel: Callable[[], object]) -> None:
        self.asked = threading.Event()
        self.forced = threading.Event()
        self._say = say
        self._cancel = cancel

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.asked.is_set():
            self.forced.set()
            threading.Thread(target=self._cancel, daemon=True).start()
            self._say("abandoning what is under way; nothing of it is published")
        else:
            self.asked.set()
            self._say("stopping after what is under way; a second signal abandons it")

    @contextmanager
    def installed(self) -> Iterator[None]:
        signals = (signal.SIGTERM, signal.SIGINT)
        before = {each: signal.signal(each, self) for each in signals}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


class Report:
    """One line for every group that was published, failed, or waits for a new reason."""

    def __init__(self, out: Output) -> None:
        self.out = out
        self._last: dict[str, tuple[str, str | None, str | None]] = {}

    def __call__(self, results: Sequence[dict[str, Any]]) -> None:
        for result in results:
            known = self._last.get(result["group_id"])
            said = self._last[result["group_id"]] = _kind(result)
            if result["outcome"] in NEWS or (is_news(result) and said != known):
                self.out.answer(line(result, datetime.now()), result)


def is_news(result: dict[str, Any]) -> bool:
    """Whether a group waits for what somebody may want to know of."""
    return result["code"] is not None and WaitCode(result["code"]).is_news


def _kind(result: dict[str, Any]) -> tuple[str, str | None, str | None]:
    """What there is to say, without what changes all the time: a countdown is not news."""
    return result["outcome"], result["code"], result["waits_for"]


def line(result: dict[str, Any], at: datetime) -> str:
    word = WORDS.get(result["outcome"], result["outcome"].lower())
    text = f"{at:%H:%M:%S}  {word:<9}  {', '.join(result['members'])}"
    if result["cut_id"] is not None:
        return f"{text}  (cut {result['cut_id']}, {result['duration_ms'] / 1000:.1f} s)"
    return f"{text}: {result['reason']}" if result["reason"] else text


def with_upkeep(out: Output, watcher: Progress | None) -> Progress:
    """Also tell what the scheduler's upkeep did, a line for each round; it is no answer."""

    def watch(event: str, data: Mapping[str, Any]) -> None:
        if watcher is not None:
            watcher(event, data)
        if event == "upkeep":
            out.note(f"{datetime.now():%H:%M:%S}  {'upkeep':<9}  {said(data)}")

    return watch


def run_scheduler(session: CliSession, out: Output, ticks: int | None) -> None:
    ab = session.ab
    with session.progress.task("starting Spark …"):
        _ = ab.spark  # before the signals are ours: Spark's start sets its own
    stop = Stop(out.note, ab.spark.interruptAll)
    ab.on_progress = with_upkeep(out, ab.on_progress)
    with stop.installed():
        out.note(f"watching {counted(len(ab.status()), 'stream table')}; Ctrl-C stops")
        done = ab.run(ticks=ticks, stop=stop.asked, abandon=stop.forced, watch=Report(out))
    out.note(f"stopped after {counted(done, 'tick')}")
