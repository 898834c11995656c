"""The clock of a catalog in a file: that of the machine, which nobody sets.

`now = began_at + time since boot`.  The first process of a boot takes `began_at` from the clock on the
wall and writes it down, so that all processes agree; from then on whoever sets that clock, ahead or
back, changes no age, no lease and no schedule.  After the next boot it is taken anew, but never so
that time goes back.  A process whose clock on the wall is made up (see `boot`) takes the kernel's, so
that it moves the time of no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from sqlalchemy import Connection, delete, func, insert, select

from anabranch.catalog import boot, tables

KEPT = 100  # boots: hosts that share a file have one each
FAKED = timedelta(minutes=1)  # further from the kernel's no clock of a process can be
FIRST = datetime(2024, 1, 1, tzinfo=timezone.utc)  # no catalog is older
# Times that were never in the future when they were written.
PAST = (
    tables.cuts.c.published_at,
    tables.stages.c.heartbeat_at,
    tables.waiters.c.since,
    tables.stream_tables.c.last_refresh_at,
    tables.history.c.started_at,
    tables.events.c.at,
    tables.rounds.c.started_at,
)


@dataclass(frozen=True)
class BootClock:
    """Kept for as long as a process has the catalog open, so telling the time asks no database."""

    began_at: datetime

    def now(self) -> datetime:
        return self.began_at + boot.since_boot()


def boot_clock(c: Connection) -> BootClock | None:
    """The clock of this boot, in a transaction that is alone; None where the system has none."""
    name = boot.boot()
    if not name:
        return None
    table = tables.boots
    began = c.execute(select(table.c.began_at).where(table.c.boot == name)).scalar_one_or_none()
    passed = boot.since_boot()  # asked first: the catalog's clock is not behind the wall's
    if began is None or began + passed < FIRST:
        began = max([_wall(), *_recorded(c)]) - passed
        c.execute(delete(table).where(table.c.boot == name))
        c.execute(insert(table).values(boot=name, began_at=began))
        newest = select(table.c.boot).order_by(table.c.began_at.desc()).limit(KEPT)
        c.execute(delete(table).where(table.c.boot.not_in(newest), table.c.boot != name))
    return BootClock(began)


def _wall() -> datetime:
    told, kernel = tables.now(), boot.wall()
    return told if kernel is None or abs(told - kernel) < FAKED else kernel


def _recorded(c: Connection) -> list[datetime]:
    """The newest times in the catalog, of other boots and of hosts that share it."""
    found = (c.execute(select(func.max(column))).scalar_one_or_none() for column in PAST)
    return [each for each in found if each is not None]
