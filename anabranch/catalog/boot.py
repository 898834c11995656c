"""The clock of a host that nobody sets: it counts from the start of the machine, through its sleep.

What the C library answers may be made up: libfaketime fakes every clock of a process, and gives one
that counts from the start of the machine the time on the wall.  The kernel tells the same in files,
which nobody fakes, if coarsely; where both disagree the file counts.  Every reading is compared, since
such a clock may also jump while a process runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

from anabranch.cache import cached

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIME_SPACE = Path("/proc/self/ns/time")  # a container may count from elsewhere
_UPTIME = Path("/proc/uptime")
_STAT = Path("/proc/stat")
_THREAD = "/proc/self/task/{}/stat"
_AGREE = timedelta(
    seconds=1
)  # the files count hundredths, and a process may wait between two readings
_LONGEST = timedelta(
    days=365 * 20
)  # no machine runs longer; where no file tells, this bounds the rest


@cached(1)
def boot() -> str:
    """Names what `since_boot` counts from: the same for all processes that count alike, and for no
    others.  Empty where the system does not tell."""
    if (found := boot_id()) and since_boot() < _LONGEST:
        return f"{found} {_time_space()}".strip()
    if sys.platform == "darwin" and since_boot() < _LONGEST:
        return _session_of_macos()
    return ""


def since_boot() -> timedelta:
    """Setting the clock on the wall does not change it."""
    before = _kernel()
    told = _told()
    if before is None or abs(told - before) <= _AGREE:
        return told
    after = _kernel()  # the process may have been stopped between the two
    if after is None or before - _AGREE <= told <= after + _AGREE:
        return told
    return after


def wall() -> datetime | None:
    """The time on the wall as the kernel has it, to a second; None where that cannot be told."""
    passed, began = _kernel(), _began()
    if passed is None or began is None or _hidden():
        return None
    return began + passed


def _told() -> timedelta:
    return timedelta(microseconds=time.clock_gettime_ns(_CLOCK) // 1000)


def _kernel() -> timedelta | None:
    """The time since the start of the machine by the kernel's file, which counts hundredths."""
    passed = _uptime()
    return None if passed is None else passed + _hidden()


def _uptime() -> timedelta | None:
    found = _first_number(_UPTIME)
    return None if found is None else timedelta(seconds=found)


def _began() -> datetime | None:
    found = _first_number(_STAT, "btime ")
    return None if found is None else datetime.fromtimestamp(found, timezone.utc)


def _first_number(path: Path, behind: str = "") -> float | None:
    try:
        text = path.read_text()
        return float(text[text.index(behind) + len(behind) :].split(None, 1)[0])
    except (OSError, ValueError, IndexError):
        return None


@cached(1)
def _hidden() -> timedelta:
    """How much longer the machine has run than its file says: LXC gives a container a file of its own,
    that counts from the container's start.  A thread's start is told by the kernel itself."""
    before, started, after = _uptime(), _thread_start(), _uptime()
    if before is None or started is None or after is None:
        return timedelta()
    return timedelta() if before - _AGREE <= started <= after + _AGREE else started - before


def _thread_start() -> timedelta | None:
    """When a thread that starts now did, counted from the start of the machine."""
    found: list[timedelta] = []
    thread = threading.Thread(target=_look_at_itself, args=(found.append,))
    thread.start()
    thread.join()
    return found[0] if found else None


def _look_at_itself(note: Callable[[timedelta], None]) -> None:
    try:
        text = Path(_THREAD.format(threading.get_native_id())).read_text()
        ticks = int(text.rpartition(")")[2].split()[19])
        note(timedelta(seconds=ticks / os.sysconf("SC_CLK_TCK")))
    except (OSError, ValueError, IndexError):
        return


def boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _time_space() -> str:
    try:
        return str(_TIME_SPACE.readlink())
    except OSError:
        return ""


def _session_of_macos() -> str:
    asked = ("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


if sys.platform == "darwin":
    _CLOCK = time.CLOCK_MONOTONIC_RAW  # the other one follows the clock on the wall there
else:
    _CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
