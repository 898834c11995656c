"""What the members of a group read: all one cut, or each its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.catalog import events
from anabranch.catalog.groups import Group
from anabranch.catalog.refresh_groups import RefreshGroup
from anabranch.graph.policies import Isolation, group_isolation
from anabranch.names import TableName
from anabranch.refresh.look import look_now
from anabranch.refresh.members import Reading
from anabranch.runtime import Runtime, Transaction


@dataclass(frozen=True)
class Isolated:
    """One attempt to refresh some groups; `pinned`: nothing newer than its look may be read."""

    runtime: Runtime
    tx: Transaction
    declared: Mapping[str, RefreshGroup]
    groups: Sequence[Group]
    pinned: bool

    def reading(self) -> Reading | None:
        """All members read one cut, unless their refresh group lets each pin its own.

        A diamond always reads one cut: its members would otherwise meet a source in two versions.
        """
        named = [each for group in self.groups for each in group.declared]
        if not named:
            return None
        one = self.pinned or any(group.convergence_points for group in self.groups)
        own: Reading = self._together if one else self._apart
        isolation = {name: Isolation(each.isolation) for name, each in self.declared.items()}
        pins = [group_isolation(group, isolation) for group in self.groups]
        if Isolation.REPEATABLE_READ not in pins:
            return own
        limits = [self.declared[name].snapshot_timeout_ms for name in named]
        limit = min((each for each in limits if each), default=0)
        return self._until(limit, named, own) if limit else None

    def _together(self, _: TableName) -> Transaction:
        return self.tx

    def _apart(self, _: TableName) -> Transaction:
        now = look_now(self.runtime)
        sources = {name: at for name, at in now.pointers.items() if name not in now.streams}
        return self.tx.reading(sources)

    def _until(self, limit_ms: int, named: Sequence[str], own: Reading) -> Reading:
        """The common cut while it is young enough, then each member's own."""
        start = time.monotonic()
        warned = threading.Event()

        def reading(name: TableName) -> Transaction:
            if (time.monotonic() - start) * 1000 <= limit_ms:
                return self.tx
            if not warned.is_set():
                warned.set()
                self._warn(limit_ms, named)
            return own(name)

        return reading

    def _warn(self, limit_ms: int, named: Sequence[str]) -> None:
        message = (
            f"refresh group {', '.join(named)} held its cut for more than {limit_ms} ms: "
            "its other members read the newest one, as in read_committed"
        )
        with self.runtime.store.writing() as c:
            events.record(c, None, events.SNAPSHOT_TIMEOUT, message)
