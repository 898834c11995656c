"""What bounds a Spark job from within: the rows of a task, and the time of all jobs of a block."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.spark.errors import DATA, whole_text
from anabranch.spark.session import is_remote

TOO_MANY_ROWS = "more rows than a round may find"
AGAIN = 0.5  # seconds after which whatever was started meanwhile is cancelled too
_OF_A_TASK = (1 << 33) - 1  # the bits in which `monotonically_increasing_id` counts rows of a task


def at_most(rows: DataFrame, most: int) -> DataFrame:
    """The rows, of which no task computes more than `most`: then the job fails."""
    count = F.monotonically_increasing_id().bitwiseAND(F.lit(_OF_A_TASK))
    refused = F.raise_error(F.lit(f"{DATA}{TOO_MANY_ROWS}")).cast("boolean")
    return rows.where(F.when(count < most, F.lit(True)).otherwise(refused))


def is_too_many(error: BaseException) -> bool:
    return TOO_MANY_ROWS in whole_text(error)


@contextmanager
def deadline(session: SparkSession, seconds: float | None) -> Iterator[Callable[[], bool]]:
    """Cancel the jobs that this thread starts inside once the time is over; gives whether it is."""
    if seconds is None:
        yield lambda: False
        return
    tag, done, over = f"anabranch-{uuid.uuid4().hex}", threading.Event(), threading.Event()

    # A session of this process knows the tags of its own thread only: its context knows all.
    if is_remote(session):
        add, cancel, remove = session.addTag, session.interruptTag, session.removeTag
    else:
        context = session.sparkContext
        add, remove = context.addJobTag, context.removeJobTag
        cancel = context.cancelJobsWithTag  # type: ignore[assignment]

    def watch() -> None:
        left = max(seconds, 0.0)
        while not done.wait(left):
            over.set()
            with suppress(Exception):  # the thread that waits for the job sees what is wrong
                cancel(tag)
            left = AGAIN

    watcher = threading.Thread(target=watch, name="anabranch-deadline", daemon=True)
    add(tag)
    watcher.start()
    try:
        yield over.is_set
    finally:
        done.set()
        watcher.join()
        remove(tag)
