"""The scheduler's loop: tick, wait until something may have happened, tick again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.catalog import cuts
from anabranch.errors import SparkLost, SystemFault
from anabranch.runtime import Runtime
from anabranch.scheduler.tick import Scheduler, never
from anabranch.scheduler.upkeep import Upkeep

POLL_SECONDS = 0.1  # how soon a new cut is noticed: asking costs one small SELECT
LONGEST_PAUSE = 30.0  # between attempts while the catalog cannot be reached

log = logging.getLogger("anabranch")
Watcher = Callable[[Sequence[dict[str, Any]]], None]


def run(
    runtime: Runtime,
    stop: threading.Event,
    *,
    ticks: int | None = None,
    abandoned: Callable[[], bool] = never,
    watch: Watcher | None = None,
) -> int:
    """Tick until `stop` is set, or so many times; return the number of ticks.

    A world that fails for a while, such as a catalog that is restarted, is waited for.  Upkeep runs
    beside the ticks.
    """
    upkeep = Upkeep(runtime)
    upkeep.start()
    try:
        return _ticks(runtime, stop, ticks, abandoned, watch)
    finally:
        upkeep.stop()


def _ticks(
    runtime: Runtime,
    stop: threading.Event,
    ticks: int | None,
    abandoned: Callable[[], bool],
    watch: Watcher | None,
) -> int:
    scheduler = Scheduler(runtime)
    done, faults = 0, 0
    while not stop.is_set() and (ticks is None or done < ticks):
        start = time.monotonic()
        try:
            results = scheduler.tick(stop.is_set, abandoned)
            cut = newest(runtime)
        except SparkLost:
            raise  # this process cannot go on, another can
        except SystemFault as fault:
            faults += 1
            pause = min(LONGEST_PAUSE, 2.0 ** min(faults, 10))
            log.warning("%s; trying again in %g s", fault.message, pause)
            stop.wait(pause)
            continue
        faults = 0
        done += 1
        if watch is not None:
            watch(results)
        if ticks is None or done < ticks:
            wait(runtime, stop, start, cut)
    return done


def wait(runtime: Runtime, stop: threading.Event, start: float, cut: int) -> None:
    """Until the interval is over, or somebody has published."""
    interval = runtime.settings.tick_interval
    while (left := interval - (time.monotonic() - start)) > 0:
        if stop.wait(min(left, POLL_SECONDS)):
            return
        try:
            if newest(runtime) != cut:
                return
        except SystemFault:
            continue  # the next tick says what is wrong


def newest(runtime: Runtime) -> int:
    with runtime.store.reading() as c:
        return cuts.current(c)
