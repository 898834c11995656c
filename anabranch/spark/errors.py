"""What Spark says, as one of our errors: one line, a hint, never a stack of Java calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from pyspark.errors import AnalysisException, ParseException, PySparkException

from anabranch.errors import (
    AnabranchError,
    DataError,
    FileDamaged,
    FileMissing,
    InternalError,
    PlanFailed,
    Refused,
    SchemaError,
    SparkLost,
    SqlSyntaxError,
    SystemFault,
    UnknownName,
    Unsupported,
    UserError,
)
from anabranch.spark.private import causes, stack_trace

DATA = "anabranch data: "  # marks of messages that our own plans raise inside a job
INTERNAL = "anabranch internal: "

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
_ADVICE = re.compile(
    r",?\s+(?:If necessary|Correct the|Use `?(?:try_|ANSI)|You can|To return|try increasing).*"
)
_RAISED = re.compile(f"({DATA}|{INTERNAL})(.+)")
_WRAPPERS = frozenset({"TASK_WRITE_FAILED", "WRITING_JOB_ABORTED", "JOB_ABORTED", "INTERNAL_ERROR"})

_UNKNOWN = ("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD", "FIELD_NOT_FOUND", "UNRESOLVED_ROUTINE")
# A row's value is at fault, says the SQL standard: data exceptions (class 22, but for the states of
# settings and of modules that are not loaded) and a subquery of too many rows ...
_DATA_STATE = re.compile(r"22(?!022|KD)|21000")
_DATA = (  # ... and what Spark files elsewhere.
    "RECURSION_LEVEL_LIMIT_EXCEEDED",
    "USER_RAISED_EXCEPTION",
    "DUPLICATED_MAP_KEY",
    "NOT_NULL_ASSERT_VIOLATION",
    "EXCEED_LIMIT_LENGTH",
    "COLLECTION_SIZE_LIMIT_EXCEEDED",
)
_WORLD_STATE = re.compile(r"08|53|57|58|XXKDA")
_HINTS = {
    "DIVIDE_BY_ZERO": "use try_divide to get NULL instead",
    "REMAINDER_BY_ZERO": "use try_mod to get NULL instead",
    "CAST_INVALID_INPUT": "use try_cast to get NULL instead",
    "CAST_OVERFLOW": "use try_cast to get NULL instead, or a wider type",
    "ARITHMETIC_OVERFLOW": "cast to a wider type first",
    "BINARY_ARITHMETIC_OVERFLOW": "cast to a wider type first",
    "NUMERIC_VALUE_OUT_OF_RANGE": "use a wider type",
    "RECURSION_LEVEL_LIMIT_EXCEEDED": "a cycle in the data, or values that grow, never end; a deeper "
    "recursion needs a higher max_fixpoint_iterations, of the stream table or as a setting",
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": "a subquery used as a value may return one row only",
}
REPORT = "this is a fault of Anabranch or Spark, not of your data: please report it with the query"
# The class of an exception where Java names it: at the start of a message or behind a colon.
_THROWN = re.compile(r"(?:^|: )(?:[a-z]\w*\.)+(\w+(?:Exception|Error|Failure))\b", re.MULTILINE)
_IN_TASK = re.compile(r"Executor\$TaskRunner|scheduler\.Task\.run\(|Lost task \d")
# Exceptions that functions throw inside a task at a value they cannot take.
_BAD_VALUE = re.compile(
    r"(?:Spark)?(?:IllegalArgument|DateTime|DateTimeParse|Arithmetic|NumberFormat)Exception"
    r"|(?:Unknown|Illegal|Missing|Duplicate)Format\w*Exception|PatternSyntaxException"
    r"|NegativeArraySizeException|FormatFlagsConversionMismatchException"
)
# Exceptions that tell of a plan that cannot be right, wherever they are raised ...
_BUG = re.compile(
    r"(?:Spark)?(?:NoSuchElement|NullPointer|IllegalState|IllegalArgument|UnsupportedOperation"
    r"|ClassCast|(?:Array)?IndexOutOfBounds|TreeNode)Exception"
    r"|MatchError|AssertionError|StackOverflowError|NotImplementedError|\w*Compile\w*Exception"
)
_BUG_TEXT = re.compile(r"Couldn't find |key not found|does not exist in the JVM|beyond 64 KB")
# ... unless the world was in the way.
_WORLD = re.compile(
    r"\w*(?:IO|Socket|Timeout|Connect|Interrupted|AccessDenied|UnknownHost)Exception"
    r"|\w*OutOfMemoryError|ExecutorLostFailure"
)
_WORLD_TEXT = re.compile(
    r"No space left on device|Disk quota exceeded|\bJob \S+ (?:was )?cancelled\b"
    r"|ExecutorLostFailure \(|Lost executor \S+ on |FetchFailed\("
)
_TOO_DEEP = re.compile(r"Max iterations \(\d+\) reached for batch \w+, please set '([\w.]+)'")
_OUT_OF_MEMORY = re.compile(r"\w*OutOfMemoryError")
_BAD_PAGE = re.compile(r"CRC checksum verification failed|is not a Parquet file")
# What readers of Parquet raise at a header, a length or a value that cannot be.
_BAD_FILE = re.compile(r"Parquet(?:Decoding|CorruptedFooter)Exception|Zstd(?:IO)?Exception")
_BAD_FILE_THROWN = re.compile(
    r"(?:Exception|Error)\b[^\n]*\n\s*at (?:shaded\.parquet|org\.apache\.parquet|com\.github\.luben)\."
)
_MISSING = ("FAILED_READ_FILE", "PATH_NOT_FOUND", "CANNOT_READ_FILE", "FILE_NOT_FOUND")


@contextmanager
def translated(labels: Mapping[str, str] | None = None) -> Iterator[None]:
    """Inside, whatever Spark raises becomes one of our errors.

    `labels` maps names of internal views to the table names that people know.
    """
    try:
        yield
    except AnabranchError:
        raise
    except Exception as error:  # py4j and gRPC have their own trees
        found = translate(error, labels or {})
        if found is None:
            raise
        raise found from error


def translate(error: BaseException, labels: Mapping[str, str]) -> AnabranchError | None:
    """The error of ours that says the same, or None for an error that is not Spark's."""
    if is_lost(error):
        return SparkLost("the Spark session ended", hint="start the process again")
    text = relabel(whole_text(error), labels)
    if not isinstance(error, PySparkException) and not _foreign(error):
        return None
    if raised := _RAISED.search(text):
        kind = DataError if raised.group(1) == DATA else InternalError
        return kind(_first_line(raised.group(2)))
    if "doesn't contain any field Ids" in text:
        return Unsupported(
            "a data file carries no field ids, so its columns cannot be identified",
            hint="rewrite the table with a writer that follows the Iceberg specification",
        )
    condition = condition_of(error, text)
    parameters = {key: relabel(value, labels) for key, value in _parameters(error).items()}
    return _judge(condition, parameters, text, failure_of(error, condition, text))


@dataclass(frozen=True)
class Failure:
    """What tells whose fault it is, apart from the words."""

    state: str = ""  # SQLSTATE
    thrown: frozenset[str] = frozenset()  # classes of the exceptions, without their packages
    in_task: bool = False
    analysis: bool = False  # no row was looked at
    at_file: bool = False  # by what reads a file's format, not by what reads its bytes

    def names(self, classes: re.Pattern[str]) -> bool:
        return any(classes.fullmatch(name) for name in self.thrown)


def failure_of(error: BaseException, condition: str, text: str) -> Failure:
    known = {type(each).__name__ for each in causes(error) if isinstance(each, PySparkException)}
    evidence = "\n".join([text, *map(stack_trace, causes(error))])
    in_task = _IN_TASK.search(evidence) is not None
    return Failure(
        state=_state(error, condition, text),
        thrown=frozenset(known | set(_THROWN.findall(evidence))),
        in_task=in_task,
        at_file=_BAD_FILE_THROWN.search(evidence) is not None,
        analysis=isinstance(error, (AnalysisException, ParseException)) and not in_task,
    )


def _state(error: BaseException, condition: str, text: str) -> str:
    """The SQLSTATE of the condition, which may be that of a cause."""
    own = isinstance(error, PySparkException) and error.getCondition() == condition
    if own and (state := error.getSqlState()):  # type: ignore[attr-defined]
        return str(state)
    at = text.find(f"[{condition}]") if condition else -1
    found = re.compile(r"SQLSTATE: (\w{5})").search(text, at) if at >= 0 else None
    return found.group(1) if found else ""


def _judge(
    condition: str, parameters: Mapping[str, str], text: str, failure: Failure
) -> AnabranchError:
    message = short(text, condition)
    base = condition.split(".")[0]
    if base == "PARSE_SYNTAX_ERROR" or condition.startswith("PARSE_"):
        return _syntax_error(message, text)
    if base in _UNKNOWN:
        return _unknown_name(message, parameters)
    if base == "TABLE_OR_VIEW_NOT_FOUND":
        name = plain(parameters.get("relationName", ""))
        return UnknownName(f"there is no table {name}" if name else message)
    if base in _DATA or (_DATA_STATE.match(failure.state) and not failure.analysis):
        return DataError(message, hint=_HINTS.get(base))
    if base in _MISSING or "FileNotFoundException" in failure.thrown:
        return _unreadable(text, message, is_damage(condition, text, failure))
    if deep := _TOO_DEEP.search(text):
        return Unsupported(
            "the query is nested too deeply for Spark",
            hint=f"make a stream table of a part of it, or raise spark.conf.{deep[1]}",
        )
    if failure.names(_OUT_OF_MEMORY):
        return SystemFault("Spark ran out of memory", hint="raise spark.conf.spark.driver.memory")
    if "SparkContext was shut down" in text or "stopped SparkContext" in text:
        return SparkLost("the Spark session ended", hint="start the process again")
    if is_bad_value(base, failure):
        return DataError(message)
    if base in _WRAPPERS or not base or base.startswith("INTERNAL_ERROR"):
        bug = is_bug(base, text, failure)
        return InternalError(message, hint=REPORT) if bug else SystemFault(message)
    if _WORLD_STATE.match(failure.state):
        return SystemFault(message)
    return UserError(message)


def is_damage(condition: str, text: str, failure: Failure) -> bool:
    """Whether a file is there and can be reached, but is not what was written."""
    if _BAD_PAGE.search(text) or failure.names(_BAD_FILE):
        return True
    if condition != "FAILED_READ_FILE.NO_HINT" or "FileNotFoundException" in failure.thrown:
        return False
    return failure.at_file or not failure.names(_WORLD)


def _unreadable(text: str, message: str, damaged: bool) -> FileMissing:
    path = _path(text)
    if damaged:
        return FileDamaged(
            f"a data file is damaged: {path or message}: a page is not the one that was written",
            hint="anabranch check --deep finds what else is damaged, and --repair rebuilds what it can",
            path=path,
        )
    return FileMissing(
        f"a data file cannot be read: {path or message}",
        hint="the file was removed, or Spark cannot reach the warehouse",
        path=path,
    )


def is_bad_value(condition: str, failure: Failure) -> bool:
    """Whether a function met a value it cannot take."""
    return (
        failure.in_task
        and failure.names(_BAD_VALUE)
        and not failure.names(_WORLD)
        and not condition.startswith("INTERNAL_ERROR")
    )


def is_bug(condition: str, text: str, failure: Failure) -> bool:
    """Whether Spark broke on a plan, and not on the world."""
    if failure.names(_WORLD) or _WORLD_TEXT.search(text):
        return False
    found = failure.names(_BUG) or _BUG_TEXT.search(text) is not None
    return found or condition.startswith("INTERNAL_ERROR")


class Blame(Enum):
    """Whose fault it is that a job failed, as far as the error alone tells."""

    WORLD = "the world's"
    PLAN = "ours"
    OPEN = "ours or the data's: the query as it was written decides"


def blame(error: BaseException) -> Blame:
    """Whose fault it is that a job failed which we planned for a query that Spark accepts.

    The query itself was analysed before, so whatever Spark's parser, analyser or optimizer holds
    against the job is a fault of our plan; so is an exception of our own code.  What was raised while
    rows were computed may be either: a plan can make values that are in no row of the query.
    """
    if isinstance(error, DataError):
        return Blame.OPEN
    if isinstance(error, (SchemaError, Refused, Unsupported)):
        return Blame.WORLD
    origin = spark_error(error)
    if isinstance(error, SystemFault):
        unclear = type(error) is SystemFault and origin is not None and not _of_the_world(origin)
        return Blame.OPEN if unclear else Blame.WORLD
    if isinstance(error, AnabranchError):
        ours = isinstance(error, PlanFailed) or origin is None or INTERNAL in whole_text(origin)
        return Blame.PLAN if ours or not _in_task(origin) else Blame.OPEN
    if is_lost(error) or isinstance(error, (OSError, MemoryError)):
        return Blame.WORLD
    found = translate(error, {})
    if found is None:
        return Blame.PLAN
    found.__cause__ = error
    return blame(found)


def spark_error(error: BaseException | None) -> BaseException | None:
    """What Spark raised, below our own words for it."""
    found = (each for each in causes(error) if isinstance(each, PySparkException) or _foreign(each))
    return next(found, None)


def _in_task(origin: BaseException | None) -> bool:
    return origin is not None and _failure(origin).in_task


def _of_the_world(origin: BaseException) -> bool:
    failure = _failure(origin)
    return bool(
        failure.names(_WORLD)
        or _WORLD_TEXT.search(whole_text(origin))
        or _WORLD_STATE.match(failure.state)
    )


def _failure(origin: BaseException) -> Failure:
    text = whole_text(origin)
    return failure_of(origin, condition_of(origin, text), text)


def as_written_failed(table: object, error: Exception) -> Exception:
    """What to say when Spark ran a query as it was written, without a plan of ours, and failed."""
    if isinstance(error, (DataError, PlanFailed)) or blame(error) is Blame.WORLD:
        return error
    origin = spark_error(error)
    if origin is None:
        return plan_failed(table, error)
    if isinstance(error, (SystemFault, UserError)):
        return error
    if _in_task(origin):
        hint = "Spark fails on these rows with the query as it is written"
        return DataError(f"{table}: {said(error)}", hint=hint)
    return Unsupported(
        f"{table}: Spark cannot plan the query as it is written: {said(error)}",
        hint="write the query differently: Spark fails on it without Anabranch as well",
    )


def said(error: BaseException) -> str:
    """One line of an error; what lies below our own words for a failed plan."""
    cause = error.__cause__ if isinstance(error, PlanFailed) and error.__cause__ else error
    if isinstance(cause, AnabranchError):
        return _first_line(cause.message)
    found = translate(cause, {})
    text = found.message if found is not None else f"{type(cause).__name__}: {cause}"
    return _first_line(text)


def plan_failed(table: object, error: BaseException) -> PlanFailed:
    """What to say of a plan of ours that failed."""
    return PlanFailed(
        f"{table}: a plan of Anabranch failed: {said(error)}",
        hint=f"this is a fault of Anabranch, not of your query or data: please report it with the "
        f"answer of EXPLAIN STREAM TABLE {table}; REFRESH STREAM TABLE {table} FULL recomputes it, "
        "and REFRESH MODE AUTO does that by itself",
    )


def is_lost(error: BaseException) -> bool:
    """Whether there is no Spark any more that could answer."""
    return isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError"


def _foreign(error: BaseException) -> bool:
    return type(error).__module__.split(".")[0] in ("py4j", "grpc")


def whole_text(error: BaseException) -> str:
    """The message and those of its causes: a failed write hides its reason in the cause."""
    return "\n".join(str(each) for each in causes(error))


def condition_of(error: BaseException, text: str) -> str:
    """Spark's error condition; the reason rather than "job aborted" around it."""
    own = error.getCondition() if isinstance(error, PySparkException) else None
    if own and own.split(".")[0] not in _WRAPPERS:
        return own
    for found in _CONDITION.findall(text):
        if found.split(".")[0] not in _WRAPPERS:
            return str(found)
    return own or ""


def _parameters(error: BaseException) -> Mapping[str, str]:
    return (error.getMessageParameters() or {}) if isinstance(error, PySparkException) else {}


def short(text: str, condition: str) -> str:
    """The sentence that follows the condition, without state, place or stack."""
    at = text.find(f"[{condition}]") if condition else -1
    if at >= 0:
        text = text[at + len(condition) + 2 :]
    return plain(_ADVICE.sub("", _first_line(_STATE.sub("", text))))


def _first_line(text: str) -> str:
    text = re.sub(r"^An error occurred while calling \S+\s*:?\s*", "", text.strip())
    text = re.sub(r"^.*Job aborted due to stage failure: .* executor [\w-]+\): ", "", text)
    line = next((line for line in text.splitlines() if line.strip()), "Spark failed")
    return re.sub(
        r"\s*SQLSTATE: \w+", "", re.sub(r"^[\w.$]+(?:Exception|Error): ", "", line)
    ).strip()


def plain(text: str) -> str:
    """Spark quotes every part of a name; people write shop.sales."""
    return re.sub(r"`([A-Za-z_]\w*)`", r"\1", text)


def relabel(text: str, labels: Mapping[str, str]) -> str:
    for view, name in labels.items():
        text = re.sub(rf"`?\b{re.escape(view)}\b`?", name.replace("\\", "\\\\"), text)
    return text


def _syntax_error(message: str, text: str) -> SqlSyntaxError:
    place = re.search(r"\(line (\d+), pos (\d+)\)", text)
    query = re.search(r"== SQL[^=]*==\n(.*?)(?:\n-*\^\^\^.*|\Z)", text, re.DOTALL)
    if place is None:
        return SqlSyntaxError(message)
    line, column = int(place.group(1)), int(place.group(2)) + 1
    return SqlSyntaxError(
        re.sub(r"\s*\(line \d+, pos \d+\)", "", message),
        text=query.group(1) if query else "",
        line=line,
        column=column,
    )


def _unknown_name(message: str, parameters: Mapping[str, str]) -> UnknownName:
    name = parameters.get("objectName") or parameters.get("fieldName") or ""
    known = [part.strip().split(".")[-1] for part in parameters.get("proposal", "").split(",")]
    if parameters.get("routineName"):
        return UnknownName(f"there is no function {plain(parameters['routineName'])}")
    if not name:
        return UnknownName(message)
    last = name.split(".")[-1].strip("`")
    candidates = [part.strip("`") for part in known if part]
    return UnknownName(f"there is no column {plain(name)}", name=last, known=candidates)


def _path(text: str) -> str | None:
    found = (
        re.search(r"[Ff]ile (\S+) does not exist", text)
        or re.search(r"reading file (\S+\.parquet)", text)
        or re.search(r"(?:file|path)[^:]*: (\S+)", text)
    )
    return found.group(1).rstrip(".") if found else None
