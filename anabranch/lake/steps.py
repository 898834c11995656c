"""The steps of a publish, so that tests can stop a process exactly there.

With `ANABRANCH_KILL_AT=<step>` in its environment a process kills itself at that step, as hard as a
power cut; with `<step>:<n>` when it comes there for the n-th time.  With `ANABRANCH_STOP_AT` it falls
asleep there until somebody wakes it with SIGCONT.  `at_step` may also be replaced in a test.
"""

from __future__ import annotations

import os
import signal

STAGED = "staged"  # data files and manifests are written
METADATA_WRITTEN = "metadata_written"  # and all new metadata files
IN_TRANSACTION = "in_transaction"  # all pointers are moved, nothing is committed
PUBLISHED = "published"  # committed
ROUND = "round_"  # and a number: so many rounds of a fixed point are done
BEGUN = "begun"  # a deployment is written down, nothing of it is built
STEPS = (STAGED, METADATA_WRITTEN, IN_TRANSACTION, PUBLISHED)

FAULTS = {"ANABRANCH_KILL_AT": signal.SIGKILL, "ANABRANCH_STOP_AT": signal.SIGSTOP}
_times = dict.fromkeys(FAULTS, 0)


def at_step(step: str) -> None:
    for fault, sent in FAULTS.items():
        name, _, number = os.environ.get(fault, "").partition(":")
        if name == step:
            _times[fault] += 1
            if _times[fault] == int(number or 1):
                os.kill(os.getpid(), sent)
