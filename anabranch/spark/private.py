"""The private parts of PySpark that Anabranch uses: all of them are here.

Each has a public way beside it, which is taken where the private one is not there or not as it was,
such as in another version or on a Connect server.  That is noted once (see `missing`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from anabranch import missing

NOT_THERE = (Py4JError, *missing.NOT_THERE)
PRODUCED = "numOutputRows"  # the metric of a write
# Classes of Java that PySpark looks up by name whenever it builds a frame.
LOOKED_UP = ("PythonUtils", "functions", "org.apache.spark.sql.functions")


class _Noting(missing.Noting):
    """What Java itself says, or a broken connection, is passed on."""

    def is_missing(self, error: BaseException) -> bool:
        passed_on = isinstance(error, (Py4JJavaError, Py4JNetworkError))
        return isinstance(error, NOT_THERE) and not passed_on


# -- the JVM of this process -------------------------------------------------------------------------


def is_running() -> bool:
    """Whether this process runs a Spark."""
    with _Noting("SparkContext._active_spark_context", "active sessions are asked for"):
        return SparkContext._active_spark_context is not None
    return SparkSession.getActiveSession() is not None


def end_java(patience: float) -> None:
    """Java ends, and writes what it has to, when its input does."""
    with _Noting("SparkContext._gateway", "Java is left to end with this process"):
        gateway = SparkContext._gateway
        process = getattr(gateway, "proc", None)
        if gateway is None or process is None:
            return
        gateway.shutdown()
        process.stdin.close()
        process.wait(patience)
        SparkContext._gateway = SparkContext._jvm = None


def find_once(context: Any) -> None:
    """A class that is named without its package is searched for in several, each in all archives."""
    with _Noting("SparkContext._jvm", "Java classes are looked up each time"):
        for name in LOOKED_UP:
            vars(context._jvm)[name] = getattr(context._jvm, name)


def lighten(context: Any) -> None:
    """Spare a Spark of one process what takes time with every file it writes or reads.

    A checksum has a file of its own, with a process that sets its permissions, and is calculated again
    by every reader; Parquet has checksums of its own.  All of Hadoop's settings go along with every
    scan, and half of them are YARN's defaults.
    """
    with _Noting("SparkContext._jsc", "Hadoop keeps checksums of local files and all its settings"):
        hadoop = context._jsc.hadoopConfiguration()
        with suppress(Py4JJavaError):  # `fs.file.impl` may name a file system that has none
            files = context._jvm.org.apache.hadoop.fs.FileSystem.getLocal(hadoop)
            files.setWriteChecksum(False)
            files.setVerifyChecksum(False)
        if hadoop.getResource("yarn-site.xml") is None:
            given = {name.removeprefix("spark.hadoop.") for name, _ in context.getConf().getAll()}
            for name in list(hadoop.getValByRegex(r"^yarn\.")):
                if name not in given:
                    hadoop.unset(name)


def executors(session: Any) -> frozenset[str]:
    """The driver and the executors that there are now; none if they cannot be asked for."""
    try:
        status = session.sparkContext._jsc.sc().getExecutorMemoryStatus()
        return frozenset(status.keys().mkString(" ").split(" "))
    except NOT_THERE as error:
        missing.note("SparkContext._jsc", "executors are found by a job", error)
        return frozenset()


def give_rdds_to(session: SparkSession) -> None:
    """What becomes of an RDD belongs to the newest session of a process, unless told otherwise."""
    with _Noting(
        "pyspark.sql.session._monkey_patch_RDD", "RDDs become frames of the newest session"
    ):
        from pyspark.sql.session import _monkey_patch_RDD

        _monkey_patch_RDD(session)


# -- frames ------------------------------------------------------------------------------------------


def is_classic(frame: DataFrame) -> bool:
    """Whether a frame is planned in this process, and not by a Connect server."""
    return hasattr(frame, "_jdf")


def is_deterministic(frame: DataFrame) -> bool:
    """Whether a second look at a frame surely finds the same rows."""
    if is_classic(frame):
        with _Noting("DataFrame._jdf", "rows that may be read twice are computed once, and cached"):
            plan: Any = frame._jdf
            return bool(plan.queryExecution().analyzed().deterministic())
    return False


def reader_beside(session: Any, settings: Mapping[str, str]) -> DataFrameReader | None:
    """A reader with other settings, by a session beside the given one; None: there can be none.

    It is one of Java's alone: a session of Python's would change what RDDs belong to.
    """
    with _Noting("DataFrameReader._jreader", "rows are numbered by Spark when files are read"):
        other = session_beside(session, settings)
        found: DataFrameReader = session.read
        if not hasattr(found, "_jreader"):
            raise AttributeError("DataFrameReader has no _jreader")
        found._jreader = other.read()
        return found
    return None


def session_beside(session: Any, settings: Mapping[str, str]) -> Any:
    """A session of Java's with the settings of the moment, and others."""
    other = session._jsparkSession.cloneSession()
    for name, value in settings.items():
        other.conf().set(name, value)
    return other


def tasks_of(frame: DataFrame) -> int | None:
    """How many tasks would run a frame; None if its plan cannot be asked."""
    with _Noting("DataFrame._jdf", "rows are numbered by Spark when files are read"):
        plan: Any = frame._jdf
        return int(plan.queryExecution().toRdd().getNumPartitions())
    return None


# -- writes ------------------------------------------------------------------------------------------


def write_of(frame: DataFrame, writer: Any, directory: str) -> Callable[[], Any] | None:
    """A write as Parquet that can be asked for its own count, ready to run; None: there is none."""
    session: Any = frame.sparkSession
    with _Noting("DataFrameWriter._jwrite", "rows that are written are counted on their way"):
        java = session._jvm
        command = writer.format("parquet")._jwrite.saveCommand(java.scala.Option.apply(directory))
        run = java.org.apache.spark.sql.classic.Dataset.ofRows
        return lambda: run(session._jsparkSession, command)
    return None


def rows_written(done: Any) -> int | None:
    """The count of a write that has run; None if it cannot be read."""
    try:
        plan = done.queryExecution().commandExecuted().commandPhysicalPlan()
        return int(_writing(plan).metrics().apply(PRODUCED).value())
    except Py4JNetworkError:
        raise
    except (*NOT_THERE, ValueError) as error:
        missing.note("the metrics of a write", "its rows are counted on their way", error)
        return None


def _writing(plan: Any) -> Any:
    """The part of a plan that writes: adaptive execution wraps it, and its last stage."""
    for inner in ("executedPlan", "plan"):
        if not plan.metrics().contains(PRODUCED) and hasattr(plan, inner):
            plan = getattr(plan, inner)()
    return plan


def remove(session: Any, directory: str) -> None:
    """Delete a folder that a write has made."""
    path = session._jvm.org.apache.hadoop.fs.Path(directory)
    path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()).delete(path, True)


# -- errors ------------------------------------------------------------------------------------------


def causes(error: BaseException | None) -> Sequence[BaseException]:
    """An error and what it comes from, in Java too."""
    found: list[BaseException] = []
    while error is not None and len(found) < 10:
        found.append(error)
        error = _of_java(error, "_cause") or error.__cause__
    return found


def stack_trace(error: BaseException) -> str:
    """Java's stack trace; without it the message has to do."""
    return _of_java(error, "_stackTrace") or ""


def _of_java(error: BaseException, name: str) -> Any:
    if not isinstance(error, CapturedException):
        return getattr(error, name, None)
    with _Noting(f"CapturedException.{name}", "errors are classified by their messages alone"):
        return getattr(error, name)
    return None
