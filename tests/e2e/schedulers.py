"""Scheduler loops in processes of their own, each with its own small Spark.

Run as `python -m tests.e2e.schedulers <home> <settings>`: it says `ready` and then, as
JSON, what became of every group that it published, skipped or failed.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anabranch
from anabranch.scheduler import loop
from tests.failpoints import python
from tests.quick import GIVEN

ROOT = Path(__file__).parents[2]
SMALL = {
    "spark.master": "local[1]",
    "spark.conf.spark.driver.memory": "1g",
    "spark.conf.spark.ui.enabled": "false",
    **GIVEN,
}


PATIENCE = 120.0  # for refreshes on a busy machine


class SchedulerProcess:
    """A running loop, which may die or fall asleep at a fail point."""

    def __init__(
        self, home: str | Path, settings: dict[str, Any] | None = None, **failing: str
    ) -> None:
        given = json.dumps({"tick_interval": "200ms", **SMALL, **(settings or {})})
        command = python("-m", "tests.e2e.schedulers", str(home), given, **failing)
        self.popen = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said: queue.Queue[str] = queue.Queue()
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self) -> None:
        assert self.popen.stdout is not None
        with self.popen.stdout as lines:
            for line in lines:
                self.said.put(line)

    def ready(self) -> None:
        assert self.said.get(timeout=PATIENCE) == "ready\n"

    def next(self, timeout: float = PATIENCE) -> dict[str, Any]:
        """What the loop says next."""
        found: dict[str, Any] = json.loads(self.said.get(timeout=timeout))
        return found

    def published(self, timeout: float = PATIENCE) -> dict[str, Any]:
        """Wait until the loop has published a group; others it may have left alone."""
        while (found := self.next(timeout))["outcome"] != "PUBLISHED":
            assert found["outcome"] == "SKIPPED", found
        return found

    def stopped(self) -> None:
        """Wait until the process has fallen asleep."""
        found = os.waitid(os.P_PID, self.popen.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert found is not None and found.si_status == signal.SIGSTOP

    def wake(self) -> None:
        self.popen.send_signal(signal.SIGCONT)

    def __enter__(self) -> SchedulerProcess:
        return self

    def __exit__(self, *raised: object) -> None:
        self.popen.kill()
        self.popen.wait()
        self.listener.join()


def main(home: str, settings: str) -> None:
    def watch(results: Any) -> None:
        for each in results:
            if each["outcome"] != "NO_DATA" and each["reason"] != "not due":
                print(json.dumps(each, default=str), flush=True)

    with anabranch.connect(home, **json.loads(settings)) as ab:
        assert ab.spark
        print("ready", flush=True)
        loop.run(ab._runtime, threading.Event(), watch=watch)


if __name__ == "__main__":
    main(*sys.argv[1:])
