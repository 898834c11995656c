"""Which version of the world a client reads: the newest cut, or one that stays.

The first answer to a client, to `GET /v1/config?warehouse=…`, gives it a prefix for all later paths:

    latest   -> latest    each answer shows the newest cut
    cut:12   -> cut-12    each answer shows cut 12
    pinned   -> cut-N     N is the newest cut at the time of the question

A cut that somebody reads is held by a read lease of this process, so that upkeep leaves all its files.
Every request renews it, and it ends some time after the last.  The prefix names the cut, so that a
client outlives a restart of the server, and may ask any of several servers.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from anabranch.catalog import cuts, read_leases
from anabranch.catalog.read_leases import ReadLease
from anabranch.catalog.store import Connection
from anabranch.errors import CutExpired, InvalidValue, UnknownName
from anabranch.lake.observe import observed
from anabranch.retry import attempts
from anabranch.runtime import Runtime
from anabranch.serve.problems import Problem, bad_request, busy

LATEST, PINNED = "latest", "pinned"
_CUT = re.compile(r"cut:(\d{1,18})\Z")
_PREFIX = re.compile(r"cut-(\d{1,18})\Z")


@dataclass(frozen=True)
class Shown:
    """What a request may look at: one cut, in one transaction; `cut_id` is None for the newest."""

    c: Connection
    cut_id: int | None

    @property
    def past(self) -> int | None:
        """The cut, if it is not the newest: views of that one are those of now."""
        return None if self.cut_id is None or self.cut_id >= cuts.current(self.c) else self.cut_id


@dataclass
class _Held:
    lease: ReadLease
    end: ExitStack
    used: float


class Pins:
    """The cuts that clients of this server read."""

    def __init__(self, runtime: Runtime, clock: Callable[[], float] = time.monotonic) -> None:
        self._runtime = runtime
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[int, _Held] = {}

    def prefix(self, warehouse: str) -> str:
        """The prefix for a warehouse that a client asks for."""
        wanted = warehouse.strip() or LATEST
        if wanted == LATEST:
            return LATEST
        numbered = _CUT.match(wanted)
        if numbered is None and wanted != PINNED:
            raise Problem(
                404,
                "NotFoundException",
                f"there is no warehouse {warehouse!r} (possible: latest, pinned, cut:<number>)",
            )
        if numbered is not None:
            cut_id = int(numbered[1])
            self._hold(cut_id)
            return f"cut-{cut_id}"
        return f"cut-{self._hold_newest()}"

    @contextmanager
    def shown(self, prefix: str) -> Iterator[Shown]:
        """What a prefix shows, under its lease."""
        if prefix == LATEST:
            with observed(self._runtime.lake) as c:
                yield Shown(c, None)
            return
        cut_id = cut_of(prefix)
        lease = self._hold(cut_id)
        with self._runtime.store.reading() as c:
            if read_leases.holds(c, lease):
                yield Shown(c, cut_id)
                return
        self._drop(cut_id)  # this process was silent for too long: is the cut still there?
        self._hold(cut_id)
        with self._runtime.store.reading() as c:
            yield Shown(c, cut_id)

    def sweep(self) -> None:
        """Give back the leases of cuts that nobody has asked for in a while."""
        oldest = self._clock() - self._runtime.settings.serve_pin_idle
        with self._lock:
            idle = [cut_id for cut_id, held in self._held.items() if held.used < oldest]
        for cut_id in idle:
            self._drop(cut_id)

    def held(self) -> list[int]:
        return sorted(self._held)

    def close(self) -> None:
        for cut_id in list(self._held):
            self._drop(cut_id)

    def _newest(self) -> int:
        with observed(self._runtime.lake) as c:
            return cuts.current(c)

    def _hold_newest(self) -> int:
        for attempt in attempts():
            cut_id = self._newest()
            try:
                self._hold(cut_id)
                return cut_id
            except CutExpired as error:  # upkeep was faster: there is a newer one
                if attempt.last:
                    raise busy(error.message) from error
                attempt.pause()
        raise AssertionError("unreachable")

    def _hold(self, cut_id: int) -> ReadLease:
        with self._lock:
            held = self._held.get(cut_id)
            if held is None:
                held = self._held[cut_id] = self._taken(cut_id)
            held.used = self._clock()
            return held.lease

    def _taken(self, cut_id: int) -> _Held:
        end = ExitStack()
        seconds = self._runtime.settings.lease_time
        lease = end.enter_context(self._runtime.leases.hold_cut(cut_id, seconds))
        if lease is None:
            end.close()
            with self._runtime.store.reading() as c:
                try:
                    cuts.check_recorded(c, cut_id)
                except (InvalidValue, UnknownName) as error:
                    raise CutExpired(error.message, hint=error.hint) from None
            raise CutExpired(f"cut {cut_id} has just expired", hint="ask for another cut")
        return _Held(lease, end, self._clock())

    def _drop(self, cut_id: int) -> None:
        with self._lock:
            held = self._held.pop(cut_id, None)
        if held is not None:
            held.end.close()


def cut_of(prefix: str) -> int:
    found = _PREFIX.match(prefix)
    if found is None:
        raise bad_request(f"there is no prefix {prefix!r}: ask GET /v1/config for it")
    return int(found[1])
