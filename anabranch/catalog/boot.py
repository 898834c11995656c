"""The clock of a host that nobody sets: it counts from the start of the machine, through its sleep."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

from anabranch.cache import cached

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIME_SPACE = Path("/proc/self/ns/time")  # a container may count from elsewhere


@cached(1)
def boot() -> str:
    """Names what `since_boot` counts from: the same for all processes that count alike, and for no
    others.  Empty where the system does not tell."""
    if found := boot_id():
        return f"{found} {_time_space()}".strip()
    return _session_of_macos() if sys.platform == "darwin" else ""


def since_boot() -> timedelta:
    """Setting the clock on the wall does not change it."""
    return timedelta(microseconds=time.clock_gettime_ns(_CLOCK) // 1000)


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
