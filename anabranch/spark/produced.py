"""How many rows a write produced, told by Spark and not by what lies on disk.

The tasks of a write count their rows for Spark's own statistics, which reach the driver with the
results of the tasks, whatever disk they wrote to: reading that number costs nothing.  It lies in Java
and is not public, so a session without it, such as one on a Connect server, observes the rows on their
way instead (`DataFrame.observe`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

log = logging.getLogger("anabranch")

ROWS = "rows"
PRODUCED = "numOutputRows"  # the metric of a write
Prepare = Callable[[DataFrame], Any]  # a frame's writer, with all its options
_counts_itself = True  # until a version of Spark shows that it cannot be asked


def save(frame: DataFrame, prepare: Prepare, folder: Callable[[], str]) -> tuple[str, int]:
    """Write a frame as Parquet into a new folder: the folder, and the rows that were produced."""
    global _counts_itself  # noqa: PLW0603  a property of the Spark that this process runs
    directory = folder()
    if _counts_itself and hasattr(frame, "_jdf"):
        run = _command(frame, prepare(frame), directory)
        if run is None:
            _counts_itself = False
        else:
            counted = _counted(run())
            if counted is not None:
                return directory, counted
            _remove(frame, directory)  # what was written is written once more, and counted
            directory = folder()
    return directory, _observed(frame, prepare, directory)


def _command(frame: DataFrame, writer: Any, directory: str) -> Callable[[], Any] | None:
    """The write, ready to run; None where this Spark has no such thing."""
    session: Any = frame.sparkSession
    jvm = session._jvm
    try:
        command = writer.format("parquet")._jwrite.saveCommand(jvm.scala.Option.apply(directory))
        run = jvm.org.apache.spark.sql.classic.Dataset.ofRows
    except (Py4JJavaError, Py4JNetworkError):
        raise
    except (Py4JError, AttributeError, TypeError) as error:
        log.warning(
            "this Spark does not tell how many rows it wrote, they are counted on their way: %s",
            error,
        )
        return None
    return lambda: run(session._jsparkSession, command)


def _counted(done: Any) -> int | None:
    """The command's own count; None if it cannot be read this time."""
    try:
        plan = done.queryExecution().commandExecuted().commandPhysicalPlan()
        return int(_writing(plan).metrics().apply(PRODUCED).value())
    except Py4JNetworkError:
        raise
    except (Py4JError, AttributeError, TypeError, ValueError) as error:
        log.warning("the rows of a write are counted on their way, because: %s", error)
        return None


def _writing(plan: Any) -> Any:
    """The part of a plan that writes: adaptive execution wraps it, and its last stage."""
    for inner in ("executedPlan", "plan"):
        if not plan.metrics().contains(PRODUCED) and hasattr(plan, inner):
            plan = getattr(plan, inner)()
    return plan


def _remove(frame: DataFrame, directory: str) -> None:
    session: Any = frame.sparkSession
    path = session._jvm.org.apache.hadoop.fs.Path(directory)
    path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()).delete(path, True)


def _observed(frame: DataFrame, prepare: Prepare, directory: str) -> int:
    seen = Observation()
    prepare(frame.observe(seen, F.count(F.lit(1)).alias(ROWS))).parquet(directory)
    return int(seen.get[ROWS])
