"""Whose fault a failure is, from what Spark says of it."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.base import IllegalArgumentException

from anabranch.errors import DataError, SystemFault, Unsupported, UserError
from anabranch.spark.errors import Blame, blame, said, translate

CALL = "An error occurred while calling z:org.apache.spark.sql.classic.Dataset.ofRows.\n: "
TASK = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 14.0 failed "
    "1 times, most recent failure: Lost task 0.0 in stage 14.0 (TID 14) (192.0.2.2 executor driver): "
)
STACK = "\n\tat org.apache.spark.executor.Executor$TaskRunner.run(Executor.scala:906)"


class Java(Exception):
    """As py4j hands on what Java threw."""

    __module__ = "py4j.protocol"


def conditions() -> dict[str, str]:
    for jar in Path(pyspark.__file__).parent.glob("jars/spark-common-utils*.jar"):
        with zipfile.ZipFile(jar) as archive:
            if "error/error-conditions.json" in archive.namelist():
                found = json.loads(archive.read("error/error-conditions.json"))
                return {name: each.get("sqlState", "") for name, each in found.items()}
    raise AssertionError("no list of conditions")


def test_every_data_exception_of_spark_may_be_the_data_s() -> None:
    about_data = {
        name: state
        for name, state in conditions().items()
        if re.match("22(?!022|KD)|21000", state) and not name.startswith(("PARSE_", "UNRESOLVED_"))
    }
    assert len(about_data) > 100
    for name, state in about_data.items():
        text = f"[{name}] Some value is wrong. SQLSTATE: {state}"
        assert blame(Java(f"{CALL}org.apache.spark.SparkException: {text}")) is Blame.OPEN, name
        wrapped = (
            f"[TASK_WRITE_FAILED] Task failed. SQLSTATE: 58030\nCaused by: x.YException: {text}"
        )
        assert blame(Java(wrapped)) is Blame.OPEN, name
        assert isinstance(translate(AnalysisException(message=text), {}), UserError), name


def test_a_query_that_is_nested_too_deeply_is_the_user_s() -> None:
    name = "spark.sql.analyzer.maxIterations"
    text = f"Max iterations (1000) reached for batch Resolution, please set '{name}' to a larger value."
    found = translate(Java(f"{CALL}java.lang.RuntimeException: {text}"), {})
    assert isinstance(found, Unsupported) and f"spark.conf.{name}" in (found.hint or "")


@pytest.mark.parametrize(
    "thrown",
    [
        "java.lang.IllegalArgumentException: Illegal sequence boundaries: 1 to -5 by 1",
        "java.lang.IllegalArgumentException: requirement failed: Illegal sequence boundaries",
        "java.lang.ArithmeticException: long overflow",
        "java.time.DateTimeException: Unknown time-zone ID: No/Where",
        "java.time.format.DateTimeParseException: Text",
        "java.lang.NumberFormatException: For input string",
        "java.util.regex.PatternSyntaxException: Unclosed group",
        "java.util.UnknownFormatConversionException: Conversion = 'y'",
        "java.util.MissingFormatArgumentException: Format specifier '%d'",
        "org.apache.spark.SparkIllegalArgumentException: [INVALID_FORMAT.MISMATCH_INPUT] The input "
        "a5 does not match the format. SQLSTATE: 42601",
    ],
)
def test_a_value_that_a_function_cannot_take(thrown: str) -> None:
    in_task = Java(CALL + TASK + thrown + STACK)
    assert isinstance(translate(in_task, {}), DataError)
    assert blame(in_task) is Blame.OPEN


def test_an_exception_that_says_its_class_by_its_stack_only() -> None:
    error = IllegalArgumentException(message="Illegal sequence boundaries: 1 to -5 by 1")
    assert blame(error) is Blame.PLAN
    error._stackTrace = f"java.lang.IllegalArgumentException: Illegal{STACK}"  # type: ignore[attr-defined]
    assert blame(error) is Blame.OPEN


@pytest.mark.parametrize(
    "thrown",
    [
        "[INTERNAL_ERROR_ATTRIBUTE_NOT_FOUND] Could not find cancelled#12 in [id#1]. SQLSTATE: XX000",
        "java.util.NoSuchElementException: key not found: cancelled#12",
        "java.util.NoSuchElementException: key not found: IOException#12",
        "java.lang.IllegalStateException: Couldn't find FetchFailed#3 in [TimeoutException#4]",
        "org.codehaus.commons.compiler.InternalCompilerException: Code grows beyond 64 KB",
        "org.codehaus.janino.CompileException: Line 3: no such method",
        "scala.MatchError: cancelled#1 (of class X)",
    ],
)
def test_our_faults_whatever_columns_are_called(thrown: str) -> None:
    for text in (thrown, CALL + thrown):
        assert blame(Java(text)) is Blame.PLAN, text
    # among rows: the query as it was written tells
    assert blame(Java(CALL + TASK + thrown + STACK)) is Blame.OPEN


@pytest.mark.parametrize(
    "thrown",
    [
        "[SPARK_JOB_CANCELLED] Job 3 cancelled as part of cancellation of all jobs SQLSTATE: XXKDA",
        "org.apache.spark.SparkException: Job 3 cancelled because SparkContext went away",
        "java.lang.IllegalStateException: cannot read\nCaused by: java.io.IOException: reset by peer",
        "java.net.SocketTimeoutException: Read timed out",
        "java.lang.OutOfMemoryError: Java heap space",
        "java.io.UncheckedIOException: No space left on device",
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)",
        "[TASK_WRITE_FAILED] Task failed while writing rows to f. SQLSTATE: 58030",
        "[UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 65536 bytes of memory. SQLSTATE: 53200",
    ],
)
def test_the_world_s_faults(thrown: str) -> None:
    for text in (thrown, CALL + thrown, CALL + TASK + thrown + STACK):
        assert isinstance(translate(Java(text), {}), SystemFault), text


def test_messages_name_the_thing() -> None:
    assert said(Java(f"{CALL}java.lang.IllegalStateException: Couldn't find x#1")) == (
        "Couldn't find x#1"
    )
    assert said(
        Java(f"{CALL}{TASK}java.util.UnknownFormatConversionException: Conversion = 'y'")
    ) == ("Conversion = 'y'")
    assert said(Java("An error occurred while calling o12.save.\n: x.AException: of it")) == "of it"
