"""The steps of a publish, so that tests can stop a process exactly there.

With `ANABRANCH_KILL_AT=<step>` in its environment a process kills itself at that step, as hard as a
power cut.  `at_step` may also be replaced in a test.
"""

from __future__ import annotations

import os
import signal

STAGED = "staged"  # data files and manifests are written
METADATA_WRITTEN = "metadata_written"  # and all new metadata files
IN_TRANSACTION = "in_transaction"  # all pointers are moved, nothing is committed
PUBLISHED = "published"  # committed
STEPS = (STAGED, METADATA_WRITTEN, IN_TRANSACTION, PUBLISHED)


def at_step(step: str) -> None:
    if os.environ.get("ANABRANCH_KILL_AT") == step:
        os.kill(os.getpid(), signal.SIGKILL)
