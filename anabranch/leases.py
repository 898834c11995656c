"""Leases held by this process, kept alive while the work goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from anabranch.catalog import leases
from anabranch.catalog.leases import Lease
from anabranch.catalog.store import Store
from anabranch.errors import AnabranchError
from anabranch.names import TableName

POLL_SECONDS = 0.1


class Leases:
    """Takes and renews leases; one renewing thread runs while any is held."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._held: dict[str, float] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def hold(
        self, names: Collection[TableName], seconds: float, *, wait: bool
    ) -> Iterator[Lease | TableName]:
        """A lease of all the tables; or, without `wait`, perhaps the table somebody else has."""
        taken = self._take(names, seconds)
        while wait and isinstance(taken, TableName):
            time.sleep(POLL_SECONDS)
            again = self._take(names, seconds)
            taken = replace(again, waited=True) if isinstance(again, Lease) else again
        if isinstance(taken, TableName):
            yield taken
            return
        try:
            yield taken
        finally:
            with self._lock:
                self._held.pop(taken.token, None)
            with suppress(AnabranchError), self._store.writing() as c:  # it ends by itself
                leases.give_back(c, taken)

    def _take(self, names: Collection[TableName], seconds: float) -> Lease | TableName:
        with self._store.writing() as c:
            taken = leases.take(c, names, seconds)
        if isinstance(taken, Lease):
            with self._lock:
                self._held[taken.token] = seconds
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(
                        target=self._renew, name="anabranch-leases", daemon=True
                    )
                    self._thread.start()
        return taken

    def _renew(self) -> None:
        while True:
            with self._lock:
                if not self._held:
                    self._thread = None
                    return
                pause = min(self._held.values()) / 3
            time.sleep(pause)
            with self._lock:
                held = dict(self._held)
            if held:
                with suppress(AnabranchError), self._store.writing() as c:
                    leases.renew(c, list(held), max(held.values()))
