"""Start a Python program that dies or falls asleep at a fail point.

    python -m tests.failpoints <kill|stop> <point>[:<n>] -m <module> <arguments>
    python -m tests.failpoints <kill|stop> <point>[:<n>] -c <code> <arguments>

The hook of fail points is set in this process, and the program then runs here.  At the point (when it
comes there for the n-th time) it kills itself, as hard as a power cut, or sleeps until somebody wakes
it with SIGCONT.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from collections.abc import Callable

from anabranch import failpoints

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def python(*arguments: str, kill: str = "", stop: str = "") -> list[str]:
    """The command that runs a program: one that dies or falls asleep at a point, if one is given."""
    launcher = ["-m", "tests.failpoints"]
    given = [*launcher, "kill", kill] if kill else [*launcher, "stop", stop] if stop else []
    return [sys.executable, *given, *arguments]


def signalling(signal_: signal.Signals, where: str) -> Callable[[str], None]:
    wanted, _, number = where.partition(":")
    times = 0

    def hook(point: str) -> None:
        nonlocal times
        if point == wanted:
            times += 1
            if times == int(number or 1):
                os.kill(os.getpid(), signal_)

    return hook


def main(how: str, where: str, option: str, program: str, *arguments: str) -> None:
    failpoints.hook = signalling(SIGNALS[how], where)
    sys.argv = [option if option == "-c" else program, *arguments]
    if option == "-c":
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
