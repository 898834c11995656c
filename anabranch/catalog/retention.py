"""Which cuts stay: all young ones, then one a minute, then one an hour, then none.

The order and the times of cuts decide, and times of cuts never go back.  A host whose clock runs ahead
makes no cut old by that, and neither does a cut that such a host has published: ages are taken from
the newest cut or the clock, whichever is earlier.  A host whose clock is behind gives its cuts the time
of the cut before them: such a cut may be as young as the next one that has a time of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Retention:
    """All cuts of `all_cuts`, one a minute of `by_minute`, one an hour of `total`."""

    total: timedelta = timedelta(days=7)
    all_cuts: timedelta = HOUR
    by_minute: timedelta = timedelta(days=1)

    def expired(
        self, cuts: Sequence[tuple[int, datetime]], now: datetime, held: Collection[int] = ()
    ) -> set[int]:
        """Those of all cuts, the oldest first, that may be forgotten; the newest never."""
        if not cuts:
            return set()
        newest, last = cuts[-1]
        end = min(now, last)
        latest = latest_times(cuts)
        first = max((cut_id for cut_id, at in latest if at <= end - self.total), default=0)
        kept: dict[object, int] = {}
        for cut_id, at in latest:
            kept[self._place(cut_id, at, end - at)] = cut_id  # the last one of each place stays
        stay = {cut_id for cut_id in kept.values() if cut_id >= first}
        return {cut_id for cut_id, _ in cuts} - stay - {first, newest, *held}

    def _place(self, cut_id: int, at: datetime, age: timedelta) -> object:
        """Cuts that share one are thinned to one."""
        if age <= self.all_cuts:
            return cut_id
        step = MINUTE if age <= self.by_minute else HOUR
        return step, (at.replace(tzinfo=None) - _EPOCH) // step


def latest_times(cuts: Sequence[tuple[int, datetime]]) -> list[tuple[int, datetime]]:
    """The latest time at which each cut can have been published."""
    times: list[tuple[int, datetime]] = []
    after = cuts[-1][1]  # the next time that differs
    for at in range(len(cuts) - 1, -1, -1):
        cut_id, said = cuts[at]
        if at + 1 < len(cuts) and cuts[at + 1][1] > said:
            after = cuts[at + 1][1]
        own = at == 0 or cuts[at - 1][1] < said
        times.append((cut_id, said if own else after))
    return times[::-1]
