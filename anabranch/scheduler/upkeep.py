"""Upkeep in the background of the scheduler: a share of it every minute, beside the ticks.

A round compacts a few tables, forgets what is too old, and now and then looks for files that nothing
refers to.  Of several schedulers on a catalog one does the rounds.  A table that fails is said once,
and does not keep the others from being tidied.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from anabranch.catalog import events, rounds
from anabranch.errors import AnabranchError, SparkLost
from anabranch.names import TableName
from anabranch.runtime import Runtime
from anabranch.tracebacks import for_a_log
from anabranch.upkeep import compact_tables, forget_records, keep_round, tidy, told

COMPACTIONS = 4  # tables in a round
COLLECT_SECONDS = 600.0  # how often files are listed, at most
COLLECT_SHARE = 50  # the time that listing takes is at most one in so many
NAME = TableName.of("system", "upkeep")  # the lease of whoever does the rounds

log = logging.getLogger("anabranch")


class Upkeep:
    """Rounds of upkeep in a thread of their own, from `start` to `stop`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="anabranch-upkeep", daemon=True)
        self._said: dict[TableName | None, str] = {}
        self._next = 0  # of the tables in order, the one to look at first
        self._collect_at = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No more rounds; the one under way ends after its current table."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._runtime.settings.upkeep_interval):
            try:
                self.round()
            except SparkLost:
                return  # the ticks say so
            except AnabranchError as error:
                self._stopped(error)
            except Exception as error:  # whatever it is, the ticks go on
                log.error("upkeep failed", exc_info=for_a_log(error))

    def _stopped(self, error: AnabranchError) -> None:
        """A round that ended early: what was wrong is said, if the catalog can be written at all."""
        try:
            news = self._failed({None: error})
            self._report(time.monotonic(), {"errors": told(news.items())})
        except Exception:  # a catalog that cannot be reached: the next round asks it again
            log.warning("upkeep failed: %s", error.message)

    def round(self) -> bool:
        """One share of the upkeep; False when another scheduler is at it."""
        runtime = self._runtime
        with runtime.leases.hold_free([NAME], runtime.settings.lease_time) as lease:
            if not lease.tables:
                return False
            runtime.lake.fence.claim()
            begin = time.monotonic()
            names = sorted(runtime.lake.pointers())
            first = self._next % len(names) if names else 0
            names = names[first:] + names[:first]
            compacted, failed = compact_tables(runtime, names, COMPACTIONS, self._over.is_set)
            if len(compacted) == COMPACTIONS:  # the next round goes on with the tables after these
                self._next = first + names.index(TableName.parse(compacted[-1])) + 1
            forgotten = forget_records(runtime)
            start = time.monotonic()
            collecting = start >= self._collect_at
            report = tidy(runtime, collecting=collecting)
            if collecting:
                spent = time.monotonic() - start
                self._collect_at = start + max(COLLECT_SECONDS, COLLECT_SHARE * spent)
            news = self._failed(dict[TableName | None, AnabranchError](failed.items()))
            done = {"tables_compacted": tuple(compacted), "history_forgotten": forgotten}
            self._report(begin, {**done, **asdict(report), "errors": told(news.items())})
        return True

    def _report(self, begin: float, done: Mapping[str, Any]) -> None:
        """Kept, logged and shown, if anything was done."""
        found = keep_round(self._runtime, rounds.SCHEDULER, begin, done)
        if found is not None:
            row = asdict(found)
            log.info("upkeep: %s", rounds.said(row))
            self._runtime.progress("upkeep", row)

    def _failed(
        self, failed: dict[TableName | None, AnabranchError]
    ) -> dict[TableName | None, AnabranchError]:
        """An event for each table that cannot be tidied, once until the reason changes; those are
        returned."""
        news = {
            name: error.message
            for name, error in failed.items()
            if self._said.get(name) != error.message
        }
        self._said = {name: error.message for name, error in failed.items()}
        if news:
            with self._runtime.store.writing() as c:
                for name, message in news.items():
                    events.record(c, name, events.UPKEEP, f"upkeep failed: {message}")
        return {name: failed[name] for name in news}
