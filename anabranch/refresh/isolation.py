"""What the members of a group read: all one cut, or each the newest there is.

A declared group with `read_committed` opts out of standing at one cut: each member reads the sources as
they are when its turn comes.  One with `repeatable_read` and a `snapshot_timeout_ms` does so from the
moment on at which it has held its cut for too long, for the rest of that refresh.  Both may mix cuts,
and `status` says which.  A diamond always reads one cut: it would meet a source in two versions.  And
so does a group of which a table that did not opt out is published together with it: that would join
what the members have read at different cuts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from anabranch.catalog import events
from anabranch.catalog.groups import Group
from anabranch.errors import PublishConflict
from anabranch.names import TableName
from anabranch.refresh.observe import CatalogState, observe_now
from anabranch.refresh.staging import Reading
from anabranch.runtime import Runtime, Transaction


@dataclass(frozen=True)
class Isolated:
    """One attempt to refresh some groups from a look."""

    runtime: Runtime
    tx: Transaction
    state: CatalogState
    groups: Sequence[Group]
    late: set[TableName] = field(default_factory=set)  # members of groups whose time was over

    def reading(self) -> Reading | None:
        """What each member reads; None when all of them read the state."""
        own: dict[TableName, Reading] = {}
        for group in self.groups:
            if found := self._of(group):
                own |= dict.fromkeys(group.members, found)
        if not own:
            return None
        return lambda name: own[name](name) if name in own else self.tx

    def _of(self, group: Group) -> Reading | None:
        if self.state.reads_committed(group):
            return self._apart
        if not group.declared or group.convergence_points:
            return None
        limits = [self.state.declared[name].snapshot_timeout_ms for name in group.declared]
        limit = min((each for each in limits if each), default=0)
        return self._until(limit, group) if limit and not self._is_read(group) else None

    def _is_read(self, group: Group) -> bool:
        """Whether a table that stands at one cut reads a member in the same publish."""
        beside = [name for each in self.groups if each is not group for name in each.members]
        return any(not set(self.state.needed([name])).isdisjoint(group.members) for name in beside)

    def _apart(self, name: TableName) -> Transaction:
        now = observe_now(self.runtime)
        here = [member for group in self.groups for member in group.members]
        if unfit := now.unfit_above([name], here):
            raise PublishConflict(f"{name} waits for {unfit[0]}: {unfit[1]}")
        sources = {
            each: at
            for each, at in now.pointers.items()
            if each not in now.streams or (each in now.boundaries and each not in here)
        }
        return self.tx.reading(sources, now.cut_id)

    def _until(self, limit_ms: int, group: Group) -> Reading:
        """The common cut while it is young enough, then each member's own."""
        start = time.monotonic()
        warned = threading.Event()

        def reading(name: TableName) -> Transaction:
            if (time.monotonic() - start) * 1000 <= limit_ms:
                return self.tx
            if not warned.is_set():
                warned.set()
                self.late.update(group.members)
                self._warn(limit_ms, group, name)
            return self._apart(name)

        return reading

    def _warn(self, limit_ms: int, group: Group, name: TableName) -> None:
        message = (
            f"refresh group {', '.join(group.declared)} held its cut for more than {limit_ms} ms: "
            f"from {name} on its members read the newest sources instead of cut "
            f"{self.state.cut_id}, as in read_committed, in this refresh"
        )
        with self.runtime.store.writing() as c:
            events.record(c, None, events.SNAPSHOT_TIMEOUT, message)
