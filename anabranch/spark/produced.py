"""How many rows a write produced, told by Spark and not by what lies on disk.

The tasks of a write count their rows for Spark's own statistics, which reach the driver with the
results of the tasks, whatever disk they wrote to: reading that number costs nothing.  It lies in Java
and is not public, so a session without it, such as one on a Connect server, observes the rows on their
way instead (`DataFrame.observe`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from anabranch.spark import private

ROWS = "rows"
Prepare = Callable[[DataFrame], Any]  # a frame's writer, with all its options
_counts_itself = True  # until a version of Spark shows that it cannot be asked


def save(frame: DataFrame, prepare: Prepare, folder: Callable[[], str]) -> tuple[str, int]:
    """Write a frame as Parquet into a new folder: the folder, and the rows that were produced."""
    global _counts_itself  # noqa: PLW0603  a property of the Spark that this process runs
    directory = folder()
    if _counts_itself and private.is_classic(frame):
        run = private.write_of(frame, prepare(frame), directory)
        if run is None:
            _counts_itself = False
        else:
            counted = private.rows_written(run())
            if counted is not None:
                return directory, counted
            private.remove(frame.sparkSession, directory)  # it is written once more, and counted
            directory = folder()
    return directory, _observed(frame, prepare, directory)


def _observed(frame: DataFrame, prepare: Prepare, directory: str) -> int:
    seen = Observation()
    prepare(frame.observe(seen, F.count(F.lit(1)).alias(ROWS))).parquet(directory)
    return int(seen.get[ROWS])
